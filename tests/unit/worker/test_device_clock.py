"""The device's clock: which events of a recording count, and when they are no time at all."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from busbw.model.words import FailureKind
from busbw.traces.event import RecordedCollective
from busbw.worker import device_clock
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.framework import read_files
from tests.helpers.recordings import Line, Made, plane, space

# Calls of a rank, each with the seconds of its collectives.
Calls = list[list[float]]


def _of_rank(device: int, calls: Calls, host: str = "here") -> list[RecordedCollective]:
    durations = [seconds for call in calls for seconds in call]
    return [
        RecordedCollective(
            kind="all_reduce",
            name="all-reduce.1",
            host=host,
            device=device,
            call="",
            start_s=10.0 * place,
            duration_s=seconds,
            payload_bytes=None,
        )
        for place, seconds in enumerate(durations)
    ]


def _found(*ranks: Calls) -> list[RecordedCollective]:
    return [one for device, calls in enumerate(ranks) for one in _of_rank(device, calls)]


def _refused(found: list[RecordedCollective], *, ranks: int, calls: int, iterations: int) -> str:
    with pytest.raises(MeasuringError) as caught:
        device_clock.times(found, ranks=ranks, calls=calls, iterations=iterations)
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
def test_of_each_collective_but_the_first_of_a_call_the_slowest_rank_counts(
    ranks: list[Calls], samples_s: tuple[float, ...], rank_times_s: tuple[float, ...]
) -> None:
    calls, iterations = len(ranks[0]), len(ranks[0][0])
    said = device_clock.times(_found(*ranks), ranks=len(ranks), calls=calls, iterations=iterations)
    assert (said.samples_s, said.rank_times_s) == (samples_s, rank_times_s)


def test_the_launch_is_also_told_by_the_other_ranks_and_by_the_mean() -> None:
    found = _found([[9.0, 1.0], [9.0, 2.0]], [[9.0, 3.0], [9.0, 6.0]], [[9.0, 0.5], [9.0, 1.0]])
    times = device_clock.times(found, ranks=3, calls=2, iterations=2)
    assert times.over_ranks_s == {
        "slowest": 3.75,
        "mean": pytest.approx((4.5 / 3) * 1.25),
        "median": 1.25,
        "fastest": 0.625,
    }


def test_ranks_come_by_host_and_then_by_the_number_of_the_device() -> None:
    # As text the tenth device would come before the second one.
    devices = [(host, device) for host in ("a", "b") for device in (2, 10)]
    found = [
        one
        for place, (host, device) in reversed(list(enumerate(devices)))
        for one in _of_rank(device, [[0.0, 1.0 + place]], host)
    ]
    times = device_clock.times(found, ranks=4, calls=1, iterations=2)
    assert times.rank_times_s == (1.0, 2.0, 3.0, 4.0)


def test_the_order_of_a_recording_does_not_matter() -> None:
    found = _found([[9.0, 1.0], [9.0, 2.0]], [[8.0, 1.5], [8.0, 2.5]])
    times = device_clock.times(list(reversed(found)), ranks=2, calls=2, iterations=2)
    assert times == device_clock.times(found, ranks=2, calls=2, iterations=2)
    assert times.samples_s == (1.5, 2.5)


@pytest.mark.parametrize("lost", [0, 3, 5])
def test_a_lost_event_is_a_failure_that_names_the_counts(lost: int) -> None:
    found = _found([[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]])
    del found[lost]
    message = _refused(found, ranks=2, calls=1, iterations=3)
    counts = (2, 3) if lost < 3 else (3, 2)
    assert f"{{'here/0': {counts[0]}, 'here/1': {counts[1]}}} by rank" in message
    assert "expected 3 on each of 2" in message
    assert message.endswith("try --clock=host")


@pytest.mark.parametrize(
    ("ranks", "expected", "said"),
    [
        ([[[1.0, 1.0]]] * 2, (2, 2, 2), "expected 4 on each of 2"),
        ([[[1.0, 1.0, 1.0]]], (1, 1, 2), "expected 2 on each of 1"),
        ([[[1.0, 1.0]]], (2, 1, 2), "{'here/0': 2} by rank, expected 2 on each of 2"),
        ([[[1.0, 1.0]]] * 3, (2, 1, 2), "expected 2 on each of 2"),
        ([], (2, 1, 2), "the profiler recorded no collectives"),
        ([[[1.0], [1.0]]], (1, 2, 1), "a single collective has none after its warm-up"),
    ],
)
def test_another_number_of_ranks_or_events_than_ran_is_a_failure(
    ranks: list[Calls], expected: tuple[int, int, int], said: str
) -> None:
    count, calls, iterations = expected
    assert said in _refused(_found(*ranks), ranks=count, calls=calls, iterations=iterations)


def _write(path: Path, *names: str) -> None:
    """A recording of one device, as TPUs write them."""
    events: list[dict[str, object]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "XLA Ops"}},
    ]
    for place, name in enumerate(names):
        event = {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": 10 * place, "dur": 2}
        events.append({**event, "args": {}})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))


def test_only_collectives_of_the_kind_are_read_wherever_they_lie_of_every_host(
    tmp_path: Path,
) -> None:
    reader = partial(read_files, tmp_path)
    assert device_clock.read(reader, "all_reduce") == ()
    names = ("all-reduce.1", "fusion.2", "all-gather.3", "all-reduce.4")
    for host in ("a", "b"):
        _write(tmp_path / "plugins" / "profile" / f"{host}.trace.json.gz", *names)
    found = device_clock.read(reader, "all_reduce")
    assert [(one.name, one.device) for one in found] == [
        ("all-reduce.1", 0),
        ("all-reduce.4", 0),
    ] * 2
    assert [one.duration_s for one in found] == pytest.approx([2e-6] * 4)
    assert len({one.rank for one in found}) == 2


def test_only_collectives_of_unknown_kind_are_a_failure_that_says_so(tmp_path: Path) -> None:
    names = ("async-collective-start.1", "async-collective-done.1")
    _write(tmp_path / "host.trace.json.gz", *names, "all-gather.2")
    with pytest.raises(MeasuringError, match="1 collectives of unknown kind, no all_reduce") as e:
        device_clock.read(partial(read_files, tmp_path), "all_reduce")
    assert e.value.kind is FailureKind.UNAVAILABLE
    assert len(device_clock.read(partial(read_files, tmp_path), "all_gather")) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.trace.json.gz", b""),
        ("a.trace.json.gz", b"no gzip at all"),
        ("a.trace.json.gz", gzip.compress(b"{}", mtime=0)),
        ("a.trace.json.gz", gzip.compress(b'{"traceEvents": [', mtime=0)),
        ("a.xplane.pb", b"\xff\xff\xff no protocol buffer"),
    ],
)
def test_a_recording_that_cannot_be_read_is_a_failure_with_the_reason(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        MeasuringError, match=r"no time on the device's clock: .+; try --clock=h"
    ) as e:
        device_clock.read(partial(read_files, tmp_path), "all_reduce")
    assert e.value.kind is FailureKind.UNAVAILABLE


def _two_streams(folder: Path) -> None:
    """Two all-reduces on the second stream, a kernel on the first over a quarter of each."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
    begins = (10**9, 2 * 10**9)
    reduced = [Made(name=name, offset_ps=one, duration_ps=4 * 10**8) for one in begins]
    kernels = [Made(name="gemm", offset_ps=one - 10**8, duration_ps=2 * 10**8) for one in begins]
    lines = [Line(name="Stream #1", events=kernels), Line(name="Stream #2", events=reduced)]
    (folder / "made.xplane.pb").write_bytes(space(plane("/device:GPU:0", lines)))


def test_kernels_of_other_streams_are_none_of_the_collectives(tmp_path: Path) -> None:
    _two_streams(tmp_path)
    found = device_clock.read(partial(read_files, tmp_path), "all_reduce")
    said = device_clock.times(found, ranks=1, calls=1, iterations=2)
    assert said.samples_s == pytest.approx((4e-4,))
