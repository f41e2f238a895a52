"""How much of a collective other instructions of its rank ran meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.traces.collectives import Overlap, collectives, is_work_or_wanted
from busbw.traces.event import Event, Trace

GPU, TPU, HOST = "/device:GPU:0", "/device:TPU:0", "/host:CPU"
OPS = "XLA Ops"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def _on_tpu(name: str, start: float, duration: float, **changes: object) -> Event:
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


def _on_gpu(name: str, start: float, duration: float, stream: int) -> Event:
    return _on_tpu(name, start, duration, plane=GPU, line=f"Stream #{stream}(Compute)")


def _on_cpu(name: str, start: float, duration: float, device: int, line: str = "a") -> Event:
    stats = {"device_ordinal": device, "hlo_op": name}
    return _on_tpu(name, start, duration, plane=HOST, line=line, stats=stats)


def _hidden_us(*events: Event) -> list[float | None]:
    trace = Trace(events=events, host="h")
    others = Overlap(trace)
    found = [others.hidden_s(one) for one in collectives(trace)]
    return [None if one is None else round(one * 1e6, 6) for one in found]


def test_another_stream_s_kernels_hide_what_they_share_with_the_collective() -> None:
    events = (_on_gpu("gemm", 5, 8, 1), _on_gpu("gelu", 16, 10, 1), _on_gpu(NCCL, 10, 10, 2))
    assert _hidden_us(*events) == [7.0]


def test_the_same_stretch_counts_once() -> None:
    streams = (_on_gpu("gemm", 12, 4, 1), _on_gpu("gelu", 13, 2, 3), _on_gpu("relu", 14, 4, 4))
    assert _hidden_us(_on_gpu(NCCL, 10, 10, 2), *streams) == [6.0]


def test_a_kernel_of_another_stream_may_last_longer_than_the_collective() -> None:
    assert _hidden_us(_on_gpu(NCCL, 10, 10, 2), _on_gpu("gemm", 0, 100, 1)) == [10.0]


def test_instructions_of_a_gpu_are_its_kernels_again() -> None:
    again = _on_tpu("fusion.1", 10, 10, plane=GPU)
    events = (_on_gpu(NCCL, 10, 10, 2), _on_gpu("gemm", 10, 3, 1), again)
    assert _hidden_us(*events) == [3.0]


def test_between_a_start_and_its_done_instructions_of_the_same_line_hide() -> None:
    start, done = _on_tpu("all-reduce-start.1", 10, 1), _on_tpu("all-reduce-done.1", 18, 2)
    assert _hidden_us(start, _on_tpu("fusion.1", 11, 5), done) == [5.0]


def test_a_collective_that_stands_alone_is_not_hidden() -> None:
    assert _hidden_us(_on_tpu("fusion.1", 0, 5), _on_tpu("all-reduce.1", 5, 5)) == [0.0]


@pytest.mark.parametrize("name", ["while.12", "call.3", "conditional", "%while.1", "async-start.2"])
def test_what_holds_other_instructions_is_no_work_on_whatever_line(name: str) -> None:
    work = _on_cpu("dot.3", 0, 1, 0)
    # Its event may end before those that it left to other threads.
    holder = _on_cpu(name, 0, 15, 0, line="b")
    assert _hidden_us(work, holder, _on_cpu("psum.1", 10, 10, 0)) == [0.0]


def test_what_encloses_the_collective_on_its_own_line_is_no_work() -> None:
    work, around = _on_tpu("fusion.1", 0, 5), _on_tpu("some-loop.1", 0, 50)
    assert _hidden_us(work, around, _on_tpu("all-reduce.1", 5, 5)) == [0.0]


@pytest.mark.parametrize("line", ["XLA Modules", "Steps", "Framework Ops", "Async XLA Ops"])
def test_lines_that_the_profiler_derives_are_no_work(line: str) -> None:
    derived = _on_tpu("fusion.9", 4, 20, line=line)
    assert _hidden_us(_on_tpu("fusion.1", 0, 5), derived, _on_tpu("all-reduce.1", 5, 5)) == [0.0]


def test_another_collective_hides_nothing() -> None:
    events = (_on_gpu("gemm", 0, 1, 1), _on_gpu(NCCL, 10, 10, 2), _on_gpu(NCCL, 12, 4, 3))
    assert _hidden_us(*events) == [0.0, 0.0]


def test_instructions_of_another_rank_hide_nothing() -> None:
    others = (_on_cpu("dot.3", 10, 10, 1, line="b"), _on_cpu("dot.3", 0, 5, 0))
    assert _hidden_us(*others, _on_cpu("psum.1", 10, 10, 0)) == [0.0]


def test_on_the_cpu_another_thread_of_the_same_rank_hides() -> None:
    work = _on_cpu("dot.3", 12, 20, 0, line="b")
    assert _hidden_us(work, _on_cpu("psum.1", 10, 10, 0)) == [8.0]


def test_without_another_instruction_of_the_rank_nobody_knows() -> None:
    assert _hidden_us(_on_tpu("all-reduce.1", 5, 5)) == [None]
    assert _hidden_us(_on_cpu("dot.3", 10, 10, 1), _on_cpu("psum.1", 10, 10, 0)) == [None]


def test_where_events_bear_no_device_nobody_knows() -> None:
    keys = {"step_id": 1, "frame_id": 0, "iter_id": 0, "instance_key": 4}
    node = _on_cpu("x:CollectiveReduceV2", 10, 10, 0)
    noted = {**keys, "long_name": "x:CollectiveReduceV2"}
    node = replace(node, line="collective_ops/1", stats=noted)  # type: ignore[arg-type]
    assert _hidden_us(replace(_on_cpu("y:MatMul", 10, 10, 0), stats=keys), node) == [None]


@pytest.mark.parametrize(
    ("name", "kept"),
    [("dot.3", True), ("void gemm::kernel(x)", True), ("end: dot.3", False), (NCCL, True)],
)
def test_what_thread_pools_note_is_not_kept(name: str, kept: bool) -> None:
    assert is_work_or_wanted(name) is kept
