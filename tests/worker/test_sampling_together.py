"""Processes of a group take their samples together: all decide alike, and the slowest counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError
from busbw.worker.sampling import Gathered, Sampled

from .scripted import BESIDE_S, Program, sampled, sampler

_WAIT_S = 20.0


class Exchange:
    """Values of `count` threads to all of them, as processes of a group have it."""

    def __init__(self, count: int) -> None:
        self._rows: list[tuple[float, ...]] = [()] * count
        self._all_there = threading.Barrier(count, timeout=_WAIT_S)

    def of(self, index: int) -> Gathered:
        """For one of them."""

        def gathered(values: Sequence[float]) -> Sequence[Sequence[float]]:
            self._rows[index] = tuple(values)
            self._all_there.wait()
            rows = list(self._rows)
            self._all_there.wait()
            return rows

        return gathered


class Agreeing(Program):
    """With the digest of what it has."""

    def __init__(self, digest: int) -> None:
        super().__init__()
        self._digest = digest

    @property
    def digest(self) -> int | None:
        return self._digest


def together(programs: Sequence[Program], **plan: Any) -> list[Sampled]:
    """What each finds."""
    exchange = Exchange(len(programs))

    def one(index: int) -> Sampled:
        return sampled(sampler(programs[index], gathered=exchange.of(index), **plan))

    with ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(one, range(len(programs))))


def test_all_of_them_run_the_same_calls_and_have_the_same_samples() -> None:
    programs = [Program(lambda turn: 1e-3), Program(lambda turn: 2e-3 if turn % 2 else 1e-4)]
    one, other = together(programs)
    assert programs[0].calls == programs[1].calls
    assert (one.iterations, one.samples_s) == (other.iterations, other.samples_s)
    assert one.by_process_s == other.by_process_s


def test_a_call_takes_as_long_as_in_the_slowest_process() -> None:
    one, other = together([Program(lambda _: 1e-3), Program(lambda _: 4e-3)])
    assert one.samples_s == pytest.approx((4e-3,) * 4)
    assert [times[0] for times in one.by_process_s] == pytest.approx([1e-3, 4e-3])
    # For every two calls, an empty one and a chain, it lays out and compares once.
    assert one.own_s == pytest.approx((BESIDE_S,) * 2, rel=0.1)
    assert other.samples_s == one.samples_s


def test_the_time_for_sampling_is_over_for_all_of_them_at_once() -> None:
    # The clocks of both move by what they do themselves; one does a thousand times as much.
    programs = [Program(lambda _: 1e-3), Program(lambda _: 1.0)]
    one, other = together(programs, samples=50, budget_s=3000.0)
    assert len(one.samples_s) == len(other.samples_s) < 50


@pytest.mark.parametrize(("digests", "agree"), [((5, 5), True), ((5, 6), False)])
def test_processes_that_must_have_the_same_bits_are_compared(
    digests: tuple[int, int], agree: bool
) -> None:
    run: Callable[[], object] = lambda: together([Agreeing(one) for one in digests])  # noqa: E731
    if agree:
        run()
        return
    with pytest.raises(MeasuringError, match="process 1 no longer agrees with process 0") as found:
        run()
    assert found.value.kind is FailureKind.WRONG_RESULT
