"""The collectives of recordings, whose instructions are known by name."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.worker.backends import hlo
from busbw.worker.backends.recordings import (
    ProfileEvent,
    end_by_begin_instruction_of,
    timed_collectives,
)

TPU, GPU, CPU = "/device:TPU:0", "/device:GPU:1", "/host:CPU"
US = 10**6


def event(
    name: str, plane: str = TPU, line: str = "XLA Ops", at_us: int = 0, us: int = 5, **stats: Any
) -> ProfileEvent:
    return ProfileEvent(plane, line, name, at_us * US, us * US, stats)


def times_us(*events: ProfileEvent, **timed: str) -> list[tuple[int, Any]]:
    """Return device and duration of each collective; names have underscores for hyphens."""
    names = {begin.replace("_", "-"): end.replace("_", "-") for begin, end in timed.items()}
    return [
        (collective.device, pytest.approx(collective.duration_s * 1e6))
        for collective, _ in timed_collectives(events, names)
    ]


@pytest.mark.parametrize(
    "name", ["psum", "%psum = f32[4]{0} all-reduce(f32[4]{0} %x)", "psum.in_megacore_fusion"]
)
def test_an_instruction_of_a_tpu_is_found_in_a_recording_by_its_name(name: str) -> None:
    others = [
        event("psum.2"),
        event("psum", line="Async XLA Ops"),
        event("psum", "/device:TPU:0 SparseCore 1"),
    ]
    assert times_us(event(name), *others, psum="psum") == [(0, 5)]


def test_the_time_of_a_recorded_collective_is_read_from_the_device_clock_if_available() -> None:
    device_times: Any = {"device_offset_ps": 10 * US, "device_duration_ps": 4 * US}
    assert times_us(event("psum", **device_times), psum="psum") == [(0, 4)]
    later: Any = {"device_offset_ps": 30 * US, "device_duration_ps": 1 * US}
    pair = [event("a-start", **device_times), event("a-done", at_us=20, **later)]
    assert times_us(*pair, a_start="a-done") == [(0, 21)]
    mixed = [event("a-start"), event("a-done", at_us=20, **later)]
    assert times_us(*mixed, a_start="a-done") == [(0, 25)]


def test_a_recorded_asynchronous_collective_lasts_from_its_start_to_the_end_of_its_done() -> None:
    events = [
        event("a-done", at_us=1),
        *(
            event(name, at_us=begin_us, us=2)
            for begin_us, name in ((10, "a-start"), (20, "a-done"))
        ),
        *(
            event(name, at_us=begin_us, us=2)
            for begin_us, name in ((30, "a-start"), (45, "a-done"))
        ),
        event("a-start", at_us=60),
    ]
    assert times_us(*events, a_start="a-done") == [(0, 12), (0, 17)]


def test_recorded_kernels_of_a_gpu_belong_to_the_instruction_that_they_name() -> None:
    events = [
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", GPU, "Stream #20", hlo_op="a-start", us=7),
        event("a-start", GPU, "XLA Ops", hlo_op="a-start"),
        event("MemcpyD2D", GPU, "Stream #20", hlo_op="a-start"),
        event("ncclDevKernel_AllReduce", GPU, "Stream #20", hlo_op="other"),
        event("AllReduceKernelImpl", GPU, "Stream #20", hlo_op="a-start", at_us=9, us=8),
        event("gemm", GPU, "Stream #20", at_us=9),
        event("ncclDevKernel_AllReduce", GPU, "Stream #20", at_us=9, us=9),
    ]
    assert times_us(*events, a_start="a-done") == [(1, 7), (1, 8), (1, 9)]


def test_the_device_of_a_recorded_instruction_on_a_cpu_is_its_device_ordinal() -> None:
    ran = [event("psum", CPU, "pool/7", device_ordinal=device, us=device) for device in (3, 1)]
    assert times_us(*ran, event("psum", CPU, "pool/7"), psum="psum") == [(3, 3), (1, 1)]


def test_the_time_of_a_collective_is_that_of_its_instruction_or_of_a_calling_instruction() -> None:
    module = hlo.read_module("""\
%aside (p: f32[4]) -> f32[4] {
  ROOT %all-reduce.1 = f32[4]{0} all-reduce(%p), to_apply=%add
}
%fused (p: f32[4]) -> f32[4] {
  ROOT %all-reduce.3 = f32[4]{0} all-reduce(%p), to_apply=%add
}
ENTRY %main (p: f32[4]) -> f32[4] {
  %psum.7 = f32[4]{0} all-reduce(%p), to_apply=%add
  %all-gather-start.1 = (f32[4]{0}, f32[8]{0}) all-gather-start(%psum.7), dimensions={0}
  %all-gather-done.4 = f32[8]{0} all-gather-done(%all-gather-start.1)
  %ar.call-start = ((f32[4]{0}), f32[4]{0}) call-start(%psum.7), to_apply=%aside
  %ar.call-done = f32[4]{0} call-done(%ar.call-start)
  %fusion.2 = f32[4]{0} fusion(%ar.call-done), kind=kCustom, calls=%fused
  %copy-start.1 = (f32[4]{0}, f32[4]{0}) copy-start(%fusion.2)
  ROOT %copy-done.1 = f32[4]{0} copy-done(%copy-start.1)
}
""")
    assert end_by_begin_instruction_of(module) == {
        "psum.7": "psum.7",
        "all-gather-start.1": "all-gather-done.4",
        "ar.call-start": "ar.call-done",
        "fusion.2": "fusion.2",
    }
