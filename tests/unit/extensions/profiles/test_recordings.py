"""The collectives of recordings of all profilers: real ones, extracts of these, and made ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from busbw.collectives.base import RankGroups
from busbw.extensions.profiles.recordings import (
    UNKNOWN_KIND,
    RecordedCollective,
    find_collectives,
    read_events,
)
from busbw.worker.backends.recordings import ProfileEvent

DATA = Path(__file__).with_name("data")
MAX_DOCUMENT_BYTES = 2**28
TPU, GPU, CPU = "/device:TPU:0", "/device:GPU:0", "/host:CPU"


def _event(
    name: str,
    plane: str = TPU,
    line: str = "XLA Ops",
    at_s: float = 0.0,
    s: float = 1.0,
    **stats: Any,
) -> ProfileEvent:
    return ProfileEvent(plane, line, name, round(at_s * 1e12), round(s * 1e12), stats)


def _only(event: ProfileEvent) -> RecordedCollective:
    (result,) = find_collectives([event], "h")
    return result


def _extract(name: str) -> list[ProfileEvent]:
    """Return the events of a public recording that were kept in a file of their own."""
    document = json.loads((DATA / f"{name}.json").read_text())
    texts = document["texts"]
    events = [ProfileEvent(plane, "", "", 0, 0, {}) for plane in document["planes"]]
    for name_of, plane_of, line_of, begin_ps, lasted_ps, noted in document["events"]:
        stats = {key: texts[v[0]] if isinstance(v, list) else v for key, v in noted.items()}
        events.append(
            ProfileEvent(
                texts[plane_of], texts[line_of], texts[name_of], begin_ps, lasted_ps, stats
            )
        )
    return events


ALL, PAIRS = RankGroups(group_count=1, size=2), RankGroups(group_count=4, size=2)
VLLM = {
    ("all_reduce", 10 * 2**20, ALL): 129,
    ("all_to_all", 200 * 2**10, ALL): 64,
    ("all_to_all", 1000 * 2**10, ALL): 64,
    ("all_gather", 64, ALL): 1,
    ("all_gather", 32, ALL): 1,
}


@pytest.mark.parametrize(
    ("name", "devices", "calls", "collectives_of_each"),
    [
        ("tpu_v6e_xprof", 4, 3, {("all_reduce", 5 * 2**30, PAIRS): 3}),
        ("tpu_vllm", 2, 1, VLLM),
    ],
)
def test_a_public_recording_of_tpus_has_the_collectives_that_were_counted_by_hand(
    name: str, devices: int, calls: int, collectives_of_each: Mapping[tuple[object, ...], int]
) -> None:
    result = find_collectives(_extract(name), "h")
    counts = Counter((collective.device, *collective[:3]) for collective in result)
    for device in range(devices):
        of_device = {key[1:]: n for key, n in counts.items() if key[0] == f"h/{device}"}
        assert of_device == collectives_of_each
    all_reduces = [collective for collective in result if collective.kind == "all_reduce"]
    assert (
        len({(collective.device, collective.call) for collective in all_reduces}) == calls * devices
    )


def test_the_all_reduces_of_a_recording_of_a_v6e_take_365_ms_on_each_device() -> None:
    total_s = sum(
        collective.duration_s for collective in find_collectives(_extract("tpu_v6e_xprof"), "h")
    )
    assert 1e3 * total_s == pytest.approx(4 * 365.1, abs=0.2)


def test_an_event_in_which_a_host_only_enqueues_a_gpu_collective_is_no_collective() -> None:
    assert find_collectives(_extract("gpu_tensorflow"), "h") == []


def test_a_cpu_recording_of_jax_has_three_calls_of_four_all_reduces_on_two_devices(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes((DATA / "jax_cpu.trace.json.gz").read_bytes())
    result = find_collectives(read_events(path, MAX_DOCUMENT_BYTES), "h")
    assert Counter(collective.device for collective in result) == {"h/0": 12, "h/1": 12}
    assert {collective.kind for collective in result} == {"all_reduce"}
    assert len({collective.call for collective in result}) == 3
    assert 1e6 * sum(collective.duration_s for collective in result) == pytest.approx(1264.549)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("psum.896", "all_reduce"),
        ("cross-replica-sum", "all_reduce"),
        ("all-gather.3", "all_gather"),
        ("all-reduce-scatter-fusion", "reduce_scatter"),
        ("%c = f32[8]{0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter.4", "reduce_scatter"),
        ("%psum.1 = f32[8]{0} all-to-all(%x), replica_groups={{0,1}}", "all_to_all"),
        ("ppermute.4", "permute"),
        ("%all_gather.5 = f32[8]{0} copy(f32[8]{0} %x)", ""),
        ("fusion.12", ""),
        ("jit_all_reduce", ""),
        ("prepare_start_all-reduce.2.cloned.1.call-start", ""),
    ],
)
def test_a_recorded_instruction_is_recognized_by_its_operation_or_else_by_its_name(
    name: str, kind: str
) -> None:
    assert [collective.kind for collective in find_collectives([_event(name)], "h")] == [
        kind
    ] * bool(kind)


@pytest.mark.parametrize(
    ("text", "kind", "size", "groups"),
    [
        ("f32[4,1024]{1,0} all-reduce(%x), replica_groups=[4,2]<=[8]", "all_reduce", 2**14, (4, 2)),
        ("bf16[8,1024]{1,0} all-gather(%x), replica_groups={{0,1}}", "all_gather", 2**14, (1, 2)),
        (
            "f32[1024]{0} reduce-scatter(%x), replica_groups={{0,1}}",
            "reduce_scatter",
            2**13,
            (1, 2),
        ),
        ("f32[1024]{0} reduce-scatter(%x), replica_groups={}", "reduce_scatter", None, None),
        ("(f32[8]{0}, f32[8]{0}) fusion(%x), calls=%all-reduce.1", "all_reduce", None, None),
        ("f32[" + "9," * 50 + "9]{0} all-reduce(%x), to_apply=%add", "all_reduce", None, None),
    ],
)
def test_the_payload_and_the_groups_of_a_recorded_collective_are_read_from_its_instruction(
    text: str, kind: str, size: int | None, groups: tuple[int, int] | None
) -> None:
    result = _only(_event("x.1", long_name=f"%x.1 = {text}"))
    assert result[:3] == (kind, size, RankGroups(*groups) if groups else None)


def test_an_asynchronous_collective_in_a_recording_lasts_from_its_start_to_its_end() -> None:
    text = "%{0} = (f32[8]{{0}}, f32[16]{{0}}) all-gather-start(%x), replica_groups={{{{0,1}}}}"
    begin = _event(text.format("all-gather-start.2"), at_s=1.0, s=0.5)
    end = _event("%all-gather-done.2 = f32[16]{0} all-gather-done(%y)", at_s=5.0, s=0.25)
    (result,) = find_collectives([end, begin], "h")
    assert (result.kind, result.payload_bytes, result.duration_s) == ("all_gather", 64, 4.25)
    aside = [_event(f"all-reduce.2.cloned.1.call-{phase}", s=2.0) for phase in ("start", "done")]
    assert [collective.kind for collective in find_collectives(aside, "h")] == ["all_reduce"]
    assert find_collectives([begin], "h") == find_collectives([end], "h") == []


def test_only_events_on_the_timelines_that_execute_operations_count_as_collectives() -> None:
    lines = ((TPU, "Async XLA Ops"), ("/device:TPU:0 SparseCore 1", "XLA Ops"), (GPU, "XLA Ops"))
    assert find_collectives([_event("all-reduce.1", *place) for place in lines], "h") == []
    on_host = _event("all-reduce.1", CPU, "pool", device_ordinal=1)
    assert [collective.device for collective in find_collectives([on_host], "h")] == ["h/1"]
    assert [
        collective.device for collective in find_collectives([on_host, _event("all-reduce.1")], "h")
    ] == ["h/0"]


@pytest.mark.parametrize(
    ("kernel", "stats", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", {}, "all_reduce"),
        ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32", {}, "all_reduce"),
        ("ncclAllReduceRingLLKernel_sum_f32(x)", {}, "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_SIMPLE_Sum_float", {}, "reduce_scatter"),
        ("ncclDevKernel_SendRecv(x)", {}, "permute"),
        ("ncclDevKernel_SendRecv(x)", {"hlo_op": "all-to-all.3"}, "all_to_all"),
        ("ncclDevKernel_SendRecv(x)", {"Collective name": "all_to_allv"}, "all_to_all"),
        ("ncclDevKernel_Generic(x)", {"Collective name": "_allgather_base"}, "all_gather"),
        ("ncclDevKernel_Generic(x)", {}, UNKNOWN_KIND),
        ("loop_all_reduce_kernel", {"hlo_op": "all-reduce-start.1"}, "all_reduce"),
        ("MemcpyD2D", {"hlo_op": "all-reduce-start.1"}, ""),
        ("ncclDevKernel_Broadcast_RING_LL", {}, ""),
        ("gemm", {"hlo_op": "dot.3"}, ""),
    ],
)
def test_a_recorded_kernel_is_recognized_by_its_annotations_or_else_by_its_name(
    kernel: str, stats: Mapping[str, Any], kind: str
) -> None:
    event = _event(kernel, GPU, "Stream #20(Compute)", **stats)
    assert [collective.kind for collective in find_collectives([event], "h")] == [kind] * bool(kind)


def test_the_nodes_of_a_recorded_tensorflow_collective_are_numbered_as_devices_by_suffix() -> None:
    events = []
    for number, node in enumerate(("x_10", "x", "x_2")):
        place = CPU, f"collective_ops/{number}"
        noted: dict[str, Any] = {"step_id": 7, "instance_key": 3}
        events.append(
            _event(f"{node}:CollectiveReduceV2", *place, at_s=1.0, s=9.0 - number, **noted)
        )
        for at_s in (0.5, 2.0 + number):
            name = "CollectiveExecutor::ExecuteAsync::Done"
            events.append(_event(name, *place, at_s=at_s)._replace(stats={"name": node}))
    result = {collective.device: collective for collective in find_collectives(events, "h")}
    assert {device: collective.duration_s for device, collective in result.items()} == {
        "h/0": 2.0,
        "h/1": 3.0,
        "h/2": 1.0,
    }
    assert {collective.call for collective in result.values()} == {"7"}
