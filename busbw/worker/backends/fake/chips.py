"""Single chips of the script: how many there are, and how much slower some of them are."""

from __future__ import annotations

from busbw.model.launch import Chips
from busbw.model.machine import VIRTUAL_RANKS

from .backend import FakeBackend, happen


def chips(backend: FakeBackend, rounds: int, payload_bytes: int) -> Chips:
    """Return a second for each round of a chip, or more for a chip that the script makes slower."""
    script = backend.script.get("chips", {})
    happen(script.get("then", ""))
    count = script.get("count", backend.script.get("ranks", VIRTUAL_RANKS))
    first, slower = count * backend.index, script.get("slower", {})
    seconds = [float(slower.get(str(number), 1.0)) for number in range(count)]
    return Chips(
        ranks=tuple(range(first, first + count)),
        compute_s=tuple((second,) * rounds for second in seconds),
        copy_s=((1.0,) * rounds,) * count,
    )
