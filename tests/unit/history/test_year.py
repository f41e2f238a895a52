"""A simulated year with planted changes: each is found once, on its day, with its size."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from bench.error_rates.agreement import grid
from busbw.history.files import HistoryLine
from busbw.history.levels import MachineHistory, build_machine_history
from busbw.model.case import Case
from busbw.model.field_types import moment_text
from busbw.model.words import MIB
from tests.helpers.history_lines import line
from tests.helpers.sweep import sweep

pytestmark = pytest.mark.slow

NIGHTS, BEGIN = 300, datetime(2026, 1, 1, 3, tzinfo=UTC)
CASES = grid()
STEPPED, RISING = CASES[4], CASES[30]
# Nights: a step in one case, a gain of large payloads, another machine; one is lost, one is noisy.
STEP, GAIN, MACHINE, LOST, NOISY = 90, 150, 200, 40, 120
MONTH = 365.25 / 12


@dataclass(frozen=True)
class Year:
    """A simulated year with planted changes, without a change, or with a case in two modes."""

    planted: bool = False
    modes: bool = False

    def log_ratio(self, case: Case, night: int) -> float:
        """Return how much longer a case takes than in the first night, as a log ratio."""
        if not self.planted:
            return 0.0
        change = math.log(1.03) if night >= MACHINE else 0.0
        if case is STEPPED and night >= STEP:
            change += math.log(1.04)
        if case.payload_bytes >= 16 * MIB and night >= GAIN:
            change += math.log(0.94)
        return change + (night / MONTH * math.log(1.015) if case is RISING else 0.0)

    def lines(self, seed: int) -> Iterator[HistoryLine]:
        """Yield the lines of the year, with the noise of a quiet device."""
        chance = random.Random(seed)
        for night in range(NIGHTS):
            if self.planted and night == LOST:
                continue
            times = 3.0 if self.planted and night == NOISY else 1.0
            shared = chance.gauss(0.0, 0.003)
            for case in CASES:
                level = math.log(20 + case.payload_bytes / 8e4) + shared
                level += self.log_ratio(case, night) + times * chance.gauss(0.0, 0.005)
                yield line(
                    session=f"{night:016x}",
                    moment=moment_text(BEGIN + timedelta(days=night)),
                    case=case,
                    times_us=tuple(
                        math.exp(level + self._launch(case, times, chance)) for _ in range(3)
                    ),
                    host="a" if night < MACHINE else "b",
                    versions={
                        "libtpu": "0.0.40" if night < STEP else "0.0.41",
                        case.framework: "1" if night < GAIN else "2",
                    },
                )

    def _launch(self, case: Case, times: float, chance: random.Random) -> float:
        slow = self.modes and case is STEPPED and chance.random() < 0.3
        return times * chance.gauss(0.0, 0.005) + (math.log(1.25) if slow else 0.0)


def _history(year: Year, seed: int) -> MachineHistory:
    return build_machine_history("tpu/4r", list(year.lines(seed)))


def _night(began: datetime) -> int:
    return (began - BEGIN).days


@pytest.mark.parametrize("seed", sweep(range(10)))
def test_each_planted_change_of_a_simulated_year_is_found_once_with_its_day_and_its_cause(
    seed: int,
) -> None:
    history = _history(Year(planted=True), seed)
    for shared in history.shared_changes.values():
        (machine,) = shared
        assert (_night(machine.began), machine.stack_changes) == (MACHINE, ("host a -> b",))
        assert math.expm1(machine.log_ratio) == pytest.approx(0.03, abs=0.003)
    for case in history.cases:
        large = case.case.payload_bytes >= 16 * MIB
        cause = f"{case.case.framework} 1 -> 2"
        expected = [(GAIN, -0.06, (cause,))] if large else []
        if case.case.name == STEPPED.name:
            expected = [(STEP, 0.04, ("libtpu 0.0.40 -> 0.0.41",))]
        if case.case.name == RISING.name:
            assert len(case.changes) > 2 and all(step.log_ratio > 0 for step in case.changes)
            continue
        assert [(_night(c.began), c.stack_changes) for c in case.changes] == [
            (night, changes) for night, _, changes in expected
        ]
        for change, (_, size, _) in zip(case.changes, expected, strict=True):
            assert math.expm1(change.log_ratio) == pytest.approx(size, abs=0.003)


@pytest.mark.parametrize("modes", [False, True])
@pytest.mark.parametrize("seed", sweep(range(10)))
def test_no_change_is_found_in_a_simulated_year_without_a_change(seed: int, modes: bool) -> None:
    history = _history(Year(modes=modes), seed)
    assert not any(history.shared_changes.values()) and not any(
        case.changes for case in history.cases
    )
