"""The proof of a program: the expected collectives over the expected ranks, without copies."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.launch import Proof
from busbw.model.words import DeviceClass, FailureKind
from busbw.worker.backends import hlo, hlo_proof
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.hlo_proof import ExpectedLoop, ProvedLoop
from tests.helpers import build
from tests.unit.worker.backends import hlo_programs as programs
from tests.unit.worker.backends.hlo_programs import (
    FIRST,
    GPU_COPY,
    GPU_COUNT,
    GPU_DONE,
    SECOND,
    gpu,
    started,
)

# What is asked for beside, or instead of, an all-reduce.
OUT_OF_PLACE: dict[str, Any] = {"placement": "out_of_place"}
APART: dict[str, Any] = {"reduce_op": "none", **OUT_OF_PLACE}
PERMUTE: dict[str, Any] = {"collective": "permute", "reduce_op": "none"}
ALL_TO_ALL: dict[str, Any] = {"collective": "all_to_all", "reduce_op": "none"}
GATHER: dict[str, Any] = {"collective": "all_gather", **APART}
BFLOAT16: dict[str, Any] = {"dtype": "bfloat16", "payload_bytes": 2048}

CALLED = """\
%called (p: f32[1024]) -> f32[1024] {
  ROOT %nested.1 = f32[1024]{0} all-reduce(%p), channel_id=1, replica_groups={{0,1,2,3}}, \
use_global_device_ids=true, to_apply=%region_1.0
}
"""


def _proof(
    text: str,
    collectives_per_turn: int = 2,
    *,
    forbids_copies: bool = True,
    device: DeviceClass = DeviceClass.CPU,
    **changes: Any,
) -> Proof:
    expected = ExpectedLoop(
        case=build.case(**changes),
        collectives_per_turn=collectives_per_turn,
        device=device,
        has_injection=not forbids_copies,
    )
    return hlo_proof.prove(text, expected)


def _refused(text: str, collectives_per_turn: int = 2, **options: Any) -> str:
    with pytest.raises(MeasuringError) as caught:
        _proof(text, collectives_per_turn, **options)
    assert caught.value.kind is FailureKind.NOT_A_COLLECTIVE
    return str(caught.value)


@pytest.mark.parametrize("turned_round", [False, True])
def test_the_proof_accepts_a_chain_of_two_all_reduces_at_any_position_in_the_loop_body(
    turned_round: bool,
) -> None:
    assert _proof(programs.cpu(FIRST, SECOND, turned_round=turned_round)) == Proof(
        collectives={"all-reduce": 2},
        payload_copies=0,
        algorithm="psum",
        copies_per_call=0,
        array_bytes=4096,
        groups=((0, 1, 2, 3),),
    )


def test_the_proof_accepts_the_start_of_a_permute_of_a_tpu_and_counts_a_payload_copy() -> None:
    proof = _proof(programs.TPU_PERMUTE, 1, forbids_copies=False, **PERMUTE)
    assert (proof.collectives, proof.payload_copies) == ({"collective-permute": 1}, 1)
    message = _refused(programs.TPU_PERMUTE, 1, **PERMUTE)
    assert "the payload is copied between collectives: %copy.9" in message


@pytest.mark.parametrize(
    ("text", "changes", "kind", "array_bytes", "copies"),
    [
        # Shapes with layouts.
        (programs.TPU_ALL_REDUCE, {}, "all-reduce", 4096, (0, 0)),
        (programs.GPU_WITH_OPERANDS, {}, "all-reduce", 4096, (0, 0)),
        (programs.TPU_ALL_GATHER, GATHER, "all-gather", 4096, (0, 3)),
        # One of the slices that the payload is cut into, and the concatenation.
        (programs.CPU_ALL_TO_ALL, ALL_TO_ALL, "all-to-all", 4096, (2, 0)),
        (programs.SINGLE, {"protocol": "dispatch/chain2"}, "all-reduce", 4096, (0, 0)),
    ],
    ids=["layouts", "operands", "copies of a call", "blocks", "single call"],
)
def test_the_proof_accepts_each_form_of_a_collective_and_counts_its_copies(
    text: str, changes: dict[str, Any], kind: str, array_bytes: int, copies: tuple[int, int]
) -> None:
    proved = _proof(text, 1, forbids_copies=kind != "all-to-all", **changes)
    assert (proved.collectives, proved.array_bytes) == ({kind: 1}, array_bytes)
    assert (proved.payload_copies, proved.copies_per_call) == copies


@pytest.mark.parametrize(
    ("text", "changes", "phrase"),
    [
        (
            programs.TPU_REDUCE_SCATTER,
            {"collective": "reduce_scatter", **OUT_OF_PLACE},
            "expected 1 reduce-scatter of 1024 bytes (float32) over 4 ranks in each turn of the "
            "loop, XLA compiled {'all-reduce': 1}, 0 of them there, such as %all-reduce.2 = f32[1",
        ),
        (
            programs.CPU_CHAIN,
            {"protocol": "dispatch/chain2"},
            "over 4 ranks, XLA compiled {'all-reduce': 2}, 0 of them there",
        ),
        (programs.SINGLE, {}, "0 of them there"),
        (
            programs.cpu("%add.9 = s32[] add(%a, %b)"),
            {},
            "expected 1 all-reduce of 4096 bytes (float32) over 4 ranks in each turn of the loop, "
            "XLA compiled none, 0 of them there",
        ),
    ],
    ids=["another kind", "a loop", "no loop", "none"],
)
def test_the_proof_refuses_a_program_without_the_collective_of_its_case(
    text: str, changes: dict[str, Any], phrase: str
) -> None:
    assert phrase in _refused(text, 1, **changes)


BRANCH = "%c.1 = f32[1024]{0} conditional(%i, %p, %p), branch_computations={%called, %other}"
INNER_LOOP = "%w.1 = (s32[], f32[1024]) while(%t), condition=%called.2, body=%called"


@pytest.mark.parametrize(
    ("body", "outside", "phrase"),
    [
        # Too few, or too many, in a round.
        ((FIRST,), (), "XLA compiled {'all-reduce': 1}, 1 of them there"),
        ((FIRST, SECOND, SECOND), (), "XLA compiled {'all-reduce': 3}, 3 of them there"),
        # Taken out of the loop, and shown; or beside it.
        ((FIRST,), (SECOND,), "{'all-reduce': 2}, 1 of them there, such as %psum_invariant.13 = f"),
        ((), (FIRST, SECOND), "{'all-reduce': 2}, 0 of them there"),
        ((FIRST, SECOND), (FIRST,), "{'all-reduce': 3}, 2 of them there"),
        # One that may not run in every round.
        ((FIRST, BRANCH), (), "{'all-reduce': 2}, 1 of them there, such as ROOT %nested.1"),
        ((FIRST, INNER_LOOP), (), "{'all-reduce': 2}, 1 of them there, such as ROOT %nested.1"),
        # Another kind in its place, and one that names no groups.
        (
            (FIRST, SECOND.replace(" all-reduce(", " all-gather(")),
            (),
            "{'all-reduce': 1, 'all-gather': 1}, 1 of them there, such as %psum_inv",
        ),
        ((FIRST, SECOND.replace("replica_groups={{0,1,2,3}}, ", "")), (), "in groups {0,1,2,3}"),
    ],
)
def test_the_proof_refuses_a_program_with_unexpected_collectives(
    body: tuple[str, ...], outside: tuple[str, ...], phrase: str
) -> None:
    called = CALLED if BRANCH in body or INNER_LOOP in body else ""
    assert phrase in _refused(programs.cpu(*body, entry=outside, computations=called))


@pytest.mark.parametrize(
    "line",
    [
        "%call.1 = f32[1024]{0} call(%psum_invariant.12), to_apply=%called",
        "%a.1 = ((f32[1024]), f32[1024], u32[]) async-start(%psum_invariant.12), calls=%called",
    ],
)
def test_the_proof_accepts_a_collective_in_a_computation_that_each_turn_of_the_loop_calls(
    line: str,
) -> None:
    proof = _proof(programs.cpu(FIRST, line, computations=CALLED), forbids_copies=False)
    assert proof.collectives == {"all-reduce": 2}


@pytest.mark.parametrize("shape", ["f32[512]", "f32[2048]", "bf16[1024]", "f64[1024]"])
def test_the_proof_refuses_a_collective_of_another_size_than_the_payload(shape: str) -> None:
    line = SECOND.replace("f32[1024]", shape)
    message = _refused(programs.cpu(FIRST, line), forbids_copies=False)
    assert f"XLA compiled %psum_invariant.13 = {shape}" in message
    # Nor may a payload of half the width be summed in full.
    message = _refused(programs.CPU_CHAIN, device=DeviceClass.TPU, **BFLOAT16)
    assert "expected 2 all-reduce of 2048 bytes (bfloat16)" in message
    assert "f32[1024]{0} all-reduce(" in message


@pytest.mark.parametrize(
    ("text", "changes", "kind"),
    [
        (programs.CPU_CHAIN, BFLOAT16, FailureKind.OTHER_DTYPE),
        (
            programs.CPU_CHAIN.replace("f32[1024]", "f64[1024]"),
            {},
            FailureKind.NOT_A_COLLECTIVE,
        ),
        *(
            (programs.cpu(FIRST, second), BFLOAT16, FailureKind.NOT_A_COLLECTIVE)
            for second in (
                SECOND.replace("f32[1024]", "f32[512]"),
                SECOND.replace("f32[1024]", "s32[1024]"),
                SECOND.replace("f32[1024]", "bf16[1024]"),
                SECOND.replace("{{0,1,2,3}}", "{{0,1},{2,3}}"),
                SECOND.replace(" all-reduce(", " all-gather("),
            )
        ),
    ],
)
def test_the_proof_names_the_dtype_only_of_bfloat16_collectives_that_a_cpu_computes_in_float32(
    text: str, changes: dict[str, Any], kind: FailureKind
) -> None:
    with pytest.raises(MeasuringError) as caught:
        hlo_proof.prove(text, ExpectedLoop(build.case(**changes), 2, device=DeviceClass.CPU))
    assert caught.value.kind is kind
    words = "XLA's CPU compiler computes this bfloat16 all-reduce in float32"
    assert (str(caught.value) == words) is (kind is FailureKind.OTHER_DTYPE)


def test_a_refusal_of_the_proof_shows_a_shortened_instruction_on_a_separate_line() -> None:
    many = ", ".join(["f32[8]"] * 500)
    line = SECOND.replace("f32[1024]{0}", f"({many})")
    sentence, below = _refused(programs.cpu(FIRST, line), forbids_copies=False).splitlines()
    assert "expected 2 all-reduce of 4096 bytes" in sentence and sentence.endswith("(...):")
    assert below.startswith("%psum_invariant.13 = (f32[8], ")
    assert max(len(sentence), len(below)) <= 300
    line = SECOND.replace("{{0,1,2,3}}", "{{0,1}}") + "x" * 5000
    assert len(_refused(programs.cpu(FIRST, line))) < 600


@pytest.mark.parametrize(
    "groups",
    [
        "{{0,1},{2,3}}",
        "{{0,1}}",
        "{{0,1,2}}",
        "[2,2]<=[4]",
        "{{3,2,1,0}}",
        "mesh['x'=2,'y'=2] {'y'}",
        "mesh['x'=2,'y'=2] {'y','x'}",
        "mesh['ranks'=2] {'ranks'}",
        "mesh['ranks'=8] {'ranks'}",
        "mesh['ranks'=4] {'ranks':(1)2}",
        "mesh['ranks'=4], device_ids=(3,2,1,0) {'ranks'}",
    ],
)
def test_the_proof_refuses_a_collective_over_other_groups_than_all_ranks(
    groups: str,
) -> None:
    message = _refused(programs.cpu(FIRST, SECOND.replace("{{0,1,2,3}}", groups)))
    assert "over 4 ranks in each turn of the loop in groups {0,1,2,3}, XLA compiled" in message
    assert f"replica_groups={groups.removesuffix('x')}" in message


@pytest.mark.parametrize(
    "groups",
    [
        "{}",
        "[1,4]<=[4]",
        "{{0,1,2,3}}",
        "mesh['ranks'=4] {'ranks'}",
        "mesh['x'=2,'y'=2] {'x','y'}",
    ],
)
def test_the_proof_accepts_a_group_of_all_ranks_that_is_written_in_any_form(
    groups: str,
) -> None:
    lines = (line.replace("{{0,1,2,3}}", groups) for line in (FIRST, SECOND))
    assert _proof(programs.cpu(*lines)).groups == ((0, 1, 2, 3),)


@pytest.mark.parametrize(
    ("axes", "groups", "right"),
    [
        ("y", "{{0,1},{2,3}}", True),
        ("y", "{{2,3},{0,1}}", True),
        ("y", "[2,2]<=[4]", True),
        ("y", "{{0,2},{1,3}}", False),
        ("y", "{{0,1}}", False),
        ("y", "{{0,1,2,3}}", False),
        ("x", "{{0,2},{1,3}}", True),
        ("x", "[2,2]<=[2,2]T(1,0)", True),
        ("x", "[2,2]<=[4]", False),
        ("y", "mesh['x'=2,'y'=2] {'y'}", True),
        ("y", "mesh['x'=2,'y'=2] {'x'}", False),
        ("y", "mesh['x'=2,'y'=2] {'x','y'}", False),
        ("y", "mesh['x'=2,'y'=2], device_ids=([4]<=[2,2]T(1,0)) {'y'}", False),
        ("x", "mesh['x'=2,'y'=2] {'x'}", True),
        ("x", "mesh['x'=2,'y'=2] {'y'}", False),
        ("x", "mesh['x'=4] {'x':(1)2}", False),
    ],
)
def test_the_proof_accepts_a_collective_along_an_axis_only_over_the_groups_of_the_axis(
    axes: str, groups: str, right: bool
) -> None:
    text = programs.cpu(*(line.replace("{{0,1,2,3}}", groups) for line in (FIRST, SECOND)))
    changes: dict[str, Any] = {"mesh": "2x2", "axes": axes}
    if right:
        expected = {"y": ((0, 1), (2, 3)), "x": ((0, 2), (1, 3))}[axes]
        assert _proof(text, **changes).groups == expected
    else:
        assert "over 2 ranks" in _refused(text, **changes)


RING_OF_Y = {"mesh": "2x2", "axes": "y"}


@pytest.mark.parametrize(
    ("pairs", "changes", "groups"),
    [
        ("{{0,1},{1,2},{2,3},{3,0}}", {}, ((0, 1, 2, 3),)),
        ("{{3,0},{2,3},{0,1},{1,2}}", {}, ((0, 1, 2, 3),)),
        ("{{1,0},{2,1},{3,2},{0,3}}", {}, None),
        ("{{0,1},{1,2},{2,3}}", {}, None),
        ("{{0,1},{1,0},{2,3},{3,2}}", {}, None),
        ("{{0,1},{1,0},{2,3},{3,2}}", RING_OF_Y, ((0, 1), (2, 3))),
        ("{{0,0},{1,1},{2,2},{3,3}}", {}, None),
        ("{}", {}, None),
    ],
)
def test_the_proof_accepts_a_permute_only_if_each_rank_sends_to_the_next_rank_of_its_group(
    pairs: str, changes: dict[str, Any], groups: tuple[tuple[int, ...], ...] | None
) -> None:
    text = programs.TPU_PERMUTE.replace("{{0,1},{1,2},{2,3},{3,0}}", pairs)
    options = {"forbids_copies": False, **PERMUTE, **changes}
    if groups:
        assert _proof(text, 1, **options).groups == groups
    else:
        assert f"source_target_pairs={pairs}" in _refused(text, 1, **options)


COPY = '%copy.12 = f32[1024]{0} copy(%get-tuple-element.35), metadata={op_name="while/body"}'
FUSION = (
    "%multiply_fusion.1 = f32[1024]{0} fusion(%psum_invariant.12), kind=kLoop, "
    "calls=%fused_computation"
)
FUSED = """\
%fused_computation (p: f32[1024]) -> f32[1024] {
  %p = f32[1024]{0} parameter(0)
  ROOT %multiply.1 = f32[1024]{0} multiply(%p, %p)
}
"""


@pytest.mark.parametrize(
    ("line", "computations"),
    [
        (COPY, ""),
        (COPY.replace("{0}", "{0:T(1024)S(1)}"), ""),
        (FUSION, FUSED),
        ("%a.1 = f32[1024]{0} add(%psum_invariant.12, %psum_invariant.12)", ""),
        ("%b.1 = f32[1024]{0} broadcast(%constant.1), dimensions={}", ""),
        (
            "%copy-start.1 = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)}, u32[]{:S(2)}) "
            "copy-start(%gte.1)",
            "",
        ),
        ("%call.1 = f32[1024]{0} call(%p), to_apply=%fused_computation", FUSED),
    ],
)
def test_the_proof_refuses_a_loop_with_an_additional_operation_on_the_payload(
    line: str, computations: str
) -> None:
    text = programs.cpu(FIRST, line, SECOND, computations=computations)
    assert "the payload is copied between collectives: " in _refused(text)
    assert _proof(text, forbids_copies=False).payload_copies == 1


def test_the_proof_accepts_and_counts_a_copy_to_the_on_chip_memory_of_a_tpu() -> None:
    """Count copies to a TPU's own memory, which may hold a small payload during a collective."""
    move = (
        "%copy-start.1 = (f32[1024]{0:T(1024)S(1)}, f32[1024]{0:T(1024)}, u32[]{:S(2)}) "
        "copy-start(%gte.1)"
    )
    assert _proof(programs.cpu(FIRST, move, SECOND)).payload_copies == 1


@pytest.mark.parametrize("line", [COPY, FUSION])
def test_a_copy_in_the_entry_of_a_program_counts_as_a_copy_in_each_call(line: str) -> None:
    proof = _proof(programs.cpu(FIRST, SECOND, entry=(line,), computations=FUSED))
    assert (proof.payload_copies, proof.copies_per_call) == (0, 1)


@pytest.mark.parametrize(
    "line",
    [
        "%copy.5 = s32[] copy(%get-tuple-element.34)",
        "%copy.6 = f32[16]{0} copy(%broadcast.2)",
        "%bitcast.6 = f32[1,1024]{1,0} bitcast(%get-tuple-element.35)",
        "%gte.9 = f32[1024]{0} get-tuple-element(%param), index=2",
        "%copy-done.1 = f32[1024]{0} copy-done(%copy-start.1)",
        '%a.1 = f32[1024]{0} custom-call(), custom_call_target="AllocateBuffer"',
        "%tuple.9 = (f32[1024]{0}, f32[1024]{0}) tuple(%a, %b)",
        "%ob.1 = (f32[1024]{0}, f32[1024]{0}) opt-barrier(%tuple.9)",
    ],
)
def test_an_instruction_that_does_not_write_the_payload_does_not_count_as_a_copy(
    line: str,
) -> None:
    assert _proof(programs.cpu(FIRST, line, SECOND)).payload_copies == 0


def test_a_copied_block_of_an_all_gather_counts_as_a_copy_of_the_payload() -> None:
    block = "%copy.1 = f32[256]{0} copy(%get-tuple-element.64)"
    smaller = "%copy.1 = f32[255]{0} copy(%get-tuple-element.64)"
    for line, copies in ((block, 1), (smaller, 0)):
        text = programs.TPU_ALL_GATHER.replace("  %bitcast.6", f"  {line}\n  %bitcast.6")
        assert _proof(text, 1, forbids_copies=False, **GATHER).payload_copies == copies


def test_the_end_of_an_asynchronous_collective_does_not_count_as_a_copy_of_the_payload() -> None:
    start = FIRST.replace(" all-reduce(", " all-reduce-start(")
    done = "%d.1 = f32[1024]{0} all-reduce-done(%psum_invariant.12)"
    proof = _proof(programs.cpu(start, done, SECOND))
    assert (proof.collectives, proof.payload_copies) == ({"all-reduce": 2}, 0)


TWICE = GPU_COPY.replace("get-tuple-element.27", "copy.7")
BEFORE = GPU_COPY.replace("copy.6", "copy.7")
INPUT = started(operand="copy.6", is_sync=True)


def _prove_on(text: str, device: DeviceClass = DeviceClass.GPU, **changes: Any) -> ProvedLoop:
    return hlo_proof.prove_loop(
        text, hlo_proof.ExpectedLoop(build.case(**changes), 1, device=device)
    )


def _refused_of_gpu(text: str, device: DeviceClass = DeviceClass.GPU, **changes: Any) -> str:
    with pytest.raises(MeasuringError) as caught:
        _prove_on(text, device, **changes)
    assert caught.value.kind is FailureKind.NOT_A_COLLECTIVE
    return str(caught.value)


def _algorithm(loop: ProvedLoop) -> dict[str, str]:
    return hlo.algorithm_in_backend_config(loop.collectives)


def test_the_algorithm_of_a_gpu_contains_only_values_that_differ_from_the_defaults() -> None:
    assert _algorithm(_prove_on(programs.GPU_IN_PLACE)) == {"strategy": "TRITON_ONE_SHOT"}
    assert _algorithm(_prove_on(programs.GPU_WAITED_FOR)) == {}
    text = programs.GPU_WAITED_FOR.replace('"backend":"DEFAULT"', '"backend":"NVSHMEM"')
    text = text.replace("COLLECTIVES_MODE_INVALID", "COLLECTIVES_SYMMETRIC_MEMORY")
    assert _algorithm(_prove_on(text)) == {"backend": "NVSHMEM", "mode": "SYMMETRIC_MEMORY"}


def test_no_algorithm_is_read_from_a_gpu_configuration_of_an_unknown_form() -> None:
    text = programs.GPU_WAITED_FOR.replace(programs.config(is_sync=True), "backend_config={}")
    assert _algorithm(_prove_on(text)) == {}
    cut = programs.GPU_WAITED_FOR.replace(
        '"collective_backend_config":{', '"collective_backend_config":3'
    )
    assert _algorithm(_prove_on(cut)) == {}


def test_the_proof_allows_a_copy_of_the_input_only_out_of_place_on_gpus() -> None:
    text = programs.GPU_OUT_OF_PLACE
    assert [instruction.op for instruction in _prove_on(text, **OUT_OF_PLACE).payload_writers] == [
        "copy"
    ]
    assert "%copy.6 = f32[1024]{0} copy(" in _refused_of_gpu(text)
    for device in (DeviceClass.CPU, DeviceClass.TPU):
        assert "%copy.6 = " in _refused_of_gpu(text, device, **OUT_OF_PLACE)


@pytest.mark.parametrize(
    ("lines", "phrase"),
    [
        (
            (GPU_COPY, INPUT, GPU_DONE, GPU_COPY.replace("copy.6", "copy.8"), GPU_COUNT),
            "%copy.8 = ",
        ),
        ((BEFORE, TWICE, INPUT, GPU_DONE, GPU_COUNT), "%copy.7 = "),
        (
            (
                "%copy.6 = f32[1024]{0} fusion(%get-tuple-element.27), kind=kLoop, calls=%fused_m",
                INPUT,
                GPU_DONE,
                GPU_COUNT,
            ),
            "%copy.6 = f32[1024]{0} fusion(",
        ),
    ],
)
def test_the_proof_refuses_every_copy_out_of_place_on_gpus_except_a_copy_of_the_input(
    lines: tuple[str, ...], phrase: str
) -> None:
    assert f"the payload is copied between collectives: {phrase}" in _refused_of_gpu(
        gpu(*lines), **OUT_OF_PLACE
    )


@pytest.mark.parametrize(
    ("text", "changes", "starts", "per_call"),
    [
        (programs.GPU_IN_PLACE, {}, True, []),
        # It is awaited immediately.
        (programs.GPU_WAITED_FOR, {}, False, []),
        (programs.GPU_OWN_BUFFERS, {}, True, ["copy"]),
        (programs.GPU_ALL_GATHER, GATHER, False, []),
        (programs.GPU_REDUCE_SCATTER, {"collective": "reduce_scatter", **OUT_OF_PLACE}, False, []),
        (programs.GPU_ALL_TO_ALL, {"collective": "all_to_all", **APART}, False, []),
        (programs.GPU_PERMUTE, {**PERMUTE, **OUT_OF_PLACE}, False, []),
    ],
)
def test_the_proof_accepts_the_start_of_each_asynchronous_collective_of_a_gpu(
    text: str, changes: dict[str, Any], starts: bool, per_call: list[str]
) -> None:
    loop = _prove_on(text, **changes)
    assert (len(loop.collectives), loop.payload_writers, loop.is_asynchronous) == (1, (), starts)
    assert [instruction.op for instruction in loop.payload_writers_per_call] == per_call


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (gpu(GPU_COUNT), "XLA compiled none, 0 of them there"),
        (programs.GPU_DECOMPOSED, "XLA compiled {'all-gather': 1}, 0 of them there"),
        (
            programs.GPU_IN_STEPS,
            "XLA compiled {'reduce-scatter': 1, 'all-reduce': 1, 'all-gather': 1}",
        ),
        (programs.GPU_IN_PLACE.replace("{{0,1,2,3}}", "{{0,1},{2,3}}"), "in groups {0,1,2,3}"),
        (programs.GPU_IN_PLACE.replace("f32[1024]{0} all", "f32[512]{0} all"), "of 4096 bytes"),
        (
            gpu(started(is_sync=True), GPU_DONE, started(is_sync=True), GPU_DONE, GPU_COUNT),
            "XLA compiled {'all-reduce': 2}, 2 of them there",
        ),
    ],
)
def test_the_proof_refuses_a_gpu_program_with_other_collectives_than_expected(
    text: str, phrase: str
) -> None:
    assert phrase in _refused_of_gpu(text)
