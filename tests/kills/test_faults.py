"""What fails on hosts: everything in every part of a session, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

from kills.faults import LONGEST_CUT_S, Kind, faults
from kills.layout import LAYOUTS
from kills.moments import Moment


def test_thirty_faults_are_every_kind_in_every_part_of_a_session() -> None:
    assert LAYOUTS["hosts"].many == 30
    counted = Counter((one.kind, one.when.moment) for one in faults(30, 1))
    assert counted == dict.fromkeys(((kind, moment) for kind in Kind for moment in Moment), 1)


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    assert faults(30, 1) == faults(30, 1)
    assert faults(30, 1) != faults(30, 2)


def test_every_host_that_measures_is_hit_and_named() -> None:
    drawn = faults(30, 1)
    assert {one.when.member for one in drawn} == {0, 1}
    for one in drawn:
        assert (f"{one.host}, {one.when.moment.value}" in one.how) is (not one.ends_session)


def test_links_are_cut_for_one_second_to_twenty_and_who_leaves_is_the_first() -> None:
    drawn = faults(300, 1)
    assert all(1.0 <= one.cut_s <= LONGEST_CUT_S for one in drawn)
    assert all(0.1 <= one.when.fraction <= 0.9 for one in drawn)
    assert {one.when.launch for one in drawn if one.when.moment is Moment.LEAVING} == {1}
    assert {one.when.launch for one in drawn if one.when.moment is Moment.STARTING} == {1, 2}
