"""Optimised HLO as XLA writes it for CPU, GPU and TPU: collectives and copies of the payload."""

from __future__ import annotations

import pytest

from busbw.worker.backends import hlo

CPU_LOOP = """\
HloModule jit_chain, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }, \
entry_computation_layout={(s32[], f32[1024]{0}, f32[1024]{0})->(f32[1024]{0}, f32[1024]{0})}

%region_1.2 (psum_invariant.1: f32[], psum_invariant.2: f32[]) -> f32[] {
  %psum_invariant.1 = f32[] parameter(0), metadata={op_name="psum_invariant"}
  %psum_invariant.2 = f32[] parameter(1), metadata={op_name="psum_invariant"}
  ROOT %add.1 = f32[] add(%psum_invariant.1, %psum_invariant.2), metadata={op_name="add"}
}

%body (param: (s32[], f32[1024], f32[1024], s32[])) -> (s32[], f32[1024], f32[1024], s32[]) {
  %param = (s32[], f32[1024]{0}, f32[1024]{0}, s32[]) parameter(0)
  %gte.5 = f32[1024]{0} get-tuple-element(%param), index=1
  %psum_invariant.7 = f32[1024]{0} all-reduce(%gte.5), channel_id=1, \
replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%region_1.2, \
metadata={op_name="jit(chain)/shmap_body/while/body/psum_invariant" stack_frame_id=4}
  %psum_invariant.8 = f32[1024]{0} all-reduce(%psum_invariant.7), channel_id=2, \
replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%region_1.2
  %gte.4 = s32[] get-tuple-element(%param), index=0
  %copy.5 = s32[] copy(%gte.4)
  ROOT %tuple.3 = (s32[], f32[1024]{0}, f32[1024]{0}, s32[]) \
tuple(%copy.5, %psum_invariant.8, %psum_invariant.7, %gte.4)
}
"""

BODY = "%body (param: (s32[], f32[1024])) -> (s32[], f32[1024]) {\n"
ENTRY = "ENTRY %main.4_spmd (param: s32[], param.1: f32[1024]) -> (f32[1024]) {\n"
NONE = hlo.Copies(in_loop=(), per_call=())

COPIED = """\
  %copy.12 = f32[1024]{0} copy(%get-tuple-element.9), metadata={op_name="jit(chain)/while"}
  %copy.13 = f32[16]{0} copy(%broadcast.2)
"""


def _line(shape: str, op: str, groups: str) -> str:
    return f"  %x.1 = {shape} {op}(%p.0), channel_id=1, replica_groups={groups}, to_apply=%add"


def test_every_collective_of_a_program_is_found_in_order() -> None:
    found = hlo.collectives(CPU_LOOP)
    assert [one.op for one in found] == ["all-reduce", "all-reduce"]
    assert [one.array_bytes for one in found] == [4096, 4096]
    assert [one.group_size for one in found] == [4, 4]
    assert found[1].text.startswith("%psum_invariant.8 = f32[1024]{0} all-reduce(")


def test_a_program_without_collectives_has_none() -> None:
    assert hlo.collectives("  %add.1 = f32[4]{0} add(%p.0, %p.1)") == []
    assert hlo.count_by_kind([]) == {}


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ("{{0,1,2,3}}", 4),
        ("{{0,1},{2,3}}", 2),
        ("{{0}}", 1),
        ("[1,4]<=[4]", 4),
        ("[2,4]<=[8]", 4),
        ("[4,2]<=[2,4]T(1,0)", 2),
        ("{}", None),
    ],
)
def test_the_size_of_a_group_is_read_from_lists_and_from_iota_form(
    groups: str, size: int | None
) -> None:
    (one,) = hlo.collectives(_line("f32[256]{0}", "all-reduce", groups))
    assert size == one.group_size


@pytest.mark.parametrize(
    ("shape", "array_bytes"),
    [
        ("f32[1024]{0}", 4096),
        ("f32[1024]{0:T(1024)}", 4096),
        ("bf16[2048]{0:T(1024)(128)(2,1)}", 4096),
        ("bf16[8,128]{1,0:T(8,128)(2,1)S(1)}", 2048),
        ("f16[10]{0}", 20),
        ("s32[3,5]{1,0}", 60),
        ("f32[]", 4),
        ("pred[7]{0}", 7),
        ("(f32[512]{0}, f32[512]{0})", 2048),
    ],
)
def test_the_size_of_an_array_is_that_of_its_shape(shape: str, array_bytes: int) -> None:
    (one,) = hlo.collectives(_line(shape, "all-reduce", "{{0,1}}"))
    assert array_bytes == one.array_bytes


def test_an_asynchronous_all_reduce_is_counted_once_by_its_start() -> None:
    text = (
        "  %all-reduce-start.1 = f32[1024]{0} all-reduce-start(%p.1), channel_id=1, "
        'replica_groups=[1,8]<=[8], to_apply=%add, backend_config={"is_sync":false}\n'
        "  %all-reduce-done.1 = f32[1024]{0} all-reduce-done(%all-reduce-start.1)\n"
    )
    found = hlo.collectives(text)
    assert hlo.count_by_kind(found) == {"all-reduce": 1}
    assert (found[0].array_bytes, found[0].group_size) == (4096, 8)


@pytest.mark.parametrize(
    "op",
    ["reduce-scatter", "all-gather", "all-to-all", "collective-permute"],
)
def test_other_collectives_are_told_apart(op: str) -> None:
    assert {op: 1} == hlo.count_by_kind(hlo.collectives(_line("f32[8]{0}", op, "{{0,1}}")))


def test_a_name_or_an_operand_is_no_instruction() -> None:
    text = (
        "  %all-reduce.3 = f32[8]{0} add(%all-reduce.1, %all-reduce.2)\n"
        "  %fusion = f32[8]{0} fusion(%all-reduce.1), kind=kLoop, calls=%wrapped_all-reduce\n"
        "  ROOT %tuple = (f32[8]{0}) tuple(%all-reduce.3)\n"
    )
    assert hlo.collectives(text) == []


def test_the_root_of_a_computation_counts() -> None:
    line = _line("f32[8]{0}", "all-reduce", "{{0,1}}").replace("%x.1", "ROOT %x.1")
    assert len(hlo.collectives(line)) == 1


def test_the_counter_of_a_loop_is_no_copy_of_the_payload() -> None:
    assert hlo.payload_copies(CPU_LOOP, 4096) == NONE
    assert hlo.payload_copies(CPU_LOOP, 4) == NONE


def test_a_copy_in_the_body_of_a_loop_is_found_and_a_smaller_array_is_none() -> None:
    (line,) = hlo.payload_copies(BODY + COPIED, 4096).in_loop
    assert line.startswith("%copy.12 = f32[1024]{0} copy(")


def test_a_copy_of_a_small_payload_is_found_too() -> None:
    assert len(hlo.payload_copies(BODY + COPIED, 64).in_loop) == 2


def test_a_copy_within_the_entry_is_made_once_in_a_call() -> None:
    copies = hlo.payload_copies(CPU_LOOP + ENTRY + COPIED + "}\n", 4096)
    assert (len(copies.in_loop), len(copies.per_call)) == (0, 1)


def test_a_computation_after_the_entry_may_be_a_loop_again() -> None:
    copies = hlo.payload_copies(ENTRY + "}\n\n" + BODY + COPIED, 4096)
    assert (len(copies.in_loop), len(copies.per_call)) == (1, 0)


@pytest.mark.parametrize(
    "line",
    [
        "  %copy.1 = f32[1024]{0:T(1024)} copy(%gte.1), backend_config={}",
        "  ROOT %copy.1 = f32[1024]{0} copy(%gte.1)",
        "  %copy-start.1 = (f32[1024]{0:T(1024)S(1)}, f32[1024]{0:T(1024)}, u32[]{:S(2)}) "
        "copy-start(%gte.1)",
    ],
)
def test_a_copy_is_found_in_tpu_tiles_as_a_root_and_as_a_start(line: str) -> None:
    assert (line.strip(),) == hlo.payload_copies(BODY + line, 4096).in_loop


def test_an_asynchronous_copy_of_a_scalar_is_none() -> None:
    line = "  %copy-start.1 = (s32[]{:T(128)}, s32[]{:T(128)S(6)}, u32[]{:S(2)}) copy-start(%a)"
    assert hlo.payload_copies(BODY + line, 4) == NONE


def test_the_words_copy_done_and_copy_in_a_name_are_no_copies() -> None:
    text = (
        "  %copy-done.1 = f32[1024]{0} copy-done(%copy-start.1)\n"
        "  %copy_fusion = f32[1024]{0} fusion(%p), kind=kLoop, calls=%fused_copy\n"
    )
    assert hlo.payload_copies(text, 4096) == NONE
