"""Draws keep together what belongs together and know no answer; answers become shares."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from evidence import corpus
from evidence.corpus import RecordedSession
from evidence.replay import BASELINE_LAUNCHES, LAUNCHES, Draw, Outcome, ReplayError, Urn, replay
from evidence.rules import OWN
from evidence.shares import clopper_pearson

from . import synthetic

pytestmark = pytest.mark.exhaustive

COUNTS = (40, 3)
# Shares of 200 replays that alarm: of the unchanged sessions, then by injection.
KEPT = {
    "busbw `--against`, in turn": (0.0, 1.0, 1.0, 1.0),
    "busbw, stored baseline": (0.005, 0.0, 0.055, 1.0),
}


def _drawn(
    sessions: Sequence[RecordedSession], group: Sequence[RecordedSession], seed: int = 1
) -> list[tuple[str, Draw]]:
    urn, chance = Urn(sessions, 3), random.Random(seed)
    return [urn.draw(group, chance) for _ in range(40)]


def _always(draw: Draw) -> Outcome:
    return Outcome.ALARM


def _slower(draw: Draw) -> Outcome:
    pairs = [one for pairs in draw.pairs.values() for one in pairs]
    ratios = sorted(one.candidate.launch_time_s / one.reference.launch_time_s for one in pairs)
    middle = ratios[len(ratios) // 2]
    return Outcome.ALARM if middle > 1.2 else Outcome.UNDECIDED if middle > 1.05 else Outcome.CLEAR


@pytest.mark.slow
def test_a_change_of_a_rule_makes_no_rate_worse() -> None:
    found = replay(corpus.read(), OWN, 200)
    for rule, (alarms, *seen) in KEPT.items():
        unchanged, *injected = (answers[rule].share(Outcome.ALARM) for answers in found.values())
        assert unchanged <= alarms
        assert all(now >= before for now, before in zip(injected, seen, strict=True))


def test_a_launch_pair_stays_a_pair_and_brings_all_its_payloads() -> None:
    sessions = synthetic.corpus(5)
    known = {
        (session.id, launch.number, launch.payload_bytes): launch
        for session in sessions
        for launch in session.launches
    }
    ways = set()
    for name, draw in _drawn(sessions, sessions):
        assert tuple(draw.pairs) == synthetic.PAYLOADS
        for place in range(LAUNCHES):
            pairs = [pairs[place] for pairs in draw.pairs.values()]
            before = [known[name, pairs[0].number, one.payload_bytes] for one in pairs]
            ways.add(pairs == before)
            assert pairs in (before, [one.exchanged() for one in before])
    # Either side of an unchanged pair may be the candidate.
    assert ways == {True, False}


def test_the_sides_of_an_injected_session_stay_what_they_are() -> None:
    sessions = synthetic.corpus(5, shares=(0.1,), each=2)
    references = {one.reference for session in sessions[5:] for one in session.launches}
    for _, draw in _drawn(sessions, sessions[5:]):
        assert all(one.reference in references for pairs in draw.pairs.values() for one in pairs)


def test_a_baseline_comes_from_other_unchanged_sessions_each_with_whole_launches() -> None:
    sessions = synthetic.corpus(5, shares=(0.1,), each=2)
    owner = {
        side: (session.id, one.number)
        for session in sessions[:5]
        for one in session.launches
        for side in (one.reference, one.candidate)
    }
    for name, draw in _drawn(sessions, sessions):
        names = set()
        for session in draw.baseline:
            ((*launches,),) = {tuple(owner[side] for side in sides) for sides in session.values()}
            assert len(launches) == BASELINE_LAUNCHES
            names |= {of for of, _ in launches}
        assert len(names) == 3 and name not in names


def test_a_session_has_as_many_others_of_its_setting_as_its_baselines_want() -> None:
    other = synthetic.session(9, framework="tensorflow")
    with pytest.raises(ReplayError, match="0 other unchanged sessions of tensorflow"):
        Urn((*synthetic.corpus(5), other), 3)
    with pytest.raises(ReplayError, match="has 2 other unchanged sessions"):
        Urn(synthetic.corpus(3), 3)


def test_draws_are_the_same_each_time_and_others_with_another_seed() -> None:
    sessions = synthetic.corpus(5)
    assert _drawn(sessions, sessions) == _drawn(sessions, sessions)
    assert _drawn(sessions, sessions) != _drawn(sessions, sessions, seed=2)


def test_shares_grow_with_the_slowdown_and_undecided_is_neither() -> None:
    sessions = synthetic.corpus(6, shares=(0.1, 0.3), each=3, noise=synthetic.QUIET)
    found = replay(sessions, {"slower": _slower, "always": _always}, *COUNTS)
    assert [one and one.share for one in found] == [None, 0.1, 0.3]
    slower, always = zip(*(answers.values() for answers in found.values()))
    assert [one.share(Outcome.ALARM) for one in slower] == [0, 0, 1]
    assert [one.share(Outcome.UNDECIDED) for one in slower] == [0, 1, 0]
    assert [one.share(Outcome.ALARM) for one in always] == [1, 1, 1]
    assert [one.recorded_alarms for one in slower] == [0, 0, 3]
    assert slower[2].replayed_interval == clopper_pearson(3, 3)


def test_another_rule_and_another_injection_change_no_other_answers() -> None:
    sessions = synthetic.corpus(6, shares=(0.1,), each=2)
    before = replay(sessions[:6], {"slower": _slower}, *COUNTS)
    after = replay(sessions, {"always": _always, "slower": _slower}, *COUNTS)
    assert after[None]["slower"] == before[None]["slower"]


def test_a_corpus_without_unchanged_sessions_is_refused() -> None:
    for sessions in ((), synthetic.corpus(0, shares=(0.1,), each=2)):
        with pytest.raises(ReplayError, match="no session with unchanged code"):
            replay(sessions, {"always": _always}, *COUNTS)
