"""What an event is of a collective: by its instruction, its category, its kernel, then its name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from busbw.collectives.base import GroupSize
from busbw.traces.collectives import WantedEvents, collectives
from busbw.traces.event import Event, Stats, Trace
from busbw.traces.recognition import UNKNOWN, Phase, Recognized, Recognizer, Source, parse_name
from busbw.traces.xplane import read_xplane
from tests.helpers.recordings import Line, Made, plane, space

TPU, GPU, HOST = "/device:TPU:0", "/device:GPU:0", "/host:CPU"


def _event(
    name: str,
    stats: Stats | None = None,
    plane: str = TPU,
    start_s: float = 0.0,
    duration_s: float = 1.0,
) -> Event:
    line = "Stream #1(Compute)" if plane == GPU else "XLA Ops"
    return Event(
        name=name,
        plane=plane,
        line=line,
        start_s=start_s,
        duration_s=duration_s,
        stats=stats or {},
    )


def _recognized(name: str, stats: Stats | None = None, plane: str = TPU) -> Recognized | None:
    return Recognizer().recognize(_event(name, stats, plane))


def _kind(name: str, stats: Stats | None = None, plane: str = TPU) -> str:
    found = _recognized(name, stats, plane)
    return found.kind if found is not None else ""


def _text(op: str, name: str = "x.1", attributes: str = "channel_id=1") -> Mapping[str, str]:
    return {"long_name": f"%{name} = f32[8]{{0}} {op}(f32[8]{{0}} %p.1), {attributes}"}


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("all-reduce", "all_reduce"),
        ("cross-replica-sum", "all_reduce"),
        ("all-gather", "all_gather"),
        ("reduce-scatter", "reduce_scatter"),
        ("ragged-all-to-all", "all_to_all"),
        ("collective-permute", "permute"),
        ("collective-broadcast", UNKNOWN),
    ],
)
def test_the_operation_of_the_instruction_decides_whatever_its_name(op: str, kind: str) -> None:
    assert _kind("my_step.7", _text(op)) == kind
    assert WantedEvents()("my_step.7", TPU, _text(op))


@pytest.mark.parametrize("op", ["copy", "bitcast", "add", "while", "call"])
def test_another_operation_is_none_though_it_came_from_a_collective(op: str) -> None:
    assert _recognized("all_gather.5", _text(op, "all_gather.5")) is None


def test_a_kernel_that_users_brought_along_is_what_its_name_says() -> None:
    assert _kind("all_gather.5", _text("custom-call", "all_gather.5")) == "all_gather"
    stats = {**_text("custom-call", "kernel.5"), "tf_op": "jit(f)/psum"}
    assert _recognized("kernel.5", stats) is None


@pytest.mark.parametrize(
    ("stats", "kind"),
    [
        ({**_text("fusion", attributes="calls=%all-reduce-scatter.clone")}, "reduce_scatter"),
        ({"hlo_category": "all-reduce-scatter fusion"}, "reduce_scatter"),
        ({"hlo_category": "all-reduce fusion", **_text("fusion")}, "all_reduce"),
        ({"hlo_category": "all-gather fusion"}, "all_gather"),
        ({**_text("fusion", attributes="kind=kCustom, calls=%fused_all_reduce.3")}, ""),
        ({"hlo_category": "convolution fusion", **_text("fusion")}, ""),
        ({"hlo_category": "collective fusion"}, UNKNOWN),
        ({"hlo_category": "async-collective", **_text("fusion")}, UNKNOWN),
        ({}, ""),
    ],
)
def test_a_fusion_is_what_its_category_or_its_computation_says(stats: Stats, kind: str) -> None:
    assert _kind("fusion.635", stats) == kind
    assert WantedEvents()("fusion.635", TPU, stats) == bool(kind)


@pytest.mark.parametrize("category", ["loop fusion", "copy", "data formatting", "while"])
def test_a_category_that_is_no_collectives_goes_before_a_name_that_is(category: str) -> None:
    assert _recognized("psum.5", {"hlo_category": category}) is None


@pytest.mark.parametrize("category", ["all-reduce", "custom-call", "never heard of"])
def test_any_other_category_leaves_it_to_the_name(category: str) -> None:
    assert _kind("psum.5", {"hlo_category": category}) == "all_reduce"


@pytest.mark.parametrize(
    ("name", "kind", "phase"),
    [
        ("all-reduce.2.cloned.1.call-start", "all_reduce", Phase.START),
        ("all-reduce.2.cloned.1.call-done", "all_reduce", Phase.DONE),
        ("all-gather.2.cloned.1.call-start", "all_gather", Phase.START),
        ("reduce-scatter.2.cloned.1.call-done", "reduce_scatter", Phase.DONE),
        ("all-gather.12.in_megacore_fusion.3", "all_gather", Phase.WHOLE),
        ("async-collective-start.5", UNKNOWN, Phase.START),
        ("async-collective-done.5", UNKNOWN, Phase.DONE),
    ],
)
def test_names_that_compilers_give_are_known(name: str, kind: str, phase: Phase) -> None:
    found = _recognized(name)
    assert found is not None and (found.kind, found.phase) == (kind, phase)
    assert WantedEvents()(name)


@pytest.mark.parametrize("part", ["start", "done"])
def test_the_markers_around_an_offloaded_collective_are_none(part: str) -> None:
    name = f"prepare_{part}_all-reduce.2.cloned.1.call-start"
    stats = {**_text("custom-call", name), "tf_op": "jit(f)/psum_invariant"}
    assert _recognized(name) is None and _recognized(name, stats) is None


def _pair(start: str, done: str, stats: tuple[Stats, Stats] = ({}, {})) -> list[tuple[str, float]]:
    events = (
        _event(start, stats[0], start_s=10.0),
        _event("fusion.1", start_s=11.0, duration_s=4.0),
        _event(done, stats[1], start_s=17.0, duration_s=3.0),
    )
    found = collectives(Trace(events=events, host="h"))
    return [(one.kind, one.duration_s) for one in found]


def test_a_collective_that_a_sparsecore_runs_lasts_from_its_start_to_its_done() -> None:
    name = "all-reduce.2.cloned.1.call"
    assert _pair(f"{name}-start", f"{name}-done") == [("all_reduce", 10.0)]


def test_what_gets_its_data_after_it_was_started_lasts_from_then_on() -> None:
    parts = zip(("start", "update", "done"), (10.0, 15.0, 17.0))
    events = [_event(f"all-reduce.2.cloned.1.call-{part}", start_s=at) for part, at in parts]
    (one,) = collectives(Trace(events=tuple(events), host="h"))
    assert (one.kind, one.start_s, one.duration_s) == ("all_reduce", 15.0, 3.0)
    text = (
        "%all-reduce.2.cloned.1.call-update = ((f32[8]{0}), f32[2]{0}) "
        "call-update(((), (), (s32[1]{0})) %all-reduce.2.cloned.1.call-start, f32[8]{0} %p)"
    )
    found = _recognized("all-reduce.2.cloned.1.call-update", {"long_name": text})
    assert found is not None
    assert (found.phase, found.number, found.payload_bytes) == (
        Phase.UPDATE,
        "all-reduce.2.cloned.1",
        32,
    )


def test_a_start_and_its_done_of_other_numbers_are_paired_by_what_the_done_takes() -> None:
    start = "%async-collective-start.5 = (f32[2], f32[8]) async-start(f32[2] %p), calls=%{}"
    done = "%async-collective-done.9 = f32[8] async-done((f32[2], f32[8]) %{}), calls=%{}"
    texts = (
        {"long_name": start.format("all-gather.clone")},
        {"long_name": done.format("async-collective-start.5", "all-gather.clone")},
    )
    names = ("async-collective-start.5", "async-collective-done.9")
    assert _pair(*names, texts) == [("all_gather", 10.0)]
    assert _pair(*names) == []


def test_what_runs_aside_and_surely_is_a_collective_counts_with_its_kind_unknown() -> None:
    assert _pair("async-collective-start.5", "async-collective-done.5") == [(UNKNOWN, 10.0)]
    offloaded = _text("call-start", attributes='backend_config={"offload":"OFFLOAD_COLLECTIVE"}')
    assert _pair("call-start.3", "call-done.3", (offloaded, {})) == [(UNKNOWN, 10.0)]


def test_one_part_that_tells_the_kind_is_enough() -> None:
    told = {"hlo_category": "all-gather"}
    names = ("async-collective-start.5", "async-collective-done.5")
    assert _pair(*names, (told, {})) == _pair(*names, ({}, told)) == [("all_gather", 10.0)]


def test_the_groups_and_the_payload_stand_in_the_text() -> None:
    text = "%a = bf16[64]{0} all-reduce(bf16[64]{0} %p), replica_groups=[4,2]<=[2,4]T(1,0)"
    found = _recognized("all-reduce.1", {"long_name": text})
    assert found is not None
    assert (found.payload_bytes, found.groups) == (128, GroupSize(groups=4, size=2))


KERNELS = {
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_reduce",
    "ncclSymDevKernel_AllReduce_AGxLL_R_sum_f32(ncclSymDevArgs)": "all_reduce",
    "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16": "all_reduce",
    "ncclSymkDevKernel_AllGather_STMC": "all_gather",
    "ncclSymkDevKernel_ReduceScatter_LDMC_sum_f16": "reduce_scatter",
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)": UNKNOWN,
    "ncclDevKernel_Generic_1(ncclDevKernelArgs)": UNKNOWN,
    "ncclDevKernelDebug_Generic_4(ncclDevKernelArgs)": UNKNOWN,
    "mscclKernel_Sum_float_Simple_false": UNKNOWN,
    "ncclDevKernel_Broadcast_RING_LL(x)": "",
    "cutlass_gemm": "",
}


@pytest.mark.parametrize(("name", "kind"), KERNELS.items())
def test_nccls_and_rccls_kernels_are_known_by_their_names(name: str, kind: str) -> None:
    assert _kind(name, plane=GPU) == kind


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_Generic(x)",
        "ncclDevKernel_SendRecv(x)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
        "void stream_executor::gpu::AllReduceKernel<float>(x)",
    ],
)
@pytest.mark.parametrize(
    ("belongs", "kind"),
    [
        ("all-reduce-start.3", "all_reduce"),
        ("all-to-all.1", "all_to_all"),
        ("%psum.2", "all_reduce"),
    ],
)
def test_the_instruction_that_a_kernel_belongs_to_goes_before_its_name(
    name: str, belongs: str, kind: str
) -> None:
    found = _recognized(name, {"hlo_op": belongs}, GPU)
    assert found is not None and (found.kind, found.phase) == (kind, Phase.WHOLE)


def test_a_kernel_of_another_instruction_is_what_its_name_says() -> None:
    stats = {"hlo_op": "fusion.3"}
    assert _kind("ncclDevKernel_AllGather_RING_LL(x)", stats, GPU) == "all_gather"
    assert _recognized("loop_fusion_3", stats, GPU) is None


def test_a_copy_that_belongs_to_a_collective_is_none() -> None:
    assert _recognized("MemcpyD2D", {"hlo_op": "all-gather-start.1"}, GPU) is None


def test_a_kernel_is_kept_for_what_it_notes_itself() -> None:
    """Events of one name share their metadata, and a kernel's instruction is none of that."""
    noted = [{"hlo_op": "all-reduce-start.1"}, {"hlo_op": "fusion.1"}, {}]
    kernels = [Made(name="void kernel<float>", duration_ps=9, stats=stats) for stats in noted]
    content = space(plane(GPU, [Line(name="Stream #1(Compute)", events=kernels)]))
    trace = read_xplane(content, keep=WantedEvents())
    assert [event.stats for event in trace.events] == noted[:1]
    assert [one.kind for one in collectives(trace)] == ["all_reduce"]


def test_on_a_host_only_the_name_counts() -> None:
    assert (
        _recognized("ThunkExecute", {"hlo_op": "psum.3", "hlo_category": "all-reduce"}, HOST)
        is None
    )
    assert _kind("psum.3", {"hlo_op": "psum.3"}, HOST) == "all_reduce"


@pytest.mark.parametrize(
    ("stats", "kind"),
    [
        ({"tf_op": "jit(f)/jit(main)/shard_map/psum"}, "all_reduce"),
        ({"tf_op": "jit(f)/all_gather:"}, "all_gather"),
        ({"hlo_category": "all-reduce"}, "all_reduce"),
        (_text("call-start", attributes="to_apply=%all-reduce.2.clone"), "all_reduce"),
        (_text("async-start", attributes="calls=%reduce-scatter.1"), "reduce_scatter"),
        ({"tf_op": "jit(f)/psum/sort"}, ""),
        ({"long_name": "%call-start.3 = f32[8] call-start(%all-reduce.5), to_apply=%sort.1"}, ""),
        ({"hlo_category": "custom fusion"}, ""),
        ({}, ""),
    ],
)
def test_what_runs_aside_is_what_it_calls_and_not_what_it_reads(stats: Stats, kind: str) -> None:
    assert _kind("call-start.3", stats) == kind


COLLECTIVES = {
    "cross-replica-sum": "all_reduce",
    "cross-replica-sum.12": "all_reduce",
    "CrossReplicaSum": "all_reduce",
    "tpu/CrossReplicaSum_3": "all_reduce",
    "all-reduce": "all_reduce",
    "all-reduce.3": "all_reduce",
    "all-reduce.3.clone.1": "all_reduce",
    "all-reduce.2.remat": "all_reduce",
    "all-reduce-fusion.1": "all_reduce",
    "%all-reduce.3 = f32[4]{0} all-reduce(f32[4]{0} %fusion.1)": "all_reduce",
    "psum.7": "all_reduce",
    "psum_invariant.7": "all_reduce",
    "pmax.7": "all_reduce",
    "pmin": "all_reduce",
    "while/body/_1/while/CollectiveReduceV2_2:CollectiveReduceV2": "all_reduce",
    "CollectiveReduceV3:CollectiveReduceV3": "all_reduce",
    "NcclAllReduce:NcclAllReduce": "all_reduce",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_reduce",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "all_reduce",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)": "all_reduce",
    "all-gather.1": "all_gather",
    "all_gather.7": "all_gather",
    "ncclDevKernel_AllGather_RING_LL(x)": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "reduce_scatter.7": "reduce_scatter",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(x)": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-permute.2": "permute",
    "ppermute.3": "permute",
    "ncclDevKernel_SendRecv(x)": "permute",
}
OTHERS = [
    "all-reduce-scatter-fusion-done",
    "all-reduce-scatter-fusion.1",
    "all-reduce_add.1",
    "add_psum_fusion",
    "end: psum_invariant.7",
    "fusion.12",
    "fusion.12 = f32[4]{0} fusion(f32[4]{0} %all-reduce.3)",
    "jit_all_reduce",
    "jit_all_reduce(123)",
    "PjitFunction(psum)",
    "$lax_parallel.py:1 psum",
    "reduce.3",
    "gather.1",
    "ncclDevKernel_Reduce_Sum_f32_RING_LL(x)",
    "ncclDevKernel_Broadcast_RING_LL(x)",
    "CollectiveReduceV2:Identity",
    "CollectiveReduceV2/_15:_Recv",
    "CollectiveExecutor::RunClosure",
    "BaseCollectiveExecutor::ExecuteAsync",
    "call-start.3",
    "",
]


def is_collective(name: str) -> bool:
    parsed = parse_name(name)
    return parsed is not None and parsed.kind != ""


@pytest.mark.parametrize(("name", "kind"), COLLECTIVES.items())
def test_a_name_of_a_collective_is_known_with_its_kind(name: str, kind: str) -> None:
    parsed = parse_name(name)
    assert parsed is not None and (parsed.kind, parsed.phase) == (kind, Phase.WHOLE)
    assert is_collective(name) and WantedEvents()(name)


@pytest.mark.parametrize("name", OTHERS)
def test_a_name_that_holds_the_word_of_a_collective_is_none(name: str) -> None:
    assert not is_collective(name)


@pytest.mark.parametrize("name", [name for name in COLLECTIVES if "_" not in name][:5])
def test_a_letter_more_or_less_makes_it_another_name(name: str) -> None:
    assert not is_collective(f"x{name}")
    assert not is_collective(f"{name}x")


@pytest.mark.parametrize("name", ["all-reduce-start.2", "all-gather-start", "psum-start.7"])
def test_a_start_and_its_done_have_the_same_number(name: str) -> None:
    start, done = parse_name(name), parse_name(name.replace("start", "done"))
    assert start is not None and done is not None
    assert (start.phase, done.phase) == (Phase.START, Phase.DONE)
    assert start.number == done.number


def test_starts_of_other_numbers_and_other_collectives_have_other_numbers() -> None:
    names = ("all-reduce-start.1", "all-reduce-start.2", "all-gather-start.1", "call-start.1")
    numbers = {parsed.number for name in names if (parsed := parse_name(name))}
    assert len(numbers) == 4


@pytest.mark.parametrize("name", ["call-start.3", "call-done", "async-collective-start.1"])
def test_what_runs_aside_is_wanted_but_its_name_says_no_kind(name: str) -> None:
    parsed = parse_name(name)
    assert parsed is not None and parsed.kind == ""
    assert WantedEvents()(name) and not is_collective(name)


def test_a_custom_call_is_another_thing() -> None:
    assert parse_name("custom-call-start.1") is None


@pytest.mark.parametrize("name", ["jit_f(123)", "CollectiveExecutor::ExecuteAsync::Done"])
def test_what_tells_calls_and_ends_apart_is_wanted(name: str) -> None:
    assert WantedEvents()(name)


@pytest.mark.parametrize("name", ["fusion.12", "copy.1", "ExecutorState::Process"])
def test_what_says_nothing_of_collectives_is_not_wanted(name: str) -> None:
    assert not WantedEvents()(name)


def test_a_kernel_is_truer_than_an_instruction_and_this_than_a_node() -> None:
    names = ("ncclDevKernel_AllReduce_Sum(x)", "all-reduce.1", "CrossReplicaSum")
    sources = [parsed.source for name in names if (parsed := parse_name(name))]
    assert sources == sorted(sources) == [Source.KERNEL, Source.INSTRUCTION, Source.NODE]
