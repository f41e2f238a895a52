"""The chips of the fake framework, from the key `chips` of its script.

Each host has `count` chips. `slower` has the seconds of slow chips by their number on the host.
`then` is an event that happens when the chips are measured, such as ``hang``.
"""

from __future__ import annotations

from busbw.model.machine import VIRTUAL_RANKS
from busbw.worker.backends.fake.backend import FakeBackend, cause_event

from .worker import ChipTimes


def measure_chips(backend: FakeBackend, rounds: int, payload_bytes: int) -> ChipTimes:
    """Return 1 second for each round of a chip, or the seconds that the script says."""
    script = backend.script.get("chips", {})
    cause_event(script.get("then", ""))
    count = script.get("count", backend.script.get("ranks", VIRTUAL_RANKS))
    first, slower = count * backend.index, script.get("slower", {})
    seconds = [float(slower.get(str(number), 1.0)) for number in range(count)]
    return ChipTimes(
        ranks=tuple(range(first, first + count)),
        compute_s=tuple((second,) * rounds for second in seconds),
        copy_s=((1.0,) * rounds,) * count,
    )
