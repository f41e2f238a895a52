"""The times of simulated chips, from the key `chips` in the script of the framework `fake`.

Each process has `count` chips. `slower` maps the numbers of the slow chips in each process to the
seconds that a computation takes on the chip. `then` is an event that happens when the chips are
measured, such as ``hang``.
"""

from __future__ import annotations

from busbw.model.machine import DEFAULT_VIRTUAL_RANKS
from busbw.worker.backends.fake.backend import FakeBackend, cause_fault

from .worker import ChipTimes


def measure_chips(backend: FakeBackend, rounds: int, payload_bytes: int) -> ChipTimes:
    """Return the times that the script states, the same times in each of the `rounds`.

    A computation takes 1 second, except on the slow chips of the script. A copy takes 1 second. No
    links are timed, so `payload_bytes` is not used.
    """
    script = backend.script.get("chips", {})
    cause_fault(script.get("then", ""))
    count = script.get("count", backend.script.get("ranks", DEFAULT_VIRTUAL_RANKS))
    first, slower = count * backend.index, script.get("slower", {})
    seconds = [float(slower.get(str(number), 1.0)) for number in range(count)]
    return ChipTimes(
        ranks=tuple(range(first, first + count)),
        compute_s=tuple((second,) * rounds for second in seconds),
        copy_s=((1.0,) * rounds,) * count,
    )
