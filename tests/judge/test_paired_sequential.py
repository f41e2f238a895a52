"""The rule that looks again and again: what it decides, what it wants, and how often it errs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from busbw.judge import POLICIES
from busbw.judge.paired import Decision, decide
from busbw.judge.policy import Looks
from busbw.model import Device, Outcome

from .rules import LOOKS

SLOWER = math.log(1.1)
SESSIONS = 400
CASES = 3

Noise = Callable[[random.Random], float]


def _decided(*shifts: float, looks: Looks = LOOKS, floor: float = 0.02) -> Decision:
    return decide(shifts, looks, cases=1, floor=floor)


def test_before_the_first_look_so_many_launches_are_wanted() -> None:
    for launches in ([], [0.0] * 5):
        found = _decided(*launches)
        assert (found.outcome, found.wanted, found.suspected) == (None, 6, False)
        assert found.estimate is None


def test_no_difference_at_the_first_look_passes() -> None:
    found = _decided(*[0.001, -0.001] * 3)
    assert (found.outcome, found.wanted) == (Outcome.PASS, None)


def test_what_is_not_clear_is_looked_at_again_with_more_launches() -> None:
    unclear = (0.1, -0.1, 0.08, -0.06, 0.05, -0.04)
    first = _decided(*unclear)
    assert (first.outcome, first.wanted, first.suspected) == (None, 9, False)
    assert first.estimate is not None and first.limit is not None
    assert _decided(*unclear, 0.0, 0.0, 0.0).wanted == 12


def test_undecided_after_the_last_look_wants_no_more() -> None:
    found = _decided(*[0.2, -0.2] * 6)
    assert (found.outcome, found.wanted, found.suspected) == (None, None, False)


def test_a_suspicion_asks_for_its_confirmation_first() -> None:
    found = _decided(*[SLOWER, SLOWER + 0.01] * 3)
    assert (found.outcome, found.wanted, found.suspected) == (None, 9, True)


def test_a_suspicion_that_is_seen_again_has_regressed() -> None:
    found = _decided(*[SLOWER, SLOWER + 0.01] * 4, SLOWER)
    assert Outcome.REGRESSED is found.outcome
    assert found.limit is not None and found.estimate is not None
    assert found.estimate.freedom == 8
    assert found.estimate.mean > found.limit >= math.log1p(LOOKS.floor)


def test_a_suspicion_that_is_not_seen_again_is_dropped_and_looked_at_as_before() -> None:
    moody = [SLOWER, SLOWER + 0.01] * 3
    dropped = _decided(*moody, 0.0, 0.0, 0.0)
    assert (dropped.outcome, dropped.wanted, dropped.suspected) == (None, 12, False)
    calm = Looks(
        counts=(6, 40), confirming=3, false_alarms=0.005, misses=0.1, wanted=0.05, floor=0.02
    )
    assert Outcome.PASS is _decided(*moody, *[0.0] * 34, looks=calm).outcome


def test_what_is_faster_in_the_same_measure_has_improved_without_confirmation() -> None:
    found = _decided(*[-SLOWER, -SLOWER - 0.01] * 3)
    assert (found.outcome, found.wanted) == (Outcome.IMPROVED, None)


def test_a_sure_but_small_difference_is_below_the_floor_and_passes() -> None:
    assert Outcome.PASS is _decided(*[0.019] * 6).outcome
    assert _decided(*[0.021] * 6).suspected


def test_where_no_clock_resolves_the_difference_the_floor_is_higher_and_it_still_ends() -> None:
    assert Outcome.PASS is _decided(*[0.2] * 6, floor=0.3).outcome


def test_more_cases_make_each_of_them_harder_to_suspect() -> None:
    shifts = [0.03, 0.05, 0.04, 0.06, 0.02, 0.05]
    alone = decide(shifts, LOOKS, cases=1, floor=0.02)
    among = decide(shifts, LOOKS, cases=1000, floor=0.02)
    assert alone.limit is not None and among.limit is not None
    assert alone.limit < among.limit


def _normal(deviation: float) -> Noise:
    return lambda chance: chance.gauss(0.0, deviation)


def _heavy(deviation: float) -> Noise:
    """Student's t with three degrees of freedom, scaled to this standard deviation."""

    def draw(chance: random.Random) -> float:
        squares = sum(chance.gauss(0.0, 1.0) ** 2 for _ in range(3))
        return deviation * chance.gauss(0.0, 1.0) / math.sqrt(squares)

    return draw


def _ended(chance: random.Random, noise: Noise, slower: float) -> Outcome | None:
    """One case, measured as often as the rule wants."""
    looks, shifts = POLICIES[Device.CPU].looks, list[float]()
    while True:
        found = decide(shifts, looks, cases=CASES, floor=looks.floor)
        if found.wanted is None:
            return found.outcome
        shifts += [slower + noise(chance) for _ in range(found.wanted - len(shifts))]


def _share_of_alarms(noise: Noise, slower: float = 0.0) -> float:
    """Of sessions of three cases, all with the same noise and as much slower."""
    chance = random.Random(20260101)
    alarms = sum(
        Outcome.REGRESSED in [_ended(chance, noise, slower) for _ in range(CASES)]
        for _ in range(SESSIONS)
    )
    return alarms / SESSIONS


@pytest.mark.parametrize("noise", [_normal(0.03), _normal(0.08), _heavy(0.03), _heavy(0.08)])
def test_fewer_than_one_unchanged_session_in_a_hundred_alarms(noise: Noise) -> None:
    assert _share_of_alarms(noise) < 0.01


@pytest.mark.parametrize("noise", [_normal(0.05), _heavy(0.05)])
def test_what_takes_a_tenth_longer_is_found_in_most_cases(noise: Noise) -> None:
    chance = random.Random(20260102)
    found = [_ended(chance, noise, math.log(1.1)) for _ in range(SESSIONS)]
    assert found.count(Outcome.REGRESSED) > 0.95 * SESSIONS
    assert Outcome.PASS not in found[: SESSIONS // 10]


def test_most_unchanged_cases_pass_and_hardly_any_is_left_undecided() -> None:
    chance = random.Random(20260103)
    found = [_ended(chance, _normal(0.05), 0.0) for _ in range(SESSIONS)]
    assert found.count(Outcome.PASS) > 0.95 * SESSIONS
