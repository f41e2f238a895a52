"""Optimised HLO as XLA writes it for CPU, GPU and TPU, read: what calls what, and bytes."""

from __future__ import annotations

import pytest

from busbw.worker.backends.hlo import text as hlo

from . import programs
from .programs import FIRST, SECOND

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
    return f"  %x.1 = {shape} {op}(%p.0), channel_id=1, replica_groups={groups}, to_apply=%add"


def _only(line: str) -> hlo.Instruction:
    module = hlo.read("%one (p: f32[1]) -> f32[1] {\n" + line + "\n}\n")
    (one,) = module.computations["one"]
    return one


def _ops(found: tuple[hlo.Instruction, ...], *wanted: str) -> list[str]:
    return [one.op for one in found if one.op in wanted]


def test_a_module_has_its_computations_by_name_and_knows_its_entry() -> None:
    module = hlo.read(programs.CPU_CHAIN)
    assert list(module.computations) == [
        "region_1.0",
        "wrapped_add_computation",
        "region_0.0_spmd",
        "main.0_spmd",
    ]
    assert module.entry == "main.0_spmd"
    assert [one.op for one in module.computations["region_1.0"]] == ["parameter"] * 2 + ["add"]


def test_every_collective_of_a_program_is_found_in_order() -> None:
    found = hlo.read(programs.CPU_CHAIN).collectives()
    assert [one.op for one in found] == ["all-reduce", "all-reduce"]
    assert [one.result_bytes for one in found] == [4096, 4096]
    assert found[1].text.startswith("%psum_invariant.13 = f32[1024]{0} all-reduce(")


def test_a_program_without_collectives_has_none() -> None:
    assert hlo.read("%one (p: f32[4]) -> f32[4] {\n  %a = f32[4]{0} add(%p, %p)\n}\n") is not None
    assert hlo.read("").collectives() == ()
    assert _only("  %add.1 = f32[4]{0} add(%p.0, %p.1)").collective == ""


def test_the_bodies_of_the_entry_s_loops_are_found_and_no_others() -> None:
    loop = "%w.1 = (s32[]) while(%t), condition=%c, body=%inner_body"
    module = hlo.read(programs.cpu(FIRST, SECOND, loop, computations=INNER_LOOP))
    assert module.loop_bodies() == (BODY,)
    assert hlo.read(programs.TPU_ALL_REDUCE).loop_bodies() == ("wide.region_0.0_spmd.sunk",)
    assert hlo.read(programs.SINGLE).loop_bodies() == ()


def test_the_order_of_the_computations_does_not_matter() -> None:
    text = programs.cpu(FIRST, SECOND, turned_round=True)
    module = hlo.read(text)
    assert (module.entry, module.loop_bodies()) == ("main.0_spmd", (BODY,))
    assert len(_ops(module.reached(BODY), "all-reduce")) == 2


def test_what_a_loop_runs_is_reached_from_its_body_and_not_from_the_entry() -> None:
    module = hlo.read(programs.CPU_CHAIN)
    assert len(_ops(module.reached(BODY), "all-reduce")) == 2
    assert _ops(module.reached(module.entry), "all-reduce") == []


@pytest.mark.parametrize(
    "call",
    [
        "%call.1 = f32[1024]{0} call(%p), to_apply=%called",
        "%fusion.1 = f32[1024]{0} fusion(%p), kind=kCustom, calls=%called",
        "%a.1 = ((f32[1024]), f32[1024], u32[]) async-start(%p), calls=%called",
        "%a.1 = f32[1024]{0} custom-call(%p), called_computations={%called}",
    ],
)
def test_what_a_computation_calls_is_reached_with_it(call: str) -> None:
    module = hlo.read(programs.cpu(call, computations=CALLED))
    assert len(_ops(module.reached(BODY), "all-reduce")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "%c.1 = f32[1024]{0} conditional(%i, %p, %p), branch_computations={%called, %other}",
        "%c.1 = f32[1024]{0} conditional(%i, %p, %p), true_computation=%called, "
        "false_computation=%other",
        "%w.1 = (s32[]) while(%t), condition=%called, body=%called",
    ],
)
def test_a_branch_and_an_inner_loop_may_never_run_and_are_not_reached(line: str) -> None:
    module = hlo.read(programs.cpu(line, computations=CALLED))
    assert _ops(module.reached(BODY), "all-reduce") == []
    assert len(module.collectives()) == 1


def test_the_parts_of_a_fusion_are_left_out_where_only_its_result_is_written() -> None:
    line = "%fusion.1 = f32[1024]{0} fusion(%p), kind=kLoop, calls=%called"
    module = hlo.read(programs.cpu(line, computations=CALLED))
    assert _ops(module.reached(BODY, fused=False), "all-reduce", "fusion") == ["fusion", "fusion"]


@pytest.mark.parametrize(
    ("shape", "array_bytes"),
    [
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
def test_what_a_collective_gives_is_the_sum_of_the_arrays_of_its_shape(
    shape: str, array_bytes: int
) -> None:
    one = _only(_line(shape, "all-to-all"))
    assert (one.op, one.result_bytes) == ("all-to-all", array_bytes)


def test_a_scalar_counts_as_nothing() -> None:
    assert _only(_line("f32[]", "all-reduce")).array_bytes == ()
    assert _only(_line("f32[]", "all-reduce")).result_bytes == 0


@pytest.mark.parametrize(
    ("shape", "op", "kind", "result_bytes"),
    [
        ("f32[1024]{0}", "all-reduce-start", "all-reduce", 4096),
        ("(f32[1024]{0}, f32[1024]{0})", "all-reduce-start", "all-reduce", 8192),
        ("(f32[256]{0}, f32[1024]{0})", "all-gather-start", "all-gather", 4096),
        (
            "(f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)S(1)}, u32[]{:S(2)}, u32[]{:S(2)})",
            "collective-permute-start",
            "collective-permute",
            4096,
        ),
        ("((f32[1024]{0}), f32[256]{0}, u32[])", "reduce-scatter-start", "reduce-scatter", 1024),
    ],
)
def test_an_asynchronous_collective_is_its_start_which_names_input_and_result(
    shape: str, op: str, kind: str, result_bytes: int
) -> None:
    one = _only(_line(shape, op))
    assert (one.collective, one.result_bytes) == (kind, result_bytes)
    assert _only(_line(shape, op.replace("-start", "-done"))).collective == ""


@pytest.mark.parametrize("op", hlo.COLLECTIVES)
def test_collectives_are_told_apart(op: str) -> None:
    assert _only(_line("f32[8]{0}", op)).collective == op


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
def test_a_name_an_operand_or_an_end_is_no_collective(line: str) -> None:
    assert _only(line).collective == ""


def test_the_root_of_a_computation_counts() -> None:
    line = _line("f32[8]{0}", "all-reduce").replace("%x.1", "ROOT %x.1")
    assert _only(line).collective == "all-reduce"


def test_a_tuple_of_many_arrays_is_read_to_its_end() -> None:
    module = hlo.read(programs.TPU_REDUCE_SCATTER)
    parameter = module.computations["wide.region_0.0_spmd.sunk"][0]
    assert (parameter.op, parameter.array_bytes) == ("parameter", (4096, 1024))
