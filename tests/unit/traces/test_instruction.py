"""The payload of a collective, from the text of its instruction or from what NCCL counted."""

from __future__ import annotations

import pytest

from busbw.traces import instruction
from busbw.traces.event import Stats
from busbw.traces.instruction import nccl_bytes, payload_bytes
from tests.helpers.damage import bounded

TILED = "f32[4,1024]{1,0:T(8,128)}"


@pytest.mark.parametrize(
    ("kind", "text", "count"),
    [
        ("all_reduce", f"%all-reduce.3 = {TILED} all-reduce({TILED} %x), channel_id=1", 16384),
        ("all_reduce", "%psum.7 = bf16[8]{0} all-reduce(%param.1), channel_id=1", 16),
        ("all_reduce", "%a = (f32[4]{0}, f32[2]{0}) all-reduce(f32[4]{0} %x, f32[2]{0} %y)", 24),
        ("all_reduce", "%a = f32[] all-reduce(f32[] %x), to_apply=%sum", 4),
        ("all_reduce", "%s.1 = f32[8]{0} all-reduce-start(f32[8]{0} %x), channel_id=1", 32),
        ("all_reduce", "%c = f32[8]{0} cross-replica-sum(f32[8]{0} %x), replica_groups={}", 32),
        ("all_reduce", "%a = pred[8]{0} all-reduce(pred[8]{0} %x)", 8),
        ("all_reduce", "%a = f8e4m3fn[8]{0} all-reduce(f8e4m3fn[8]{0} %x)", 8),
        ("all_gather", "%g = f32[8]{0} all-gather(f32[2]{0} %x), dimensions={0}", 32),
        ("reduce_scatter", "%r = f32[2]{0} reduce-scatter(f32[8]{0} %x), dimensions={0}", 32),
        ("permute", "%p = f32[8]{0} collective-permute(f32[8]{0} %x), channel_id=1", 32),
        ("all_to_all", "%t = (f32[4], f32[4]) all-to-all(f32[4] %x, f32[4] %y)", 32),
    ],
)
def test_the_shapes_in_the_instruction_give_the_larger_of_input_and_output(
    kind: str, text: str, count: int
) -> None:
    found = instruction.read(text)
    assert found is not None and payload_bytes(kind, found) == count


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("all_reduce", "%s = (f32[8], f32[8]) all-reduce-start(%x)"),
        ("reduce_scatter", "%r = f32[2]{0} reduce-scatter(%x), dimensions={0}"),
        ("reduce_scatter", "%r = f32[2]{0} reduce-scatter-done(f32[8] %x)"),
        ("all_gather", "%g = (f32[2], f32[8]) all-gather-start(f32[2] %x)"),
        ("all_reduce", "%f = (f32[8], f32[2]) fusion(f32[8] %x), calls=%all-reduce.1"),
        ("reduce_scatter", "%f = f32[2] fusion(f32[8] %x, f32[8] %y), calls=%scatter.1"),
    ],
)
def test_where_the_shapes_do_not_say_it_it_is_unknown(kind: str, text: str) -> None:
    found = instruction.read(text)
    assert found is not None and payload_bytes(kind, found) is None


@pytest.mark.parametrize(
    "stats",
    [
        {},
        {"bytes_accessed": 4096, "raw_bytes_accessed": 4096},
        {"In msg nelems": 8},
        {"In msg nelems": 8, "dtype": "unheard of"},
        {"In msg nelems": 0, "dtype": "Float"},
    ],
)
def test_without_counted_elements_and_their_type_nccl_says_no_payload(stats: Stats) -> None:
    assert nccl_bytes(stats) is None


@pytest.mark.parametrize("text", ["", "psum.7", "%a = f32[8]{0} all-reduce(f32[8]{0} %x"])
def test_what_is_no_whole_instruction_is_none(text: str) -> None:
    assert instruction.read(text) is None


def test_a_word_without_end_among_the_outputs_is_passed_over_once() -> None:
    found = instruction.read(
        f"%g.1 = {'a' * 100_000} all-gather-update(f32[4]{{0}} %x), channel_id=1"
    )
    assert found is not None
    with bounded():
        assert payload_bytes("all_gather", found) is None


def test_the_parts_of_an_instruction_are_told_apart() -> None:
    text = (
        "%all-reduce.2.cloned.1.call-done = f32[8]{0:T(1024)} call-done(((f32[8]{0}, token[]), "
        "f32[8]{0}) %all-reduce.2.cloned.1.call-start), to_apply=%called.1, "
        "called_computations={%other}"
    )
    found = instruction.read(text)
    assert found is not None and found.op == "call-done"
    assert found.operand == "all-reduce.2.cloned.1.call-start"
    assert found.called == ("%called.1", "%other")
    assert payload_bytes("all_reduce", found) == 32


def test_the_elements_that_nccl_counted_give_it_too() -> None:
    stats: Stats = {"In msg nelems": 256, "Out msg nelems": 1024, "dtype": "BFloat16"}
    assert nccl_bytes(stats) == 2048
