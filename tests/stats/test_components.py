"""Levels, shared parts and variances of simulated sessions, against what they were made with."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping

import pytest

from busbw.stats import Expected, Variance, components, shared_part

EXPECTED = Expected(
    own=Variance(value=0.01**2, freedom=4), shared=Variance(value=0.005**2, freedom=4)
)
Session = Mapping[int, float]


def sessions(
    count: int,
    *,
    cases: int = 42,
    own: float = 0.006,
    shared: float = 0.003,
    seed: int = 1,
    lost: Mapping[int, float] | None = None,
    since: int = 0,
    all_lost: float = 0.0,
) -> list[Session]:
    """Case c has the level c; from the session `since` on, `lost` and `all_lost` come on top."""
    source = random.Random(seed)
    found: list[Session] = []
    for at in range(count):
        off = source.gauss(0, shared) + (all_lost if at >= since else 0.0)
        by_case = lost if lost is not None and at >= since else {}
        found.append(
            {
                case: case + off + source.gauss(0, own) + by_case.get(case, 0.0)
                for case in range(cases)
            }
        )
    return found


def test_levels_are_found_to_within_their_error() -> None:
    found = components(sessions(30), EXPECTED)
    errors = [one.level - case for case, one in found.cases.items()]
    assert statistics.pstdev(errors) < 0.002
    assert all(one.sessions == 30 and len(one.segments) == 1 for one in found.cases.values())


def test_both_variances_are_found_apart() -> None:
    found = components(sessions(60, own=0.006, shared=0.02), EXPECTED)
    own = statistics.fmean(one.own.value for one in found.cases.values())
    assert math.sqrt(own) == pytest.approx(0.006, rel=0.1)
    assert math.sqrt(found.variance.value) == pytest.approx(0.02, rel=0.3)


def test_what_all_cases_share_moves_no_level() -> None:
    quiet = components(sessions(20, shared=0.0), EXPECTED)
    moody = components(sessions(20, shared=0.05), EXPECTED)
    for case in quiet.cases:
        # What is left is the mean of the shared part itself, which no case can tell from its level.
        off = moody.cases[case].level - quiet.cases[case].level
        assert off == pytest.approx(moody.cases[0].level - quiet.cases[0].level, abs=0.004)
        assert moody.cases[case].own.value == pytest.approx(quiet.cases[case].own.value, rel=0.5)


def test_cases_that_are_alike_lend_each_other_their_certainty() -> None:
    found = components(sessions(3), EXPECTED)
    assert all(one.own.freedom > 20 for one in found.cases.values())
    (alone,) = components(sessions(3, cases=1), EXPECTED).cases.values()
    assert alone.own.freedom == 2 + EXPECTED.own.freedom


def test_a_single_session_has_the_usual_variances() -> None:
    found = components(sessions(1), EXPECTED)
    assert found.variance == EXPECTED.shared
    assert all(one.own == EXPECTED.own for one in found.cases.values())


def test_the_level_of_a_case_that_changed_is_the_newest_and_its_segments_are_known() -> None:
    found = components(sessions(20, lost={3: 0.03}, since=14), EXPECTED)
    first, second = found.cases[3].segments
    assert abs(second.begin - 14) <= 1
    assert second.level - first.level == pytest.approx(0.03, abs=0.008)
    assert found.cases[3].level == second.level and found.cases[3].sessions == second.count
    assert math.sqrt(found.cases[3].own.value) < 0.009
    assert len(found.segments) == 1 and len(found.cases[4].segments) == 1


def test_a_change_of_all_cases_is_a_change_of_the_shared_part() -> None:
    found = components(sessions(20, all_lost=0.03, since=14), EXPECTED)
    first, second = found.segments
    assert abs(second.begin - 14) <= 1
    assert second.level == 0 and first.level == pytest.approx(-0.03, abs=0.005)
    assert all(len(one.segments) == 1 for one in found.cases.values())
    # What is compared with is the level as it is now.
    assert found.cases[5].level == pytest.approx(5.03, abs=0.006)
    assert math.sqrt(found.variance.value) < 0.007


def test_what_is_left_out_widens_nothing_and_moves_no_level() -> None:
    slow = sessions(9, lost={3: 0.05}, since=8)
    found = components(slow, EXPECTED, [()] * 8 + [(3,)])
    assert found.cases[3].sessions == 8
    assert found.cases[3].level == pytest.approx(3, abs=0.01)


def test_a_segment_of_which_most_is_left_out_is_not_the_level() -> None:
    slow = sessions(14, lost={3: 0.08}, since=8)
    out = [(3,) if 8 <= at < 13 else () for at in range(14)]
    found = components(slow, EXPECTED, out)
    assert len(found.cases[3].segments) == 2
    assert found.cases[3].level == pytest.approx(3, abs=0.01) and found.cases[3].sessions == 8


@pytest.mark.parametrize("count", [1, 3, 5])
def test_sessions_of_which_most_is_left_out_move_nothing_that_cases_share(count: int) -> None:
    calm = components(sessions(8), EXPECTED)
    slow = sessions(8 + count, all_lost=0.3, since=8)
    found = components(slow, EXPECTED, [*[range(0)] * 8, *[range(22)] * count])
    assert found.sessions == calm.sessions == 8
    assert found.variance.value == pytest.approx(calm.variance.value, rel=0.2)
    levels = [(one.level, calm.cases[case].level) for case, one in found.cases.items()]
    assert all(level == pytest.approx(before, abs=0.01) for level, before in levels)
    half = components(slow, EXPECTED, [()] * 8 + [range(20)] * count)
    assert half.sessions in (count, 8 + count)


def test_few_cases_tell_no_shared_part() -> None:
    found = components(sessions(5, cases=5), EXPECTED)
    assert found.shared == (None,) * 5 and found.segments == ()
    assert found.variance == EXPECTED.shared
    assert shared_part({1: 1.0}, {1: 0.5}, least_cases=2) is None
    assert shared_part({1: 1.0, 2: 2.0}, {1: 0.5, 2: 1.0}, least_cases=2) == 0.75


def test_sessions_that_measured_a_few_cases_count_for_those() -> None:
    whole = sessions(6)
    part = [{case: one[case] for case in (0, 1)} for one in sessions(4, seed=2)]
    found = components([*whole, *part], EXPECTED)
    assert found.cases[0].sessions == 10 and found.cases[2].sessions == 6
    assert found.shared[6:] == (None,) * 4
