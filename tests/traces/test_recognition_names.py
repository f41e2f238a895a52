"""The names that collectives have borne, and those that only sound like one."""

from __future__ import annotations

import pytest

from busbw.traces.collectives import WantedEvents
from busbw.traces.recognition import Phase, Source, parse_name

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
