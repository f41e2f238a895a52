"""Optimized HLO as XLA writes it for CPU, GPU and TPU: computations, bytes and algorithms."""

from __future__ import annotations

import json

import pytest

from busbw.model.words import DeviceClass
from busbw.worker.backends import hlo, hlo_proof
from busbw.worker.backends.base import MeasuringError
from tests.helpers import build
from tests.unit.worker.backends import hlo_programs as programs
from tests.unit.worker.backends.hlo_programs import FIRST, SECOND

BODY = "region_0.0_spmd"

INNER_LOOP = """\
%inner_body (p: (s32[], f32[1024])) -> (s32[], f32[1024]) {
  %inner.1 = f32[1024]{0} all-reduce(%p), replica_groups={{0,1,2,3}}, to_apply=%region_1.0
}
"""
CALLED = """\
%called (p: f32[1024]) -> f32[1024] {
  ROOT %nested.1 = f32[1024]{0} all-reduce(%p), replica_groups={{0,1,2,3}}, to_apply=%region_1.0
}
"""


def _line(shape: str, op: str, groups: str = "{{0,1}}") -> str:
    operands = "%p.0, %p.1" if "), (" in shape else "%p.0"
    return (
        f"  %x.1 = {shape} {op}({operands}), channel_id=1, replica_groups={groups}, to_apply=%add"
    )


def _only(line: str) -> hlo.Instruction:
    module = hlo.read_module("%one (p: f32[1]) -> f32[1] {\n" + line + "\n}\n")
    (instruction,) = module.computations["one"]
    return instruction


def _ops(instructions: tuple[hlo.Instruction, ...], *ops: str) -> list[str]:
    return [instruction.op for instruction in instructions if instruction.op in ops]


def test_only_bodies_of_loops_that_the_entry_of_hlo_runs_count_as_loop_bodies() -> None:
    loop = "%w.1 = (s32[]) while(%t), condition=%c, body=%inner_body"
    module = hlo.read_module(programs.cpu(FIRST, SECOND, loop, computations=INNER_LOOP))
    assert module.outer_loop_body_names() == (BODY,)
    assert hlo.read_module(programs.TPU_ALL_REDUCE).outer_loop_body_names() == (
        "wide.region_0.0_spmd.sunk",
    )
    assert hlo.read_module(programs.SINGLE).outer_loop_body_names() == ()


@pytest.mark.parametrize("turned_round", [False, True])
def test_the_instructions_of_a_loop_in_hlo_are_found_from_its_body_and_not_from_the_entry(
    turned_round: bool,
) -> None:
    module = hlo.read_module(programs.cpu(FIRST, SECOND, turned_round=turned_round))
    assert (module.entry, module.outer_loop_body_names()) == ("main.0_spmd", (BODY,))
    assert len(_ops(module.unconditional_instructions(BODY), "all-reduce")) == 2
    assert _ops(module.unconditional_instructions(module.entry), "all-reduce") == []


@pytest.mark.parametrize(
    "line",
    [
        "%c.1 = f32[1024]{0} conditional(%i, %p, %p), branch_computations={%called, %other}",
        "%c.1 = f32[1024]{0} conditional(%i, %p, %p), true_computation=%called, "
        "false_computation=%other",
        "%w.1 = (s32[]) while(%t), condition=%called, body=%called",
    ],
)
def test_the_instructions_of_a_loop_in_hlo_do_not_include_its_branches_and_inner_loops(
    line: str,
) -> None:
    module = hlo.read_module(programs.cpu(line, computations=CALLED))
    assert _ops(module.unconditional_instructions(BODY), "all-reduce") == []
    assert len(module.collectives()) == 1


def test_the_instructions_of_a_fusion_in_hlo_can_be_left_out() -> None:
    line = "%fusion.1 = f32[1024]{0} fusion(%p), kind=kLoop, calls=%called"
    module = hlo.read_module(programs.cpu(line, computations=CALLED))
    assert _ops(
        module.unconditional_instructions(BODY, includes_fused=False), "all-reduce", "fusion"
    ) == [
        "fusion",
        "fusion",
    ]


@pytest.mark.parametrize(
    ("shape", "array_bytes"),
    [
        ("f32[]", 0),
        ("f32[1024]{0}", 4096),
        ("f32[1024]{0:T(1024)}", 4096),
        ("f32[1024]{0:T(1024)S(1)}", 4096),
        ("bf16[2048]{0:T(1024)(128)(2,1)}", 4096),
        ("bf16[8,128]{1,0:T(8,128)(2,1)S(1)}", 2048),
        ("f32[4,256,1]{1,2,0:T(1,128)S(1)}", 4096),
        ("f16[10]{0}", 20),
        ("s32[3,5]{1,0}", 60),
        ("f64[4]{0}", 32),
        ("pred[7]{0}", 7),
        ("(f32[512]{0}, f32[512]{0})", 4096),
        ("(f32[256]{0:T(256)S(1)}, f32[256]{0:T(256)}, f32[256]{0}, f32[256]{0})", 4096),
        ("(f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, /*index=5*/f32[2]{0})", 48),
    ],
)
def test_the_result_bytes_of_a_collective_in_hlo_are_the_sum_of_the_arrays_of_its_shape(
    shape: str, array_bytes: int
) -> None:
    instruction = _only(_line(shape, "all-to-all"))
    assert (instruction.op, instruction.result_bytes) == ("all-to-all", array_bytes)


@pytest.mark.parametrize(
    ("shape", "op", "kind", "result_bytes"),
    [
        ("f32[1024]{0}", "all-reduce-start", "all-reduce", 4096),
        ("(f32[1024]{0}, f32[1024]{0})", "all-reduce-start", "all-reduce", 8192),
        ("((f32[1024]{0}), f32[1024]{0})", "all-reduce-start", "all-reduce", 4096),
        ("((f32[8]{0}, f32[4]{0}), (f32[8]{0}, f32[4]{0}))", "all-reduce-start", "all-reduce", 48),
        ("(f32[256]{0}, f32[1024]{0})", "all-gather-start", "all-gather", 4096),
        ("((f32[2]{0}, f32[4]{0}), (f32[8]{0}, f32[16]{0}))", "all-gather-start", "all-gather", 96),
        (
            "(f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)S(1)}, u32[]{:S(2)}, u32[]{:S(2)})",
            "collective-permute-start",
            "collective-permute",
            4096,
        ),
        ("((f32[1024]{0}), f32[256]{0}, u32[])", "reduce-scatter-start", "reduce-scatter", 1024),
    ],
)
def test_an_asynchronous_collective_in_hlo_is_read_from_its_start_with_its_result_bytes(
    shape: str, op: str, kind: str, result_bytes: int
) -> None:
    instruction = _only(_line(shape, op))
    assert (instruction.collective, instruction.result_bytes) == (kind, result_bytes)
    assert _only(_line(shape, op.replace("-start", "-done"))).collective == ""


@pytest.mark.parametrize(
    "line",
    [
        "  %all-reduce.3 = f32[8]{0} add(%all-reduce.1, %all-reduce.2)",
        "  %fusion = f32[8]{0} fusion(%all-reduce.1), kind=kLoop, calls=%wrapped_all-reduce",
        "  ROOT %tuple = (f32[8]{0}) tuple(%all-reduce.3)",
        '  %a = f32[8]{0} add(%p), metadata={op_name="all-reduce(x)"}',
        "  %all-reduce-done.1 = f32[1024]{0} all-reduce-done(%all-reduce-start.1)",
    ],
)
def test_a_line_of_hlo_that_only_mentions_or_ends_a_collective_does_not_count_as_one(
    line: str,
) -> None:
    assert _only(line).collective == ""


def test_a_parameter_of_hlo_with_several_arrays_is_read_completely() -> None:
    module = hlo.read_module(programs.TPU_REDUCE_SCATTER)
    parameter = module.computations["wide.region_0.0_spmd.sunk"][0]
    assert (parameter.op, parameter.array_bytes) == ("parameter", (4096, 1024))


CASE = build.case(ranks=8, mesh="2x4", payload_bytes=65536, protocol="device/chain2")
GROUPS = "replica_groups={{0,1,2,3,4,5,6,7}}"
RING = {
    "emitter": "RotatedPincerEmitter",
    "strategy": "UniDirection1DRingStrategy",
    "debug": "\nUniDirection1DRingStrategy{colors:2 phases:1 cores:{8},{8} nophase0:0}",
}
COLOR = {"phase_rings": [{"ring_type": "ICI_RING_TYPE_UNIDIR_CW"}] * 2}
OTHER_COLOR = {"phase_rings": [{"ring_type": "ICI_RING_TYPE_UNIDIR_CCW"}] * 2}
SPARSECORE = {
    "device_type": "DEVICE_TYPE_SPARSECORE",
    "collective_offload_config": {
        "all_reduce_offload_config": {
            "ici_strategy_config": {"color_strategies": [COLOR, OTHER_COLOR]}
        },
        "is_conditional_collective_offload": False,
    },
}


def all_reduce(config: object = None, operand: str = "own") -> str:
    text = "" if config is None else f", backend_config={json.dumps(config)}"
    return f"%ar = f32[16384]{{0}} all-reduce(%{operand}), {GROUPS}, to_apply=%add{text}"


def published(*configs: object) -> dict[str, str]:
    """Return the algorithm that is read from collectives with these configurations."""
    lines = "\n".join("  " + all_reduce(config) for config in configs)
    module = hlo.read_module(f"%body (own: f32[16384]) -> f32[16384] {{\n{lines}\n}}")
    return hlo.algorithm_in_backend_config(module.collectives())


def test_the_algorithm_of_a_collective_is_read_from_hlo_with_its_colors_and_phases() -> None:
    assert published({"collective_algorithm_config": RING, "flag_configs": []}) == {
        "colors": "2",
        "emitter": "RotatedPincerEmitter",
        "phases": "1",
        "strategy": "UniDirection1DRingStrategy",
    }
    config = {"collective_algorithm_config": {"emitter": "SinglePhaseRingSumEmitter", "debug": ""}}
    assert published(config) == {"emitter": "SinglePhaseRingSumEmitter"}


def test_an_algorithm_on_sparse_cores_is_read_from_hlo_with_its_rings() -> None:
    assert published(SPARSECORE) == {
        "colors": "2",
        "offload": "SparseCore",
        "phases": "2",
        "rings": "UNIDIR_CCW+UNIDIR_CW",
    }
    other = {**RING, "strategy": "StrategyRing"}
    instructions = published(
        {"collective_algorithm_config": RING}, {"collective_algorithm_config": other}
    )
    assert instructions["strategy"] == "UniDirection1DRingStrategy+StrategyRing"
    assert instructions["colors"] == "2"


@pytest.mark.parametrize(
    "config",
    [
        *(None, {}, {"flag_configs": []}, {"collective_algorithm_config": {}}, [1], "text"),
        {"collective_algorithm_config": 3, "collective_backend_config": [{}]},
        {"collective_offload_config": {"a": 1, "b": {"ici_strategy_config": [3]}}},
        {"collective_offload_config": {"a": {"ici_strategy_config": {"color_strategies": 5}}}},
    ],
)
def test_no_algorithm_is_read_from_hlo_without_a_published_algorithm(config: object) -> None:
    assert published(config) == {}
    # Nor is what was cut off.
    line = all_reduce({"collective_algorithm_config": RING})[:-10]
    module = hlo.read_module(f"%body (own: f32[4]) -> f32[4] {{\n  {line}\n}}")
    assert hlo.algorithm_in_backend_config(module.collectives()) == {}


STARTED = """\
%called (param: f32[16384]) -> f32[16384] {{
  %param = f32[16384]{{0}} parameter(0)
  ROOT {collective}
}}, execution_thread="sparsecore"

%body (held: (s32[], f32[16384])) -> (s32[], f32[16384]) {{
  %held = (s32[], f32[16384]{{0}}) parameter(0)
  %own = f32[16384]{{0}} get-tuple-element(%held), index=1
  {start}
  %done = f32[16384]{{0}} {kind}-done(%started)
}}

ENTRY %main (own: f32[16384]) -> (s32[], f32[16384]) {{
  %own.1 = f32[16384]{{0}} parameter(0)
  ROOT %while.1 = (s32[], f32[16384]{{0}}) while(%own.1), condition=%more, body=%body
}}
"""
CALL_START = (
    "%started = ((f32[16384]{0}, token[]), f32[16384]{0}) call-start(%own), "
    'async_execution_thread="sparsecore", to_apply=%called'
)
# The form of newer releases: the started call owns scratch memory, larger than the payload.
CUSTOM_CALL = (
    "%started = ((), (), (s32[24576]{0:T(1024)}, s32[131072]{0:T(1)S(15)}, s32[0]{0})) "
    'custom-call-start(), async_execution_thread="sparsecore", custom_call_target="made up", '
    "called_computations={%called}"
)


STARTS = pytest.mark.parametrize(
    ("start", "kind"), [(CALL_START, "call"), (CUSTOM_CALL, "custom-call")], ids=["call", "custom"]
)


def started(start: str, kind: str, collective: str) -> str:
    return STARTED.format(start=start, kind=kind, collective=collective)


@STARTS
def test_the_proof_accepts_a_collective_that_is_started_on_sparse_cores(
    start: str, kind: str
) -> None:
    text = started(start, kind, all_reduce(SPARSECORE, "param"))
    instructions = hlo_proof.prove_loop(
        text, hlo_proof.ExpectedLoop(CASE, 1, device=DeviceClass.TPU)
    )
    assert instructions.is_asynchronous
    assert instructions.payload_writers == ()
    assert hlo.algorithm_in_backend_config(instructions.collectives)["offload"] == "SparseCore"


@STARTS
def test_the_proof_refuses_an_asynchronous_call_without_a_collective(start: str, kind: str) -> None:
    text = started(start, kind, "%two = f32[16384]{0} add(%param, %param)")
    with pytest.raises(MeasuringError, match="expected 1 all-reduce of 65536 bytes"):
        hlo_proof.prove_loop(text, hlo_proof.ExpectedLoop(CASE, 1, device=DeviceClass.TPU))


@pytest.mark.parametrize(
    "operands",
    [
        "%a.1, %b",
        "f32[8,2]{1,0:T(8,128)} %a.1, (f32[], s32[]) %b",
        "f32[8,2]{1,0} %a.1, /*index=1*/f32[] %b",
    ],
)
def test_the_operands_of_an_instruction_are_read_from_every_form_of_hlo(operands: str) -> None:
    line = f'  ROOT %x.1 = (f32[8]{{0}}, s32[]) tuple({operands}), metadata={{op_name="f(a, c)"}}'
    assert _only(line).operands == ("a.1", "b")
