"""The i-th collective of each device in a call is one; the warm-up goes, a cut is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from busbw.collectives.base import GroupSize
from busbw.traces.event import RecordedCollective, TraceError
from busbw.traces.iterations import Iteration, iterations


def _of(
    device: int, times: Sequence[float], *, call: str = "", host: str = "h", begin: float = 0
) -> list[RecordedCollective]:
    return [
        RecordedCollective(
            kind="all_reduce",
            name="psum.1",
            host=host,
            device=device,
            call=call,
            start_s=begin + place,
            duration_s=time,
            payload_bytes=None,
        )
        for place, time in enumerate(times)
    ]


def test_the_ith_of_each_device_are_one_iteration() -> None:
    found = iterations([*_of(0, [9, 1, 2]), *_of(1, [9, 3, 5])])
    assert found == (
        Iteration(call="", index=1, durations_s={"h/0": 1, "h/1": 3}),
        Iteration(call="", index=2, durations_s={"h/0": 2, "h/1": 5}),
    )


def test_an_iteration_knows_its_slowest_its_fastest_and_the_mean() -> None:
    one = Iteration(call="", index=0, durations_s={"h/0": 1.0, "h/1": 2.0, "h/2": 6.0})
    assert (one.slowest_s, one.fastest_s, one.mean_s) == (6.0, 1.0, 3.0)


def test_collectives_are_taken_in_the_order_of_time() -> None:
    found = iterations(list(reversed(_of(0, [9, 1, 2]))))
    assert [one.slowest_s for one in found] == [1, 2]


def test_the_first_of_each_call_is_the_warm_up() -> None:
    found = [*_of(0, [9, 1], call="a"), *_of(0, [8, 2], call="b", begin=10)]
    assert [(one.call, one.index, one.slowest_s) for one in iterations(found)] == [
        ("a", 1, 1),
        ("b", 1, 2),
    ]


def test_of_calls_with_a_single_one_the_first_call_is_the_warm_up() -> None:
    calls = [_of(0, [time], call=str(7 - time), begin=time) for time in (3, 4, 5)]
    found = [one for call in reversed(calls) for one in call]
    assert [one.slowest_s for one in iterations(found)] == [4, 5]


def test_nothing_is_dropped_where_nothing_shall_be() -> None:
    found = [*_of(0, [9, 1], call="a"), *_of(0, [8], call="b", begin=10)]
    assert [one.slowest_s for one in iterations(found, drop_first=False)] == [9, 1, 8]


def test_nothing_found_is_no_iteration() -> None:
    assert iterations([]) == ()


def test_devices_of_the_same_number_on_other_hosts_are_other_ranks() -> None:
    (one,) = iterations([*_of(0, [9, 1]), *_of(0, [9, 2], host="i")])
    assert one.durations_s == {"h/0": 1, "i/0": 2}


def test_a_device_that_lacks_one_is_a_cut_recording_and_both_counts_are_said() -> None:
    with pytest.raises(TraceError, match=r"rank h/0 has 3 collectives, rank h/1 2: .* cut"):
        iterations([*_of(0, [1, 1, 1]), *_of(1, [1, 1])])


def test_a_device_that_is_missing_in_one_call_is_noticed_and_the_call_named() -> None:
    found = [*_of(0, [1], call="a"), *_of(1, [1], call="a"), *_of(0, [1], call="b", begin=5)]
    with pytest.raises(TraceError, match="call b: rank h/0 has 1 collectives, rank h/1 0"):
        iterations(found)


def test_hosts_that_number_their_calls_each_for_itself_are_paired_by_order() -> None:
    found = [
        *_of(0, [9, 1], call="70"),
        *_of(0, [9, 2], call="71", begin=5),
        *_of(0, [9, 3], call="4", host="i", begin=900),
        *_of(0, [9, 4], call="5", host="i", begin=950),
    ]
    pairs = [tuple(one.durations_s.values()) for one in iterations(found)]
    assert pairs == [(1, 3), (2, 4)]


def test_hosts_that_share_their_numbers_are_paired_by_these() -> None:
    found = [
        *_of(0, [9, 1], call="a"),
        *_of(0, [9, 2], call="b", begin=5),
        *_of(0, [9, 4], call="b", host="i"),
        *_of(0, [9, 3], call="a", host="i", begin=5),
    ]
    assert {tuple(one.durations_s.values()) for one in iterations(found)} == {(1, 3), (2, 4)}


def test_hosts_with_other_numbers_of_calls_are_a_cut_recording() -> None:
    found = [
        *_of(0, [1], call="1"),
        *_of(0, [1], call="2", begin=5),
        *_of(0, [1], call="3", host="i"),
    ]
    with pytest.raises(TraceError, match="call 2: rank h/0 has 1 collectives, rank i/0 0"):
        iterations(found)


@pytest.mark.parametrize("there", [(), ("h/0", "h/1", "h/2")])
def test_a_program_of_as_many_ranks_as_its_groups_say_ran_on_no_others(
    there: tuple[str, ...],
) -> None:
    pair = GroupSize(groups=1, size=2)
    found = [
        replace(one, program=program, groups=pair)
        for program, device in (("a", 0), ("a", 1), ("b", 1), ("b", 2))
        for one in _of(device, [9, 1])
    ]
    ran = [tuple(one.durations_s) for one in iterations(found, there=there)]
    assert ran == [("h/0", "h/1"), ("h/1", "h/2")]
    with pytest.raises(TraceError, match="cut"):
        iterations([one for one in found if one.device < 2], there=there)
