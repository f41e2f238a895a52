"""Answers become shares: of replays as points, of sessions as recorded as intervals."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from evidence.corpus import Injection, by_injection
from evidence.draw import Draw, Outcome
from evidence.intervals import clopper_pearson
from evidence.replay import replay
from evidence.resample import ReplayError, Scheme
from evidence.rules import RULES

from . import synthetic

pytestmark = pytest.mark.exhaustive

SCHEME = Scheme(replays=40, baseline_sessions=3)


def _always(draw: Draw) -> Outcome:
    return Outcome.ALARM


def _never(draw: Draw) -> Outcome:
    return Outcome.CLEAR


def _slower(draw: Draw) -> Outcome:
    pairs = [one for pairs in draw.now.values() for one in pairs]
    ratios = sorted(one.candidate.launch_time_s / one.reference.launch_time_s for one in pairs)
    middle = ratios[len(ratios) // 2]
    return Outcome.ALARM if middle > 1.2 else Outcome.UNDECIDED if middle > 1.05 else Outcome.CLEAR


def test_a_rule_that_always_alarms_has_the_rate_1_and_one_that_never_does_0() -> None:
    sessions = synthetic.corpus(6, shares=(0.1,), each=2)
    always, never = replay(sessions, {"always": _always, "never": _never}, scheme=SCHEME)
    for group in (always.unchanged, *always.injected):
        assert group.alarm_share == 1
        assert group.recorded_alarms == len(group.counts)
    for group in (never.unchanged, *never.injected):
        assert (group.alarm_share, group.undecided_share, group.recorded_alarms) == (0, 0, 0)
    assert never.unchanged.recorded_interval == clopper_pearson(0, 6)
    assert always.injected[0].replayed_interval(seed=1) == clopper_pearson(2, 2)


def test_each_group_has_all_its_replays_by_session() -> None:
    sessions = synthetic.corpus(6, shares=(0.1, 0.3), each=2)
    (found,) = replay(sessions, {"always": _always}, scheme=SCHEME)
    for group in (found.unchanged, *found.injected):
        assert sum(one.replays for one in group.counts) == SCHEME.replays
        assert [one.alarms for one in group.counts] == [one.replays for one in group.counts]
    assert [one.session for one in found.unchanged.counts] == [one.id for one in sessions[:6]]


def test_power_grows_with_the_slowdown_and_undecided_is_neither() -> None:
    sessions = synthetic.corpus(6, shares=(0.1, 0.3), each=3, noise=synthetic.QUIET)
    (found,) = replay(sessions, {"slower": _slower}, scheme=SCHEME)
    assert [one.injection and one.injection.share for one in found.injected] == [0.1, 0.3]
    assert found.unchanged.alarm_share == found.unchanged.undecided_share == 0
    assert [one.alarm_share for one in found.injected] == [0, 1]
    assert [one.undecided_share for one in found.injected] == [1, 0]


def test_rules_come_back_in_their_order_and_do_not_change_each_other() -> None:
    sessions = synthetic.corpus(6)
    both = replay(sessions, {"b": _slower, "a": _always}, scheme=SCHEME)
    assert [one.rule for one in both] == ["b", "a"]
    assert replay(sessions, {"b": _slower}, scheme=SCHEME) == both[:1]


def test_another_injection_changes_no_other_groups_replays() -> None:
    sessions = synthetic.corpus(6, shares=(0.1,), each=2)
    (before,) = replay(sessions[:6], {"slower": _slower}, scheme=SCHEME)
    (after,) = replay(sessions, {"slower": _slower}, scheme=SCHEME)
    assert after.unchanged == before.unchanged


def test_a_corpus_without_unchanged_sessions_is_refused() -> None:
    for sessions in ((), synthetic.corpus(0, shares=(0.1,), each=2)):
        with pytest.raises(ReplayError, match="no session with unchanged code"):
            replay(sessions, {"always": _always}, scheme=SCHEME)


def test_injections_are_grouped_by_kind_and_share_after_the_unchanged() -> None:
    sessions = synthetic.corpus(2, shares=(0.3, 0.05), each=2)
    groups = by_injection(sessions)
    delays = [Injection(kind="delay", share=share) for share in (0.05, 0.3)]
    assert list(groups) == [None, *delays]
    assert groups[delays[0]] == sessions[4:6]


@pytest.fixture
def stopwatch() -> Iterator[None]:
    begun_s = time.process_time()
    yield
    assert time.process_time() - begun_s < 30


@pytest.mark.slow
@pytest.mark.usefixtures("stopwatch")
def test_two_thousand_replays_of_every_rule_take_far_less_than_a_minute() -> None:
    sessions = synthetic.corpus(40)
    found = replay(sessions, RULES, scheme=Scheme())
    assert [one.rule for one in found] == list(RULES)
    assert all(sum(c.replays for c in one.unchanged.counts) == 2000 for one in found)
