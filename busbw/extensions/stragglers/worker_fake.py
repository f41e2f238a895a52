"""Single chips of the fake framework, by the key `chips` of its script.

On each host are `count` chips. Single chips are `slower`, by their number on the host, and `then`
is what happens when the chips are measured.
"""

from __future__ import annotations

from busbw.model.machine import VIRTUAL_RANKS
from busbw.worker.backends.fake.backend import FakeBackend, cause_event

from .worker import ChipTimes


def chips(backend: FakeBackend, rounds: int, payload_bytes: int) -> ChipTimes:
    """Return a second for each round of a chip, or more for a chip that the script makes slower."""
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
