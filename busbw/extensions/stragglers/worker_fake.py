"""The chips of the fake framework, from the key `chips` of its script.

Each host has `count` chips. `slower` maps the numbers of slow chips on their host to seconds.
`then` is an event that happens when the chips are measured, such as ``hang``.
"""

from __future__ import annotations

from busbw.model.machine import VIRTUAL_RANKS
from busbw.worker.backends.fake.backend import FakeBackend, cause_event

from .worker import ChipTimes


def measure_chips(backend: FakeBackend, rounds: int, payload_bytes: int) -> ChipTimes:
    """Return the times from the script of as many `rounds`, whatever the `payload_bytes`.

    A computation takes 1 second, except on the slow chips of the script. A copy takes 1 second.
    There are no links.
    """
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
