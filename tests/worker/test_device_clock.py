"""The device's clock: which events of a recording count, and when they are no time at all."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from busbw.model.words import FailureKind
from busbw.traces.event import RecordedCollective
from busbw.worker import device_clock
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.framework import read_files
from tests.traces.written import Line, Made, plane, space

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


def test_of_each_collective_the_slowest_rank_counts() -> None:
    found = _found([[9.0, 1.0, 2.0]], [[9.0, 3.0, 1.0]])
    times = device_clock.times(found, ranks=2, calls=1, iterations=3)
    assert times.samples_s == ((3.0 + 2.0) / 2,)


def test_the_launch_is_also_told_by_the_other_ranks_and_by_the_mean() -> None:
    found = _found([[9.0, 1.0], [9.0, 2.0]], [[9.0, 3.0], [9.0, 6.0]], [[9.0, 0.5], [9.0, 1.0]])
    times = device_clock.times(found, ranks=3, calls=2, iterations=2)
    assert times.over_ranks_s == {
        "slowest": 3.75,
        "mean": pytest.approx((4.5 / 3) * 1.25),
        "median": 1.25,
        "fastest": 0.625,
    }


def test_the_first_collective_of_every_call_is_its_warm_up_and_left_out() -> None:
    calls = [[900.0, 1.0, 1.0], [800.0, 2.0, 2.0], [0.0, 3.0, 3.0]]
    times = device_clock.times(_found(calls, calls), ranks=2, calls=3, iterations=3)
    assert times.samples_s == (1.0, 2.0, 3.0)


def test_a_sample_is_the_mean_over_the_other_collectives_of_its_call() -> None:
    calls = [[0.0, 1.0, 2.0, 6.0], [0.0, 10.0, 20.0, 60.0]]
    times = device_clock.times(_found(calls), ranks=1, calls=2, iterations=4)
    assert times.samples_s == (3.0, 30.0)


def test_each_rank_has_the_median_of_its_own_times_without_the_warm_up() -> None:
    found = _found([[99.0, 1.0, 5.0], [99.0, 2.0, 2.0]], [[0.0, 7.0, 7.0], [0.0, 7.0, 9.0]])
    times = device_clock.times(found, ranks=2, calls=2, iterations=3)
    assert times.rank_times_s == (2.0, 7.0)


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


def test_as_many_lost_on_every_rank_are_missed_too() -> None:
    found = _found([[1.0, 1.0]], [[1.0, 1.0]])
    assert "expected 4 on each of 2" in _refused(found, ranks=2, calls=2, iterations=2)


def test_an_event_too_many_is_no_better_than_one_too_few() -> None:
    assert "expected 2 on each of 1" in _refused(
        _found([[1.0, 1.0, 1.0]]), ranks=1, calls=1, iterations=2
    )


def test_a_missing_rank_is_a_failure() -> None:
    message = _refused(_found([[1.0, 1.0]]), ranks=2, calls=1, iterations=2)
    assert "{'here/0': 2} by rank, expected 2 on each of 2" in message


def test_a_rank_too_many_is_a_failure() -> None:
    found = _found(*[[[1.0, 1.0]]] * 3)
    assert "expected 2 on each of 2" in _refused(found, ranks=2, calls=1, iterations=2)


def test_no_collective_at_all_is_a_failure() -> None:
    assert "the profiler recorded no collectives" in _refused([], ranks=2, calls=1, iterations=2)


def test_a_call_of_a_single_collective_has_nothing_after_its_warm_up() -> None:
    message = _refused(_found([[1.0], [1.0]]), ranks=1, calls=2, iterations=1)
    assert "a single collective has none after its warm-up" in message


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


def test_only_collectives_of_the_kind_are_read_wherever_they_lie(tmp_path: Path) -> None:
    names = ("all-reduce.1", "fusion.2", "all-gather.3", "all-reduce.4")
    _write(tmp_path / "plugins" / "profile" / "now" / "host.trace.json.gz", *names)
    found = device_clock.read(partial(read_files, tmp_path), "all_reduce")
    assert [(one.name, one.device) for one in found] == [("all-reduce.1", 0), ("all-reduce.4", 0)]
    assert [one.duration_s for one in found] == pytest.approx([2e-6, 2e-6])


def test_only_collectives_of_unknown_kind_are_a_failure_that_says_so(tmp_path: Path) -> None:
    names = ("async-collective-start.1", "async-collective-done.1")
    _write(tmp_path / "host.trace.json.gz", *names, "all-gather.2")
    with pytest.raises(MeasuringError, match="1 collectives of unknown kind, no all_reduce") as e:
        device_clock.read(partial(read_files, tmp_path), "all_reduce")
    assert e.value.kind is FailureKind.UNAVAILABLE
    assert len(device_clock.read(partial(read_files, tmp_path), "all_gather")) == 1


def test_every_host_s_recording_is_read(tmp_path: Path) -> None:
    for host in ("a", "b"):
        _write(tmp_path / f"{host}.trace.json.gz", "all-reduce.1")
    assert (
        len({one.rank for one in device_clock.read(partial(read_files, tmp_path), "all_reduce")})
        == 2
    )


def test_a_folder_without_a_recording_has_no_collectives(tmp_path: Path) -> None:
    assert device_clock.read(partial(read_files, tmp_path), "all_reduce") == ()


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


def _hidden(*shares: float | None) -> float | None:
    """What is said of a rank whose collectives, after a warm-up, were hidden by these shares."""
    found = [
        replace(one, hidden_s=None if share is None else share * one.duration_s)
        for one, share in zip(_of_rank(0, [[2.0] * (1 + len(shares))]), (None, *shares))
    ]
    said = device_clock.times(found, ranks=1, calls=1, iterations=1 + len(shares))
    return said.overlap_fraction


def test_the_overlap_fraction_is_the_median_without_the_warm_up_s() -> None:
    assert _hidden(0.0, 0.25, 1.0) == 0.25


def test_one_collective_of_which_nothing_is_known_makes_the_share_unknown() -> None:
    assert _hidden(0.0, 0.25, None) is None


def _two_streams(folder: Path) -> None:
    """Two all-reduces on the second stream, a kernel on the first over a quarter of each."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
    begins = (10**9, 2 * 10**9)
    reduced = [Made(name=name, offset_ps=one, duration_ps=4 * 10**8) for one in begins]
    kernels = [Made(name="gemm", offset_ps=one - 10**8, duration_ps=2 * 10**8) for one in begins]
    lines = [Line(name="Stream #1", events=kernels), Line(name="Stream #2", events=reduced)]
    (folder / "made.xplane.pb").write_bytes(space(plane("/device:GPU:0", lines)))


@pytest.mark.parametrize(("with_overlap", "hidden"), [(True, 0.25), (False, None)])
def test_what_else_a_rank_did_is_read_where_it_is_asked_for(
    tmp_path: Path, with_overlap: bool, hidden: float | None
) -> None:
    _two_streams(tmp_path)
    found = device_clock.read(
        partial(read_files, tmp_path), "all_reduce", with_overlap=with_overlap
    )
    said = device_clock.times(found, ranks=1, calls=1, iterations=2)
    assert said.samples_s == pytest.approx((4e-4,))
    assert said.overlap_fraction == (None if hidden is None else pytest.approx(hidden))
