"""What a chain does in every framework: draws take turns, rounds are counted, nothing is stale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from busbw.model.case import Case
from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.framework import AbstractChain, AbstractValues
from tests import build


class Three(AbstractValues):
    """Three draws, of which each result must be the number of rounds behind its own."""

    draws = 3
    unit = "rounds"
    located = "the result is"

    def check_all(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
        assert results == {0: 100 * number + iterations}
        return len(results)


class Counter(AbstractChain):
    """Counts turns of two rounds; skips as many as it is told to."""

    step = 2
    most_iterations = 8
    skipped = 0

    def __init__(self) -> None:
        super().__init__(build.case(), Three())
        self.laid_out: list[int] = []

    @classmethod
    def host_bytes(cls, case: Case) -> int:
        return case.payload_bytes

    def release(self) -> None:
        self._result = None

    def device_peak_bytes(self) -> int | None:
        return None

    def _lay_out(self, number: int) -> None:
        assert self._result is None
        self.laid_out.append(number)

    def _called(self, iterations: int) -> tuple[Any, Any]:
        assert self._result is None
        return iterations // 2 - self.skipped, 100 * self.laid_out[-1] + iterations

    def _compared(self, number: int, iterations: int) -> int:
        return self._values.check_all(number, iterations, {0: self._result})


def test_draws_take_turns_and_each_result_is_held_against_its_own() -> None:
    chain = Counter()
    for _ in range(4):
        chain.fresh()
        chain.run(2)
        chain.run(6)
        assert chain.check(6) == 1
    assert chain.laid_out == [0, 1, 2, 0]


def test_rounds_that_were_not_run_are_a_wrong_result_in_rounds_and_not_in_turns() -> None:
    chain = Counter()
    chain.skipped = 1
    chain.fresh()
    chain.run(6)
    with pytest.raises(MeasuringError, match=r"^the program ran 4 rounds, expected 6$") as raised:
        chain.check(6)
    assert raised.value.kind is FailureKind.WRONG_RESULT
