"""The collectives of programs that XLA really compiled, and of forms that it may print.

`dumps` are the four steps of `steps`, compiled for 8 CPU devices, v5e:2x4, v6e:2x4, tpu7x:2x2x1 by
libtpu 0.0.42.1, and h100:8 by jax-cuda13-pjrt 0.10.2. What they must hold was counted by hand.
"""

from __future__ import annotations

import pytest

from busbw.extensions.program.worker import collectives_in_hlo, mesh_in_stablehlo
from busbw.extensions.program.worker_values import CollectiveUse, ProgramError
from tests.unit.extensions.program.recorded import DUMPS, dump, mesh_of

ASYNC = True

# (kind, dtype, payload, axes, times a step, asynchronous) of every row, without scalars' sums.
Row = tuple[str, str, int, str, int, bool]
MIB = 1 << 20
_GRADIENTS = 2 * 4 * MIB
EXPECTED: dict[str, set[Row]] = {
    "data_parallel.cpu": {("all_reduce", "float32", _GRADIENTS + 4, "data", 1, False)},
    "data_parallel.v5e_2x4": {("all_reduce", "float32", _GRADIENTS + 4, "data", 1, False)},
    "data_parallel.v6e_2x4": {("all_reduce", "float32", _GRADIENTS + 4, "data", 1, False)},
    "data_parallel.tpu7x_2x2x1": {
        ("all_reduce", "float32", _GRADIENTS, "data", 1, ASYNC),
        ("all_reduce", "float32", 4, "data", 1, False),
    },
    "data_parallel.h100": {("all_reduce", "float32", _GRADIENTS + 4, "data", 1, False)},
    # XLA for CPUs computes bfloat16 in float32, and has no reduce-scatter here.
    "fsdp.cpu": {
        ("all_gather", "float32", 4 * MIB, "data", 8, False),
        ("all_reduce", "float32", 8 * MIB, "data", 4, False),
        ("all_reduce", "float32", 4, "data", 1, False),
    },
    "fsdp.v5e_2x4": {
        ("all_gather", "bfloat16", 2 * MIB, "data", 4, False),
        ("all_gather", "bfloat16", 2 * MIB, "data", 4, ASYNC),
        ("reduce_scatter", "bfloat16", 4 * MIB, "data", 4, False),
        ("all_reduce", "float32", 4, "data", 1, False),
    },
    "fsdp.v6e_2x4": {
        ("all_gather", "bfloat16", 2 * MIB, "data", 8, False),
        ("reduce_scatter", "bfloat16", 4 * MIB, "data", 4, False),
        ("all_reduce", "float32", 4, "data", 1, False),
    },
    "fsdp.tpu7x_2x2x1": {
        ("all_gather", "bfloat16", 2 * MIB, "data", 8, ASYNC),
        ("reduce_scatter", "bfloat16", 2 * MIB, "data", 8, ASYNC),
        ("all_reduce", "float32", 4, "data", 1, False),
    },
    "fsdp.h100": {
        ("all_gather", "bfloat16", 4 * MIB, "data", 4, False),
        ("reduce_scatter", "bfloat16", 4 * MIB, "data", 4, ASYNC),
        ("all_reduce", "float32", 4, "data", 1, ASYNC),
    },
    # The gradients of both blocks are added up before they are summed, but on a CPU.
    "tensor_parallel.cpu": {
        ("all_reduce", "float32", 256 << 10, "model", 3, False),
        ("all_reduce", "float32", 8 * MIB + 4, "data", 1, False),
    },
    # A TPU multiplies in bfloat16: what only feeds a product is summed in it.
    "tensor_parallel.v5e_2x4": {
        ("all_reduce", "float32", 256 << 10, "model", 1, False),
        ("all_reduce", "bfloat16", 128 << 10, "model", 2, False),
        ("all_reduce", "float32", 4 * MIB + 4, "data", 1, False),
    },
    "tensor_parallel.v6e_2x4": {
        ("all_reduce", "float32", 256 << 10, "model", 1, False),
        ("all_reduce", "bfloat16", 128 << 10, "model", 2, False),
        ("all_reduce", "float32", 4 * MIB + 4, "data", 1, False),
    },
    "tensor_parallel.tpu7x_2x2x1": {
        ("all_reduce", "float32", 256 << 10, "model", 1, False),
        ("all_reduce", "bfloat16", 128 << 10, "model", 2, False),
        ("all_reduce", "float32", 4 * MIB, "data", 1, ASYNC),
        ("all_reduce", "float32", 4, "data", 1, False),
    },
    "tensor_parallel.h100": {
        ("all_reduce", "float32", 256 << 10, "model", 2, False),
        ("all_reduce", "float32", 256 << 10, "model", 1, ASYNC),
        ("all_reduce", "float32", 4 * MIB + 4, "data", 1, False),
    },
    "experts.cpu": {
        ("all_to_all", "float32", 128 << 10, "expert", 3, False),
        ("all_reduce", "float32", 4, "expert", 1, False),
    },
    "experts.v5e_2x4": {
        ("all_to_all", "float32", 128 << 10, "expert", 1, False),
        ("all_to_all", "bfloat16", 64 << 10, "expert", 2, False),
        ("all_reduce", "float32", 4, "expert", 1, False),
    },
    "experts.v6e_2x4": {
        ("all_to_all", "float32", 128 << 10, "expert", 1, False),
        ("all_to_all", "bfloat16", 64 << 10, "expert", 2, False),
        ("all_reduce", "float32", 4, "expert", 1, False),
    },
    "experts.tpu7x_2x2x1": {
        ("all_to_all", "float32", 128 << 10, "expert", 1, False),
        ("all_to_all", "bfloat16", 64 << 10, "expert", 2, False),
        ("all_reduce", "float32", 4, "expert", 1, False),
    },
    "experts.h100": {
        ("all_to_all", "float32", 128 << 10, "expert", 2, False),
        ("all_to_all", "float32", 128 << 10, "expert", 1, ASYNC),
        ("all_reduce", "float32", 4, "expert", 1, ASYNC),
    },
}


def recorded(name: str) -> tuple[CollectiveUse, ...]:
    return collectives_in_hlo(dump(name), mesh_of(name)).uses


def make_rows(uses: tuple[CollectiveUse, ...]) -> set[Row]:
    """Return the rows of all collectives, whose source line and algorithm may differ."""
    times: dict[tuple[str, str, int, str, bool], int] = {}
    for use in uses:
        key = (use.kind, use.dtype, use.payload_bytes, use.axes, use.is_asynchronous)
        times[key] = times.get(key, 0) + use.times
    return {(*key[:4], count, key[4]) for key, count in times.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_list_of_collectives_counts_every_collective_of_a_program_that_xla_compiled(
    name: str,
) -> None:
    assert make_rows(recorded(name)) == EXPECTED[name]


def test_the_expected_list_of_collectives_is_stored_for_every_recorded_dump() -> None:
    assert {path.name.partition(".hlo")[0] for path in DUMPS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_list_of_collectives_names_a_source_line_of_the_step_for_every_collective(
    name: str,
) -> None:
    sources = {use.source.rpartition("/")[2].partition(":")[0] for use in recorded(name)}
    assert sources == {"steps.py"}


@pytest.mark.parametrize("chip", ["cpu", "v5e_2x4", "tpu7x_2x2x1", "h100"])
def test_the_arguments_of_a_program_are_listed_in_their_order_with_their_names_and_bytes(
    chip: str,
) -> None:
    arguments = collectives_in_hlo(dump(f"fsdp.{chip}")).arguments
    assert [*arguments.items()] == [("weights[0]", MIB), ("weights[1]", MIB), ("rows", 64 << 10)]


def test_the_list_of_collectives_has_the_algorithm_that_the_compiler_published() -> None:
    scattered, *_ = recorded("fsdp.v5e_2x4")
    assert scattered.algorithm["emitter"] == "AllReduceScatterFusion"
    summed, *_ = recorded("data_parallel.tpu7x_2x2x1")
    assert summed.algorithm["offload"] == "SparseCore"


def test_the_operations_that_overlap_an_asynchronous_collective_are_counted() -> None:
    (summed, _) = recorded("data_parallel.tpu7x_2x2x1")
    assert summed.hidden_by == 3
    (hidden,) = (use for use in recorded("tensor_parallel.tpu7x_2x2x1") if use.is_asynchronous)
    assert hidden.hidden_by == 3


HEAD = "HloModule jit_step, is_scheduled=true, num_partitions=8\n\n"
GROUPS = "channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}}, use_global_device_ids=true"


def _read(
    *lines: str, before: str = "", mesh: dict[str, int] | None = None
) -> tuple[CollectiveUse, ...]:
    body = "\n".join(f"  {line}" for line in lines)
    text = f"{HEAD}{before}ENTRY %main (p: f32[1024]) -> f32[1024] {{\n{body}\n}}\n"
    return collectives_in_hlo(text, mesh or {"data": 4, "model": 2}).uses


@pytest.mark.parametrize(
    ("groups", "axes", "ranks"),
    [
        # The pairs of a permute.
        ("{{0,1},{1,0},{2,3},{3,2},{4,5},{5,4},{6,7},{7,6}}", "model", 2),
        ("{{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}", "data", 4),
        ("{{0,3},{3,0}}", "", 2),
        # The groups of an all-reduce.
        ("{{0,1},{2,3},{4,5},{6,7}}", "model", 2),
        ("[4,2]<=[8]", "model", 2),
        ("[2,4]<=[4,2]T(1,0)", "data", 4),
        ("{{0,1,2,3,4,5,6,7}}", "data,model", 8),
        ("{}", "data,model", 8),
        ("mesh['a'=4,'b'=2] {'b'}", "model", 2),
        ("{{0,3},{1,2},{4,7},{5,6}}", "", 2),
        ("{{0,1,2,3},{4,5,6,7}}", "consecutive", 4),
        ("{{0,4},{1,5},{2,6},{3,7}}", "strided", 2),
        ("{{0,1,2},{3,4,5,6,7}}", "", 0),
    ],
)
def test_the_groups_of_a_listed_collective_are_named_by_the_axes_of_the_mesh(
    groups: str, axes: str, ranks: int
) -> None:
    attribute = "source_target_pairs" if ",0}" in groups else "to_apply=%add, replica_groups"
    op = "collective-permute" if ",0}" in groups else "all-reduce"
    (use,) = _read(f"%x = f32[1024]{{0}} {op}(%p), channel_id=1, {attribute}={groups}")
    assert (use.axes, use.ranks) == (axes, ranks)


def test_groups_are_named_by_an_axis_of_a_mesh_with_six_axes() -> None:
    mesh = {"a": 2, "b": 2, "c": 2, "d": 1, "e": 1, "f": 1}
    (use,) = _read(f"%x = f32[1024]{{0}} all-reduce(%p), {GROUPS}, to_apply=%add", mesh=mesh)
    assert (use.axes, use.ranks) == ("c", 2)


LOOP = """\
%inner (q: (s32[], f32[1024])) -> (s32[], f32[1024]) {
  %r = f32[1024]{0} all-reduce(%q.1), GROUPS, to_apply=%add
}

%outer (q: (s32[], f32[1024])) -> (s32[], f32[1024]) {
  %s = f32[2048]{0} all-gather(%q.1), GROUPS, dimensions={0}
  %w.1 = (s32[], f32[1024]{0}) while(%t), condition=%c, body=%inner, KNOWN3
}

""".replace("GROUPS", GROUPS).replace("KNOWN3", 'backend_config={"known_trip_count":{"n":"3"}}')


@pytest.mark.parametrize(
    "branches",
    [
        "branch_computations={%a, %inner, %inner}",
        "true_computation=%inner, false_computation=%inner",
        "true_computation=%inner, false_computation=%a",
    ],
)
def test_equal_collectives_in_two_branches_are_counted_at_most_once(
    branches: str,
) -> None:
    (use,) = _read(f"%x = (s32[], f32[1024]) conditional(%p, %p, %p), {branches}", before=LOOP)
    assert use.times_text == "at most 1 per step"


@pytest.mark.parametrize(
    ("line", "kind", "payload_bytes", "dtype"),
    [
        ("f32[512] reduce-scatter(%p), GROUPS, dimensions={0}", "reduce_scatter", 4096, "float32"),
        ("f32[1024] ragged-all-to-all(%p, %o), GROUPS", "ragged-all-to-all", 4096, "float32"),
        ("f32[1024] collective-broadcast(%p), GROUPS", "collective-broadcast", 4096, "float32"),
        ("(f32[512], f32[512]) all-to-all(%p, %o), GROUPS", "all_to_all", 4096, "float32"),
        ("u8[1024] all-gather(%p), GROUPS, dimensions={0}", "all_gather", 1024, "uint8"),
        ("pred[] all-reduce(%p), GROUPS, to_apply=%or", "all_reduce", 1, "bool"),
        ("s4[1024] all-gather(%p), GROUPS, dimensions={0}", "all_gather", 512, "int4"),
        ("bf16[8] all-gather(%p), GROUPS, dimensions={0}", "all_gather", 16, "bfloat16"),
        ("f8e4m3fn[8] all-gather(%p), GROUPS, dimensions={0}", "all_gather", 8, "float8_e4m3fn"),
        ("u32[8] all-gather(%p), GROUPS, dimensions={0}", "all_gather", 32, "uint32"),
        ("c64[8] all-gather(%p), GROUPS, dimensions={0}", "all_gather", 64, "complex64"),
        ("s8[8] all-gather(%p), GROUPS, dimensions={0}", "all_gather", 8, "int8"),
    ],
)
def test_the_payload_of_a_listed_collective_is_the_larger_of_its_input_and_output(
    line: str, kind: str, payload_bytes: int, dtype: str
) -> None:
    """Check the dtype, too, whose names are those of numpy and JAX."""
    (use,) = _read("%x = " + line.replace("GROUPS", GROUPS))
    assert (use.kind, use.payload_bytes, use.dtype) == (kind, payload_bytes, dtype)


START, DONE = (
    "%s = ((f32[512]{0}), f32[1024]{0}, u32[], u32[]) all-gather-start(%p), GROUPS, dimensions={0}",
    "%d = f32[1024]{0} all-gather-done(%s)",
)


AGAIN = tuple(text.replace("%s", "%s.1").replace("%d =", "%d.1 =") for text in (START, DONE))
WORK = tuple(f"%f.{number} = f32[8]{{0}} fusion(%p), kind=kLoop, calls=%f" for number in range(3))
OTHER = "%g = f32[512]{0} get-tuple-element(%z), index=0"
SYNC = ', backend_config={"collective_backend_config":{"is_sync":true}}'


@pytest.mark.parametrize(
    ("lines", "times", "hidden_by"),
    [
        # What is waited for at once hides behind nothing.
        ((START, OTHER, DONE), 1, 0),
        ((START, OTHER, *WORK[:2], DONE), 1, 2),
        ((START + SYNC, DONE), 1, 0),
        # Of equal ones the smallest number.
        ((START, *WORK[:2], DONE, AGAIN[0], WORK[2], AGAIN[1]), 2, 1),
    ],
)
def test_operations_between_the_start_and_the_end_of_a_collective_count_as_overlapping(
    lines: tuple[str, ...], times: int, hidden_by: int
) -> None:
    (use,) = _read(*(line.replace("GROUPS", GROUPS) for line in lines))
    assert (use.payload_bytes, use.times, use.hidden_by) == (4096, times, hidden_by)
    assert use.is_asynchronous is bool(hidden_by)


@pytest.mark.parametrize("repeated_call", ["", ", calls=%wrapped"])
def test_a_collective_that_a_generic_asynchronous_call_runs_is_listed_once(
    repeated_call: str,
) -> None:
    scatter = f"%r = f32[512]{{0}} reduce-scatter(%q), {GROUPS}, dimensions={{0}}, to_apply=%add"
    (use,) = _read(
        "%s = ((f32[1024]{0}), f32[512]{0}) async-start(%p), calls=%wrapped",
        "%f = f32[8]{0} fusion(%p), kind=kLoop, calls=%f",
        f"%d = f32[512]{{0}} async-done(%s){repeated_call}",
        before=f"%wrapped (q: f32[1024]) -> f32[512] {{\n  ROOT {scatter}\n}}\n\n",
    )
    assert (use.kind, use.times, use.payload_bytes) == ("reduce_scatter", 1, 4096)
    assert use.is_asynchronous


NOTED = 'metadata={{op_name="jit(step)/dot" source_file="/w/train.py" source_line={}}}'


@pytest.mark.parametrize(
    ("lines", "source"),
    [
        (
            (
                f"%a = f32[8]{{0}} fusion(%p), kind=kLoop, calls=%f, {NOTED.format(31)}",
                "%b = f32[8]{0} bitcast(%a)",
                f"%x = f32[1024]{{0}} all-reduce(%b), {GROUPS}, to_apply=%add",
            ),
            "w/train.py:31",
        ),
        # Two sums that the compiler combined.
        (
            (
                f"%s = (f32[8], f32[8]) all-reduce-start(%p, %p), {GROUPS}, {NOTED.format(31)}",
                "%d = (f32[8], f32[8]) all-reduce-done(%s)",
                f"%a = f32[8] get-tuple-element(%d), index=0, {NOTED.format(31)}",
                f"%b = f32[8] get-tuple-element(%d), index=1, {NOTED.format(47)}",
            ),
            "w/train.py:31, w/train.py:47",
        ),
    ],
    ids=["without metadata", "combined"],
)
def test_a_listed_collective_has_the_source_lines_of_its_parts_or_else_of_its_operand(
    lines: tuple[str, ...], source: str
) -> None:
    (use,) = _read(*lines)
    assert use.source == source


CUT = f"""\
{HEAD}%turn (p: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} all-gather(%p), {{{{0,1}}}}, dimensions={{0}}
}}

ENTRY %main (p: f32[8]) -> f32[8] {{
  %loop = f32[8]{{0}} while(%p), condition=%c, body=%turn, metadata={{op_name="a"}}
}}
"""


@pytest.mark.parametrize("lines", range(8))
def test_a_truncated_hlo_text_is_refused(lines: int) -> None:
    with pytest.raises(ProgramError, match="it is no optimized HLO, or it is cut"):
        collectives_in_hlo("\n".join(CUT.splitlines()[:lines]))


@pytest.mark.parametrize(
    ("text", "mesh"),
    [
        ('sdy.mesh @mesh = <["data"=4, "model"=2]> {x}', {"data": 4, "model": 2}),
        ('sdy.mesh @empty = <[]>\nsdy.mesh @mesh = <["x"=8], device_ids=[7, 6]>', {"x": 8}),
        ("module {}", {}),
    ],
)
def test_the_mesh_of_a_program_is_read_from_its_lowered_text(
    text: str, mesh: dict[str, int]
) -> None:
    assert mesh_in_stablehlo(text) == mesh


def test_the_groups_of_a_collective_with_empty_groups_and_global_device_ids_are_unknown() -> None:
    lost = "replica_groups={}, use_global_device_ids=true, to_apply=%add"
    (use,) = _read(f"%x = f32[1024]{{0}} all-reduce(%p), channel_id=1, {lost}")
    assert (use.groups_text, use.ranks) == ("in groups that cannot be read", 0)


@pytest.mark.parametrize(
    ("op", "reduce_op"),
    [("add", "sum"), ("maximum", "max"), ("minimum", "min"), ("multiply", "multiply")],
)
def test_the_reduce_op_of_a_listed_all_reduce_is_read_from_its_computation(
    op: str, reduce_op: str
) -> None:
    applied = f"%op (a: f32[], b: f32[]) -> f32[] {{\n  ROOT %r = f32[] {op}(%a, %b)\n}}\n\n"
    (use,) = _read(f"%x = f32[1024]{{0}} all-reduce(%p), {GROUPS}, to_apply=%op", before=applied)
    assert use.reduce_op == reduce_op
    assert ("(" in use.name) is (reduce_op != "sum")


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ("{{0,1},{1,0},{2,3},{3,2},{4,5},{5,4},{6,7},{7,6}}", 4),
        ("{{0,1},{2,3},{4,5},{6,7}}", 0),
    ],
    ids=["rings", "half of them"],
)
def test_a_permute_whose_pairs_are_no_rings_over_all_ranks_has_no_groups(
    pairs: str, groups: int
) -> None:
    (use,) = _read(f"%x = f32[8]{{0}} collective-permute(%p), source_target_pairs={pairs}")
    assert (use.axes, use.groups) == ("model", groups)


def test_a_send_and_its_receive_are_listed_as_a_single_collective() -> None:
    pairs = "frontend_attributes={_xla_send_recv_source_target_pairs={{0,2},{2,4}}}"
    (use,) = _read(
        f"%s = (f32[1024]{{0}}, u32[], token[]) send(%p, %t), channel_id=2, {pairs}",
        f"%r = (f32[1024]{{0}}, u32[], token[]) recv(%t), channel_id=2, {pairs}",
        "%f = f32[8]{0} fusion(%p), kind=kLoop, calls=%f",
        "%e = token[] send-done(%s), channel_id=2",
        "%d = (f32[1024]{0}, token[]) recv-done(%r), channel_id=2",
    )
    assert (use.kind, use.payload_bytes, use.is_asynchronous, use.hidden_by) == (
        "send",
        4096,
        True,
        1,
    )


def test_collectives_are_listed_from_hlo_of_the_jit_compilation_of_tensorflow() -> None:
    """TensorFlow 2.21 names no partitions in the head, and only lines of its own files."""
    text = """\
HloModule a_inference_f_28__.4, is_scheduled=true, alias_passthrough_params=true

%region_0.2 (x: f32[], y: f32[]) -> f32[] {
  ROOT %XlaReduceScatter.7 = f32[] maximum(%x, %y)
}

ENTRY %a_inference_f_28__.4 (arg0.1: f32[128,256]) -> f32[128,64] {
  %MatMul.2 = f32[128,64]{1,0} dot(%arg0.1, %arg1.1), metadata={op_type="MatMul" op_name="MatMul" \
source_file="/v/lib/python3.11/site-packages/tensorflow/python/framework/ops.py" source_line=1221}
  %XlaReduceScatter.11 = f32[32,64]{1,0} reduce-scatter(%MatMul.2), replica_groups={{0,1,2,3}}, \
dimensions={0}, to_apply=%region_0.2, metadata={op_type="X" op_name="XlaReduceScatter"}
}
"""
    (use,) = collectives_in_hlo(text).uses
    assert (use.name, use.source) == ("reduce-scatter (max) of float32 32K in groups of 4", "")


def test_an_hlo_text_with_a_computation_that_calls_itself_is_refused() -> None:
    calls = "%f (p: f32[8]) -> f32[8] {\n  %x = f32[8]{0} call(%p), to_apply=%f\n}\n\n"
    with pytest.raises(ProgramError, match="it cannot be read: maximum recursion depth"):
        _read("%y = f32[8]{0} call(%p), to_apply=%f", before=calls)


def test_the_payload_of_a_collective_whose_asynchronous_start_returns_the_input_counts_once() -> (
    None
):
    (use,) = _read(
        f"%s = ((f32[1024]{{0}}), f32[1024]{{0}}) all-reduce-start(%p), {GROUPS}, to_apply=%add",
        "%d = f32[1024]{0} all-reduce-done(%s)",
    )
    assert use.payload_bytes == 4096
