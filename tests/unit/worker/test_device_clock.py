"""The device clock: the events of a recording that count, and recordings without a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from busbw.model.words import FailureKind
from busbw.worker import device_clock
from busbw.worker.backends.base import MeasuringError, TimedCollective

# Calls of a rank, each with the seconds of its collectives.
Calls = list[list[float]]
NAME = "all-reduce.1"


def _timed(*ranks: Calls) -> list[TimedCollective]:
    return [
        TimedCollective(device, NAME, 10.0 * place, seconds)
        for device, calls in enumerate(ranks)
        for place, seconds in enumerate(seconds for call in calls for seconds in call)
    ]


def _refused(
    collectives: list[TimedCollective],
    *,
    ranks: int,
    call_count: int,
    iterations: int,
    names: Sequence[str] = (NAME,),
) -> str:
    with pytest.raises(MeasuringError) as caught:
        device_clock.times_s_by_call_and_by_rank(
            collectives,
            ranks=ranks,
            call_count=call_count,
            iterations=iterations,
            begin_instruction_names=names,
        )
    assert caught.value.kind is FailureKind.UNAVAILABLE
    return str(caught.value)


@pytest.mark.parametrize(
    ("ranks", "samples_s", "rank_times_s"),
    [
        # Of each collective the slowest rank counts.
        ([[[9.0, 1.0, 2.0]], [[9.0, 3.0, 1.0]]], (2.5,), (1.5, 2.0)),
        # The first of every call is its warm-up, and left out.
        (
            [[[900.0, 1.0, 1.0], [800.0, 2.0, 2.0], [0.0, 3.0, 3.0]]] * 2,
            (1.0, 2.0, 3.0),
            (2.0, 2.0),
        ),
        # A sample is the mean over the others of its call, a rank's time the median of its own.
        ([[[0.0, 1.0, 2.0, 6.0], [0.0, 10.0, 20.0, 60.0]]], (3.0, 30.0), (8.0,)),
        (
            [[[99.0, 1.0, 5.0], [99.0, 2.0, 2.0]], [[0.0, 7.0, 7.0], [0.0, 7.0, 9.0]]],
            (7, 8),
            (2, 7),
        ),
    ],
)
def test_a_sample_of_the_device_clock_is_the_time_of_the_slowest_rank_without_the_warm_up(
    ranks: list[Calls], samples_s: tuple[float, ...], rank_times_s: tuple[float, ...]
) -> None:
    calls, iterations = len(ranks[0]), len(ranks[0][0])
    recorded = device_clock.times_s_by_call_and_by_rank(
        _timed(*ranks), ranks=len(ranks), call_count=calls, iterations=iterations
    )
    assert recorded == (samples_s, rank_times_s)


def test_the_times_of_ranks_by_the_device_clock_are_in_the_order_of_device_numbers() -> None:
    # As text the tenth device would come before the second one.
    collectives = [
        TimedCollective(device, NAME, float(index), float(device))
        for device in (10, 2)
        for index in range(2)
    ]
    _, rank_times_s = device_clock.times_s_by_call_and_by_rank(
        collectives, ranks=2, call_count=1, iterations=2
    )
    assert rank_times_s == (2.0, 10.0)


def test_the_order_of_events_in_a_recording_does_not_change_the_times_of_the_device_clock() -> None:
    collectives = _timed([[9.0, 1.0], [9.0, 2.0]], [[8.0, 1.5], [8.0, 2.5]])
    times = device_clock.times_s_by_call_and_by_rank(
        list(reversed(collectives)), ranks=2, call_count=2, iterations=2
    )
    assert times == device_clock.times_s_by_call_and_by_rank(
        collectives, ranks=2, call_count=2, iterations=2
    )
    assert times[0] == (1.5, 2.5)


def test_recorded_events_with_a_wrong_name_are_a_failure_even_if_their_number_is_right() -> None:
    collectives = [TimedCollective(0, name, float(index), 1.0) for index, name in enumerate("abab")]
    device_clock.times_s_by_call_and_by_rank(
        collectives, ranks=1, call_count=1, iterations=4, begin_instruction_names="ab"
    )
    collectives[2] = TimedCollective(0, "b", 2.0, 1.0)
    message = _refused(collectives, ranks=1, call_count=1, iterations=4, names="ab")
    assert "got 1 of a, 3 of b" in message


def test_recorded_kernels_that_name_no_instruction_are_accepted_if_their_number_is_right() -> None:
    names = ("a", "ncclDevKernel_AllReduce_RING_LL", "ncclDevKernel_AllReduce_TREE_LL")
    collectives = [TimedCollective(0, name, float(index), 1.0) for index, name in enumerate(names)]
    samples_s, _ = device_clock.times_s_by_call_and_by_rank(
        collectives, ranks=1, call_count=1, iterations=3, begin_instruction_names=["a", "b"]
    )
    assert samples_s == (1.0,)


@pytest.mark.parametrize(
    ("ranks", "expected", "message"),
    [
        (
            [[[1.0, 1.0]]] * 2,
            (2, 2, 2),
            f"device 1: expected 4 of {NAME}, got 2 of {NAME}",
        ),
        (
            [[[1.0, 1.0]], [[1.0, 1.0, 1.0]]],
            (2, 1, 2),
            f"device 1: expected 2 of {NAME}, got 3 of {NAME}",
        ),
        ([[[1.0, 1.0]]], (2, 1, 2), f"expected {NAME} on 2 devices, the recording has 1 (0)"),
        (
            [[[1.0, 1.0]]] * 3,
            (2, 1, 2),
            f"expected {NAME} on 2 devices, the recording has 3 (0, 1, 2)",
        ),
        ([], (2, 1, 2), f"expected {NAME} on 2 devices, the recording has 0 (none)"),
        ([[[1.0], [1.0]]], (1, 2, 1), "a single collective has none after its warm-up"),
    ],
)
def test_a_recording_with_missing_or_additional_ranks_or_events_is_a_failure(
    ranks: list[Calls], expected: tuple[int, int, int], message: str
) -> None:
    count, calls, iterations = expected
    assert message in _refused(_timed(*ranks), ranks=count, call_count=calls, iterations=iterations)
