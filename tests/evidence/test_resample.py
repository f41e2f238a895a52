"""Draws keep together what belongs together, know no answer, and are always the same."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest

from evidence.corpus import RecordedSession, Side
from evidence.draw import Draw
from evidence.resample import ReplayError, Scheme, Urn

from . import synthetic

SCHEME = Scheme(replays=60, baseline_sessions=3, baseline_launches=4)


def _drawn(
    sessions: tuple[RecordedSession, ...], group: tuple[RecordedSession, ...], seed: int = 1
) -> list[tuple[str, Draw]]:
    return list(Urn(sessions, SCHEME).draws(group, random.Random(seed)))


def test_a_launch_pair_stays_a_pair_and_brings_all_its_payloads() -> None:
    sessions = synthetic.corpus(5)
    known = {
        (session.id, launch.number, launch.payload_bytes): {launch.reference, launch.candidate}
        for session in sessions
        for launch in session.launches
    }
    for name, draw in _drawn(sessions, sessions):
        orders = {tuple(one.number for one in pairs) for pairs in draw.now.values()}
        assert len(orders) == 1
        assert tuple(draw.now) == synthetic.PAYLOADS
        for payload, pairs in draw.now.items():
            for one in pairs:
                assert {one.reference, one.candidate} == known[name, one.number, payload]


def test_launches_are_drawn_with_replacement_as_many_as_were_recorded() -> None:
    sessions = synthetic.corpus(5)
    drawn = [tuple(one.number for one in draw.now[1024]) for _, draw in _drawn(sessions, sessions)]
    assert {len(numbers) for numbers in drawn} == {8}
    assert any(len(set(numbers)) < 8 for numbers in drawn)
    assert len(set(drawn)) == len(drawn)


def test_as_many_launches_are_drawn_as_are_asked_for() -> None:
    sessions = synthetic.corpus(5)
    urn = Urn(sessions, replace(SCHEME, launches=11))
    _, draw = next(iter(urn.draws(sessions, random.Random(1))))
    assert {len(pairs) for pairs in draw.now.values()} == {11}


def test_either_side_of_an_unchanged_pair_may_be_the_candidate_at_all_its_payloads() -> None:
    sessions = synthetic.corpus(5)
    references = {one.reference for session in sessions for one in session.launches}
    ways = [
        {pairs[place].reference in references for pairs in draw.now.values()}
        for _, draw in _drawn(sessions, sessions)
        for place in range(len(next(iter(draw.now.values()))))
    ]
    assert all(len(way) == 1 for way in ways)
    assert {True} in ways
    assert {False} in ways


def test_further_launches_begin_with_those_of_now() -> None:
    sessions = synthetic.corpus(5)
    for _, draw in _drawn(sessions, sessions):
        for payload, pairs in draw.further.items():
            assert pairs[: len(draw.now[payload])] == draw.now[payload]
            assert len(pairs) == Scheme().further


def test_the_sides_of_an_injected_session_stay_what_they_are() -> None:
    sessions = synthetic.corpus(5, shares=(0.1,), each=2)
    injected = sessions[5:]
    references = {one.reference for session in injected for one in session.launches}
    for _, draw in _drawn(sessions, injected):
        assert all(one.reference in references for pairs in draw.now.values() for one in pairs)


def test_a_baseline_comes_from_other_unchanged_sessions_each_with_whole_launches() -> None:
    sessions = synthetic.corpus(5, shares=(0.1,), each=2)
    owner = {
        side: (session.id, one.number)
        for session in sessions[:5]
        for one in session.launches
        for side in (one.reference, one.candidate)
    }
    for name, draw in _drawn(sessions, sessions):
        owners = [
            {tuple(owner[side] for side in sides) for sides in stored.values()}
            for stored in draw.baseline
        ]
        assert [len(one) for one in owners] == [1, 1, 1]
        places = [place for (place,) in owners]
        assert {len(place) for place in places} == {4}
        names = [{session for session, _ in place} for place in places]
        assert len(set.union(*names)) == 3
        assert name not in set.union(*names)


def test_a_session_of_another_setting_is_no_baseline() -> None:
    other = synthetic.session(9, framework="tensorflow")
    with pytest.raises(ReplayError, match="0 other unchanged sessions of tensorflow"):
        Urn((*synthetic.corpus(5), other), SCHEME)


def test_too_few_sessions_for_a_baseline_are_refused() -> None:
    with pytest.raises(ReplayError, match="has 2 other unchanged sessions"):
        Urn(synthetic.corpus(3), SCHEME)


def test_draws_are_the_same_each_time_and_others_with_another_seed() -> None:
    sessions = synthetic.corpus(5)
    assert _drawn(sessions, sessions) == _drawn(sessions, sessions)
    assert _drawn(sessions, sessions) != _drawn(sessions, sessions, seed=2)


def test_a_session_as_recorded_has_its_launches_in_their_order() -> None:
    sessions = synthetic.corpus(5)
    draw = Urn(sessions, SCHEME).as_recorded(sessions[0], random.Random(1))
    for payload, pairs in draw.now.items():
        assert pairs == tuple(o for o in sessions[0].launches if o.payload_bytes == payload)


def test_a_rule_cannot_know_which_session_it_judges() -> None:
    assert {one.name for one in fields(Draw)} == {
        "framework",
        "ranks",
        "now",
        "further",
        "baseline",
    }
    assert {one.name for one in fields(Side)} == {"samples_s", "anchors_s"}
