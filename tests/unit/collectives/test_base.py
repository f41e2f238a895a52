"""Groups and pairs in HLO, and the input and output bytes of each collective."""

from __future__ import annotations

import pytest

from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import (
    Draw,
    RankGroups,
    rank_groups_of_line,
    replica_groups_of,
    source_target_pairs_of,
)
from tests.unit.collectives.known import KNOWN


def _line(groups: str) -> str:
    return (
        f"%x.1 = f32[256]{{0}} all-reduce(%p), channel_id=1, replica_groups={groups}, to_apply=%a"
    )


def _mesh(axes: int) -> str:
    """Return the groups of a single rank along all axes of a mesh."""
    names = [f"'a{number}'" for number in range(axes)]
    return f"mesh[{','.join(f'{name}=1' for name in names)}] {{{','.join(names)}}}"


@pytest.mark.parametrize(
    ("groups", "ranks_of_groups"),
    [
        ("{{0,1,2,3}}", ((0, 1, 2, 3),)),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{0,2},{1,3}}", ((0, 2), (1, 3))),
        ("{{0}}", ((0,),)),
        ("{{3,1,2,0}}", ((3, 1, 2, 0),)),
        ("{}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("{{}}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("[1,4]<=[4]", ((0, 1, 2, 3),)),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[8]", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("[2,4]<=[2,2,2]T(1,0,2)", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("[1,8]<=[2,2,2]T(2,1,0)", ((0, 4, 2, 6, 1, 5, 3, 7),)),
        ("mesh['ranks'=4] {'ranks'}", ((0, 1, 2, 3),)),
        ("mesh['x'=2,'y'=4] {'y'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['x'=2,'y'=4] {'x'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['x'=2,'y'=2] {'x','y'}", ((0, 1, 2, 3),)),
        ("mesh['x'=2,'y'=2] {'y','x'}", ((0, 2, 1, 3),)),
        ("mesh['x'=2,'y'=2,'z'=2] {'x','z'}", ((0, 1, 4, 5), (2, 3, 6, 7))),
        # jaxlib 0.7.2 writes the groups of the same programs as [2,2]<=[4] and [2,2]<=[2,2]T(1,0).
        ("mesh['x'=1,'y'=2,'z'=2], device_ids=([2,2]T(1,0)) {'y'}", ((0, 1), (2, 3))),
        ("mesh['x'=1,'y'=2,'z'=2], device_ids=([2,2]T(1,0)) {'z'}", ((0, 2), (1, 3))),
        ("mesh['x'=2,'y'=2], device_ids=([4]<=[2,2]T(1,0)) {'x'}", ((0, 1), (2, 3))),
        ("mesh['x'=4], device_ids=(3,2,1,0) {'x'}", ((3, 2, 1, 0),)),
    ],
)
def test_groups_in_hlo_are_read_from_a_list_or_from_the_iota_form_or_from_a_mesh(
    groups: str, ranks_of_groups: tuple[tuple[int, ...], ...]
) -> None:
    assert replica_groups_of(_line(groups), 8) == ranks_of_groups


@pytest.mark.parametrize(
    "groups",
    [
        "mesh['x'=2,'y'=4] {'z'}",
        "mesh['x'=2,'y'=4] {'y':(1)2}",
        "mesh['x'=2,'y'=2], device_ids=(3,2,1,1) {'x'}",
        "mesh['x'=2,'y'=2], device_ids=(3,2,1) {'x'}",
        "mesh['x'=2,'y'=2], device_ids=([2,2]T(1,1)) {'x'}",
        "mesh['x'=2,'y'=2], device_ids=([999999999]) {'x'}",
        "[2,2]<=[2,2]T(5,0)",
        "[2,2]<=[999999999]",
    ],
)
def test_groups_in_hlo_that_do_not_fit_their_mesh_or_iota_form_are_read_as_unknown(
    groups: str,
) -> None:
    assert replica_groups_of(_line(groups), 8) is None


def test_no_groups_and_no_pairs_are_read_from_a_line_of_hlo_without_groups_or_pairs() -> None:
    assert replica_groups_of("%a = f32[4]{0} all-reduce(%p), to_apply=%add", 4) is None
    assert source_target_pairs_of("%a = f32[4]{0} collective-permute(%p)") is None


@pytest.mark.parametrize(
    ("pairs", "ranks"),
    [
        ("{{0,1},{1,2},{2,3},{3,0}}", ((0, 1), (1, 2), (2, 3), (3, 0))),
        ("{{0,1},{1,0}}", ((0, 1), (1, 0))),
        ("{}", ()),
    ],
)
def test_the_pairs_of_a_permute_in_hlo_are_read_in_order(
    pairs: str, ranks: tuple[tuple[int, ...]]
) -> None:
    line = f"%a = f32[4]{{0}} collective-permute(%p), source_target_pairs={pairs}, metadata={{}}"
    assert source_target_pairs_of(line) == ranks


@pytest.mark.parametrize(
    ("groups", "count", "size"),
    [
        ("{{0,1},{2,3},{4,5}}", 3, 2),
        ("{{0,2,1}}", 1, 3),
        ("[1,2]<=[2]", 1, 2),
        ("[4,2]<=[2,4]T(1,0)", 4, 2),
        ("[64,4]<=[4,64]T(1,0)", 64, 4),
        ("mesh['x'=2,'y'=4] {'y'}", 2, 4),
        ("mesh['x'=2,'y'=4] {'x'}", 4, 2),
        ("mesh['x'=2,'y'=4] {'x','y'}", 1, 8),
        (_mesh(64), 1, 1),
    ],
)
def test_the_number_and_the_size_of_groups_are_read_from_each_form_of_groups_in_hlo(
    groups: str, count: int, size: int
) -> None:
    group_size = rank_groups_of_line(_line(groups))
    assert group_size == RankGroups(count, size) and group_size.rank_count == count * size


@pytest.mark.parametrize(
    "groups",
    [
        "{}",
        "{{}}",
        "{{0,1},{2}}",
        "[0,2]<=[0]",
        f"[{'9' * 400},2]<=[4]",
        f"mesh['x'={'9' * 400},'y'=4] {{'y'}}",
        "mesh['x'=2,'y'=4] {'z'}",
        "mesh['x'=0,'y'=4] {'x'}",
        _mesh(65),
        "[4,2",
        "",
    ],
)
def test_groups_in_hlo_that_are_unequal_or_damaged_or_not_listed_have_no_size(groups: str) -> None:
    assert rank_groups_of_line(_line(groups)) is None


RANKS = (2, 3, 4, 8, 64)
PAYLOAD = 2**10 * 3


def test_every_collective_is_registered_by_its_name_and_has_a_file_of_expected_facts() -> None:
    assert {name: collective.name for name, collective in COLLECTIVES.items()} == {
        name: name for name in KNOWN
    }


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_bus_factor_of_a_collective_equals_the_bus_factor_of_nccl_tests(
    name: str, ranks: int
) -> None:
    assert COLLECTIVES[name].bus_factor(ranks) == float(KNOWN[name].bus_factor(ranks))


@pytest.mark.parametrize("name", KNOWN)
def test_the_input_and_output_bytes_of_a_rank_equal_the_expected_fractions_of_the_payload(
    name: str,
) -> None:
    collective, example = COLLECTIVES[name], KNOWN[name]
    assert collective.input_bytes(PAYLOAD, 4) == PAYLOAD * example.INPUT_OF_FOUR
    assert collective.output_bytes(PAYLOAD, 4) == PAYLOAD * example.OUTPUT_OF_FOUR


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_payload_is_the_larger_of_the_input_and_the_output_of_a_rank(
    name: str, ranks: int
) -> None:
    collective, payload = COLLECTIVES[name], 64 * PAYLOAD
    sizes = (collective.input_bytes(payload, ranks), collective.output_bytes(payload, ranks))
    assert max(sizes) == payload
    assert collective.payload_block_count(ranks) in (1, ranks)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_values_of_a_collective_have_as_many_blocks_as_its_input_and_its_output(
    name: str, ranks: int
) -> None:
    collective = COLLECTIVES[name]
    draw = Draw(dtype="float32", reduce_op="sum", ranks=ranks)
    begun, ended = (
        collective.starting_blocks(draw, ranks - 1),
        collective.exact_blocks_after(draw, ranks - 1, 1),
    )
    assert (len(begun), len(ended)) == (
        collective.input_block_count(ranks),
        collective.output_block_count(ranks),
    )
    assert len({len(period) for period in (*begun, *ended)}) == 1


@pytest.mark.parametrize(
    ("name", "placements", "reduce_ops"),
    [
        ("all_reduce", ("in_place", "out_of_place"), REDUCE_OPS),
        ("all_gather", ("out_of_place",), ()),
        ("reduce_scatter", ("out_of_place",), ("sum",)),
        ("all_to_all", ("out_of_place",), ()),
        ("permute", ("out_of_place",), ()),
    ],
)
def test_only_all_reduce_runs_in_place_and_has_reduce_ops_other_than_sum(
    name: str, placements: tuple[str, ...], reduce_ops: tuple[str, ...]
) -> None:
    collective = COLLECTIVES[name]
    assert (collective.placements, collective.reduce_ops) == (placements, reduce_ops)
