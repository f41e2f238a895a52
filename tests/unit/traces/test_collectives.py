"""Which events are one collective, on which device and in which call, how long, how much hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.traces.collectives import collectives
from busbw.traces.event import Event, RecordedCollective, Trace
from tests.helpers.damage import bounded

GPU, TPU, HOST = "/device:GPU:0", "/device:TPU:0", "/host:CPU"
OPS = "XLA Ops"


def _event(name: str, start: float = 0, duration: float = 1, **changes: object) -> Event:
    """An event on the first TPU; times in microseconds."""
    ordinary = Event(
        name=name,
        plane=TPU,
        line=OPS,
        start_s=start * 1e-6,
        duration_s=duration * 1e-6,
        stats={},
    )
    return replace(ordinary, **changes)  # type: ignore[arg-type]


def _found(*events: Event) -> tuple[RecordedCollective, ...]:
    return collectives(Trace(events=events, host="h"))


def _times_us(found: tuple[RecordedCollective, ...]) -> list[float]:
    return [round(one.duration_s * 1e6, 6) for one in found]


def _launch(start: float, duration: float, run_id: int | None = None) -> Event:
    stats = {} if run_id is None else {"run_id": run_id}
    return _event("jit_f(99)", start, duration, line="XLA Modules", stats=stats)


def test_an_event_of_a_collectives_name_is_one_with_all_that_is_known_of_it() -> None:
    text = "%all-reduce.1 = f32[1024]{0} all-reduce(f32[1024]{0} %x), channel_id=1"
    event = _event("all-reduce.1", 3, 2, plane="/device:TPU:5", stats={"long_name": text})
    wanted = RecordedCollective(
        kind="all_reduce",
        name="all-reduce.1",
        host="h",
        device=5,
        call="",
        start_s=3e-6,
        duration_s=2e-6,
        payload_bytes=4096,
    )
    assert _found(event, _event("fusion.1"), _event("jit_all_reduce")) == (wanted,)


@pytest.mark.parametrize(
    ("plane", "device"),
    [
        ("/device:TPU:3", 3),
        ("/device:GPU:12", 12),
        ("/device:TPU:3 (pid 4)", 3),
        ("TPU Core 6", 6),
        ("/job:worker/replica:0/task:1/device:TPU:7", 7),
    ],
)
def test_the_device_is_in_the_name_of_the_plane(plane: str, device: int) -> None:
    (one,) = _found(_event("cross-replica-sum", plane=plane))
    assert one.device == device


def test_collectives_come_by_device_and_in_the_order_of_time() -> None:
    late, early = _event("psum.1", 9), _event("psum.1", 2)
    other = _event("psum.1", 1, plane="/device:TPU:1")
    found = _found(other, late, early)
    assert [(one.device, round(one.start_s * 1e6)) for one in found] == [(0, 2), (0, 9), (1, 1)]


def test_a_start_and_its_done_are_one_from_begin_to_end() -> None:
    start, done = _event("all-reduce-start.2", 10, 1), _event("all-reduce-done.2", 17, 3)
    (one,) = _found(start, _event("fusion.1", 12, 4), done)
    assert (one.name, one.kind) == ("all-reduce-start.2", "all_reduce")
    assert _times_us((one,)) == [10]


def test_pairs_that_overlap_are_told_apart_by_their_number_and_their_device() -> None:
    found = _found(
        _event("all-reduce-start.1", 0),
        _event("all-reduce-start.2", 1),
        _event("all-reduce-start.1", 2, plane="/device:TPU:1"),
        _event("all-reduce-done.2", 4),
        _event("all-reduce-done.1", 8),
        _event("all-reduce-done.1", 29, plane="/device:TPU:1"),
    )
    assert _times_us(found) == [9, 4, 28]


def test_a_pair_in_a_loop_is_a_collective_each_time() -> None:
    events = [
        _event(f"all-reduce-{phase}.1", start + turn * 20)
        for turn in range(3)
        for phase, start in (("start", 0), ("done", 5))
    ]
    assert _times_us(_found(*events)) == [6, 6, 6]


def test_half_a_pair_at_an_edge_of_the_recording_is_none() -> None:
    whole = (_event("all-reduce-start.1", 10), _event("all-reduce-done.1", 14))
    done, start = _event("all-reduce-done.1", 1), _event("all-reduce-start.1", 20)
    assert _times_us(_found(done, *whole, start)) == [5]
    assert _times_us(_found(*whole, replace(done, start_s=18e-6))) == [5]


def test_the_payload_of_a_pair_is_that_of_its_start() -> None:
    text = "%s = f32[8]{0} all-reduce-start(f32[8]{0} %x), channel_id=1"
    start = _event("all-reduce-start.1", stats={"long_name": text})
    done = {"long_name": "%d = f32[16]{0} all-reduce-done(f32[16]{0} %s)"}
    (one,) = _found(start, _event("all-reduce-done.1", 3, stats=done))
    assert one.payload_bytes == 32


def test_a_call_aside_that_says_nothing_of_a_collective_is_none() -> None:
    stats = {"tf_op": "jit(f)/sort"}
    assert not _found(_event("call-start.3", stats=stats), _event("call-done.3", 4, stats=stats))


def test_what_the_profiler_derives_from_a_device_does_not_count_again() -> None:
    found = _found(
        _event("all-reduce.1", 0, 2),
        _event("CrossReplicaSum", 0, 3, line="TensorFlow Ops"),
        _event("psum", 0, 4, line="Framework Name Scope"),
        _event("all-reduce.1", 0, 5, line="Async XLA Ops"),
        _event("all-reduce.1.clone", 0, 6, plane="/device:TPU:0 SparseCore 1"),
        _event("psum.1", 0, 7, plane="/host:CPU", line="1", stats={"device_ordinal": 0}),
    )
    assert _times_us(found) == [2]


@pytest.mark.parametrize(
    ("plane", "line"),
    [("/device:TPU:0", "TensorFlow Ops"), ("/device:TPU:0 SparseCore 1", OPS)],
)
def test_where_nothing_truer_was_recorded_it_does_count(plane: str, line: str) -> None:
    assert len(_found(_event("CrossReplicaSum", plane=plane, line=line))) == 1


def test_on_a_gpu_the_kernel_is_the_collective_and_not_the_instruction_around_it() -> None:
    gpu = "/device:GPU:1"
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    found = _found(
        _event("all-reduce-start.1", 0, 50, plane=gpu),
        _event("all-reduce-done.1", 60, 1, plane=gpu),
        _event(kernel, 10, 7, plane=gpu, line="Stream #24(Compute)"),
        _event("all-reduce-start.1", 0, 5, plane="/host:CPU", line="a", stats={"hlo_op": "x"}),
    )
    assert [(one.kind, one.device) for one in found] == [("all_reduce", 1)]
    assert _times_us(found) == [7]


def test_the_call_is_the_run_that_the_event_names() -> None:
    (one,) = _found(_launch(0, 9, 5), _event("all-reduce.1", 1, stats={"run_id": "7"}))
    assert one.call == "7"


def test_the_call_is_else_that_of_the_launch_around_the_event() -> None:
    inside = [_event("all-reduce.1", start) for start in (1, 5, 21, 35)]
    found = _found(_launch(0, 10, 71), _launch(20, 10, 72), *inside)
    assert [one.call for one in found] == ["71", "71", "72", ""]


def test_launches_without_a_number_are_counted() -> None:
    found = _found(_launch(20, 5), _launch(0, 5), _event("psum.1", 1), _event("psum.1", 21))
    assert [one.call for one in found] == ["0", "1"]


def _on_host(named: str, start: float, duration: float, **stats: str | int) -> Event:
    return _event(named, start, duration, plane="/host:CPU", line="tf_XLAEigen/1", stats=stats)


def test_on_a_cpu_the_device_is_what_xla_notes_whatever_the_thread() -> None:
    found = _found(
        _on_host("psum.7", 0, 3, device_ordinal=1, run_id=4, hlo_op="psum.7"),
        _on_host("psum.7", 5, 2, device_ordinal="0", run_id="4", hlo_op="psum.7"),
    )
    assert [(one.device, one.call) for one in found] == [(0, "4"), (1, "4")]


def test_on_a_host_a_name_without_a_device_is_the_users_own() -> None:
    assert not _found(_on_host("psum", 0, 3), _on_host("all-reduce-start.1", 0, 3, hlo_op="a"))


NODE = "while/CollectiveReduceV2{}:CollectiveReduceV2"


def _replica(suffix: str, start: float, duration: float = 8, **changes: str | int) -> Event:
    stats = {"step_id": 5, "frame_id": 0, "iter_id": 0, "instance_key": 101, **changes}
    thread = f"collective_ops/{start}"
    return replace(_on_host(NODE.format(suffix), start, duration, **stats), line=thread)


def _returned(suffix: str, start: float, duration: float, thread: float) -> Event:
    node = NODE.format(suffix).split(":")[0]
    event = _on_host("CollectiveExecutor::ExecuteAsync::Done", start, duration, name=node)
    return replace(event, line=f"collective_ops/{thread}")


def test_tensorflows_replicas_are_numbered_as_their_nodes_are() -> None:
    suffixes = ["_10", "_9", "", "_2"]
    found = _found(*(_replica(suffix, at) for at, suffix in enumerate(suffixes)))
    assert [one.name for one in found] == [NODE.format(s) for s in ("", "_2", "_9", "_10")]
    assert [(one.device, one.call) for one in found] == [(rank, "5") for rank in range(4)]


def test_each_instance_and_iteration_of_tensorflow_has_its_own_replicas() -> None:
    found = _found(
        _replica("", 0),
        _replica("_1", 1),
        _replica("_2", 20, instance_key=102),
        _replica("_3", 21, instance_key=102),
        _replica("", 40, iter_id=1),
        _replica("_1", 41, iter_id=1),
    )
    assert [one.device for one in found] == [0, 0, 0, 1, 1, 1]


@pytest.mark.exhaustive
def test_replicas_of_one_instance_are_numbered_in_one_pass_however_many() -> None:
    events = [_replica(f"_{number}", number) for number in range(30_000)]
    with bounded():
        found = _found(*events)
    assert [one.device for one in found] == list(range(30_000))


def test_tensorflows_collective_is_over_when_it_returns_and_not_when_its_event_ends() -> None:
    found = _found(_replica("", 10, 9), _returned("", 16, 3, thread=10))
    assert _times_us(found) == [6]


@pytest.mark.parametrize(
    "other",
    [
        _returned("_1", 16, 3, thread=10),
        _returned("", 16, 3, thread=11),
        _returned("", 20, 3, thread=10),
        _returned("", 9, 3, thread=10),
    ],
    ids=["another node", "another thread", "later", "earlier"],
)
def test_the_return_of_another_collective_ends_it_not(other: Event) -> None:
    assert _times_us(_found(_replica("", 10, 9), other)) == [9]


def test_what_only_starts_nccl_on_a_host_is_no_collective() -> None:
    assert not _found(_on_host("NcclAllReduce:NcclAllReduce", 0, 1))
