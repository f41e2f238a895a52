"""Levels and spreads over the sessions of a history, their changes, and counted outcomes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from busbw.history.files import AcknowledgedChange, HistoryLine, SeriesKey
from busbw.history.levels import build_machine_history
from busbw.model.words import Outcome, SessionOutcome
from tests.helpers import build
from tests.helpers.history_lines import line

JAX = SeriesKey(framework="jax")
TIMES_US = (10.0, 10.2, 9.8, 10.0, 30.0)


def _history(lines: list[HistoryLine], **options: Any) -> Any:
    """Return the history, typed so that a test needs no check for None."""
    return build_machine_history("tpu/4r", lines, **options)


def _nights(**changes: object) -> list[HistoryLine]:
    """Return daily sessions of one case, the last of which is three times as slow."""
    return [
        replace(
            line(session=f"{night:016x}", moment=f"2026-01-{10 + night}T03:00:00Z", **changes),
            times_us=(time_us, time_us, 5 * time_us),
        )
        for night, time_us in enumerate(TIMES_US)
    ]


def test_the_level_in_a_history_is_the_mean_log_time_of_the_median_launch_of_each_session() -> None:
    (case,) = _history(_nights()[:4]).cases
    assert list(case.times_s.values()) == pytest.approx(
        [1e-6 * time_us for time_us in TIMES_US[:4]]
    )
    assert case.level_s == pytest.approx(10e-6, rel=1e-3)


def test_the_spread_of_a_case_with_few_sessions_is_drawn_toward_the_other_spreads() -> None:
    (alone,) = _history(_nights()[:3]).cases
    assert alone.relative_stddev == pytest.approx(0.0223, rel=0.05)
    (noisy, *others) = _history(_cases(3, lambda night, case: 1 + 0.1 * (night == 1 > case))).cases
    assert 0.01 < noisy.relative_stddev < 0.05 and others[0].relative_stddev < 0.01


def test_a_case_of_a_history_without_a_time_has_no_level() -> None:
    (case,) = _history([line(times_us=(), outcome=Outcome.OUT_OF_MEMORY)]).cases
    assert (case.level_s, case.times_s, case.relative_stddev, case.changes) == (
        None,
        {},
        None,
        (),
    )
    assert case.outcome_counts == {Outcome.OUT_OF_MEMORY: 1}


def _cases(
    nights: int, ratio: Callable[[int, int], float], count: int = 8, **changes: Any
) -> list[HistoryLine]:
    """Return daily sessions of `count` cases, with a new version of jax from day 12 on."""
    lines = []
    for night in range(nights):
        source = random.Random(night)
        for case in range(count):
            time_us = 10.0 * 2**case * ratio(night, case) * math.exp(source.gauss(0, 0.003))
            lines.append(
                line(
                    session=f"{night:016x}",
                    moment=f"2026-03-{1 + night:02d}T03:00:00Z",
                    case=build.case(payload_bytes=1024 << case),
                    times_us=(time_us,) * 3,
                    versions={"jax": "0.10.0" if night < 12 else "0.10.1"},
                    **changes,
                )
            )
    return lines


def test_a_changed_level_of_a_case_names_its_first_session_and_size_and_changed_version() -> None:
    machine = _history(_cases(20, lambda night, case: 1.04 if (night >= 12 and case == 2) else 1.0))
    (change,) = machine.cases[2].changes
    assert change.began.isoformat() == "2026-03-13T03:00:00+00:00"
    assert math.exp(change.log_ratio) == pytest.approx(1.04, abs=0.005)
    assert (change.session_count, change.stack_changes) == (8, ("jax 0.10.0 -> 0.10.1",))
    assert change.reason == ""
    assert machine.cases[2].level_s == pytest.approx(41.6e-6, rel=5e-3)
    assert not any(case.changes for case in machine.cases if case is not machine.cases[2])
    assert machine.shared_changes == {JAX: ()}


@pytest.mark.parametrize("count", [6, 8])
def test_a_change_of_all_cases_is_a_single_shared_change_with_all_its_causes(count: int) -> None:
    lines = _cases(20, lambda night, case: 0.9 if night >= 12 else 1.0, count)
    worker = {"0.10.0": "old", "0.10.1": "new"}
    machine = _history([replace(line, worker=worker[line.versions["jax"]]) for line in lines])
    assert not any(case.changes for case in machine.cases)
    (change,) = machine.shared_changes[JAX]
    assert math.exp(change.log_ratio) == pytest.approx(0.9, abs=0.01)
    assert change.stack_changes == ("jax 0.10.0 -> 0.10.1", "busbw's own code old -> new")


@pytest.mark.parametrize(
    ("since", "case", "machine", "reason"),
    [
        ("2026-03-13", "jax.*.4K", "tpu*", "known"),
        ("2026-03-12", "*", "*", "known"),
        ("2026-03-20", "*", "*", ""),
        ("2026-03-13", "*.8K", "*", ""),
        ("2026-03-13", "*", "gpu*", ""),
    ],
)
def test_an_acknowledged_change_of_a_level_has_its_reason(
    since: str, case: str, machine: str, reason: str
) -> None:
    change = AcknowledgedChange(since=since, case=case, machine=machine, reason="known")
    lines = _cases(20, lambda night, case: 1.04 if (night >= 12 and case == 2) else 1.0)
    (level_change,) = _history(lines, acknowledged_changes=[change]).cases[2].changes
    assert level_change.reason == reason


def test_sessions_of_the_same_hour_do_not_change_a_level() -> None:
    lines = _cases(12, lambda night, case: 1.0)
    again = _cases(3, lambda night, case: 1.2 if case == 2 else 1.0)
    lines += [
        replace(
            line, session=f"{100 + number // 8:016x}", moment=f"2026-03-20T03:{number // 8:02d}:00Z"
        )
        for number, line in enumerate(again)
    ]
    assert _history(lines, merge_within=timedelta(hours=1)).cases[2].changes == ()
    assert _history(lines, merge_within=timedelta(0)).cases[2].changes != ()


def test_a_session_with_an_injected_delay_does_not_count_for_the_level() -> None:
    injected = line(session="f" * 16, injected="delay:200%")
    machine = _history([*_nights()[:3], injected])
    assert [len(case.times_s) for case in machine.cases] == [3]
    assert len(machine.first_lines) == 4


def test_a_history_lists_a_case_once_for_each_protocol() -> None:
    other = replace(build.case(), protocol=replace(build.case().protocol, allocator="malloc"))
    assert len(_history([line(), line(case=other)]).cases) == 2


def test_a_history_counts_each_session_once_by_its_outcome() -> None:
    lines = _nights()
    lines += [
        replace(old, case=build.case(payload_bytes=1 << 20), baseline_date="") for old in lines
    ]
    lines[-1:] = [replace(lines[-1], session="f" * 16, session_outcome=SessionOutcome.NO_VERDICT)]
    assert _history(lines).outcome_counts == {"PASS": 5, "NO_VERDICT": 1}


def test_a_history_has_separate_levels_for_each_of_two_interleaved_stacks() -> None:
    stack = "0123456789abcdef"
    tonight = _cases(20, lambda night, case: 1.04 if night >= 12 else 1.0, paired=True, stack=stack)
    theirs = _cases(20, lambda night, case: 0.5, paired=True, stack=stack, is_reference=True)
    machine = _history([*tonight, *theirs])
    assert len(machine.first_lines) == 20
    series = SeriesKey(framework="jax", stack=stack)
    (change,) = machine.shared_changes[series]
    assert math.exp(change.log_ratio) == pytest.approx(1.04, abs=0.01)
    assert machine.shared_changes[replace(series, is_reference=True)] == ()
    assert [case.series.is_reference for case in machine.cases] == [False] * 8 + [True] * 8
    assert machine.cases[8].level_s == pytest.approx(5e-6, rel=0.01)
