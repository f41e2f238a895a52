"""The payload and the kind of a collective, from what the profiler noted of it."""

from __future__ import annotations

import pytest

from busbw.traces.payload import Stats, kind_of_stats, payload_bytes

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
    assert payload_bytes(kind, {"long_name": text}) == count


UNKNOWN: list[tuple[str, Stats]] = [
    ("all_reduce", {}),
    ("all_reduce", {"bytes_accessed": 4096, "raw_bytes_accessed": 4096}),
    ("all_reduce", {"hlo_op": "psum.7"}),
    ("all_reduce", {"long_name": "%f = f32[8]{0} fusion(f32[8]{0} %all-reduce.3)"}),
    ("all_reduce", {"long_name": "%s = (f32[8], f32[8]) all-reduce-start(%x)"}),
    ("reduce_scatter", {"long_name": "%r = f32[2]{0} reduce-scatter(%x), dimensions={0}"}),
    ("all_gather", {"long_name": "%g = (f32[2], f32[8]) all-gather-start(f32[2] %x)"}),
    ("all_reduce", {"In msg nelems": 8}),
    ("all_reduce", {"In msg nelems": 8, "dtype": "unheard of"}),
    ("all_reduce", {"In msg nelems": 0, "dtype": "Float"}),
]


@pytest.mark.parametrize(("kind", "stats"), UNKNOWN)
def test_where_nothing_says_the_payload_it_is_unknown(kind: str, stats: Stats) -> None:
    assert payload_bytes(kind, stats) is None


def test_the_elements_that_nccl_counted_give_it_too() -> None:
    stats: Stats = {"In msg nelems": 256, "Out msg nelems": 1024, "dtype": "BFloat16"}
    assert payload_bytes("all_gather", stats) == 2048


@pytest.mark.parametrize(
    ("stats", "kind"),
    [
        ({"tf_op": "jit(f)/jit(main)/shard_map/psum"}, "all_reduce"),
        ({"tf_op": "jit(f)/all_gather:"}, "all_gather"),
        ({"hlo_category": "all-reduce"}, "all_reduce"),
        ({"hlo_category": "all-reduce fusion"}, "all_reduce"),
        ({"long_name": "%c = f32[8] call-start(%x), to_apply=%all-reduce.2.clone"}, "all_reduce"),
        ({"long_name": "%a = f32[8] async-start(%x), calls=%reduce-scatter.1"}, "reduce_scatter"),
        ({"tf_op": "jit(f)/psum/sort"}, ""),
        ({"long_name": "%call-start.3 = f32[8] call-start(%all-reduce.5), to_apply=%sort.1"}, ""),
        ({"hlo_category": "custom fusion"}, ""),
        ({}, ""),
    ],
)
def test_the_kind_is_that_of_the_operation_itself_and_not_of_what_it_reads(
    stats: Stats, kind: str
) -> None:
    assert kind_of_stats(stats) == kind
