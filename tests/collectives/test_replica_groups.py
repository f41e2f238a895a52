"""Which ranks a collective runs over, as XLA writes it: lists, counted out of an array, a mesh."""

from __future__ import annotations

import pytest

from busbw.collectives import replica_groups
from busbw.collectives.replica_groups import GroupSize


def _line(groups: str) -> str:
    return (
        f"%x.1 = f32[256]{{0}} all-reduce(%p), channel_id=1, replica_groups={groups}, to_apply=%a"
    )


@pytest.mark.parametrize(
    ("groups", "found"),
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
    ],
)
def test_groups_are_read_from_lists_from_iota_form_and_from_a_mesh(
    groups: str, found: tuple[tuple[int, ...], ...]
) -> None:
    assert replica_groups.groups_of(_line(groups), 8) == found


@pytest.mark.parametrize(
    "groups",
    [
        "mesh['x'=2,'y'=4] {'z'}",
        "mesh['x'=2,'y'=4] {'y':(1)2}",
        "mesh['x'=2,'y'=2], device_ids=([4]<=[2,2]T(1,0)) {'x'}",
        "mesh['x'=2,'y'=2,device_ids=(3,2,1,0)] {'x'}",
    ],
)
def test_of_groups_of_a_mesh_that_cannot_be_told_nothing_is_known(groups: str) -> None:
    assert replica_groups.groups_of(_line(groups), 8) is None


def test_a_line_without_groups_or_pairs_names_none() -> None:
    assert replica_groups.groups_of("%a = f32[4]{0} all-reduce(%p), to_apply=%add", 4) is None
    assert replica_groups.pairs_of("%a = f32[4]{0} collective-permute(%p)") is None


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ("{{0,1},{1,2},{2,3},{3,0}}", ((0, 1), (1, 2), (2, 3), (3, 0))),
        ("{{0,1},{1,0}}", ((0, 1), (1, 0))),
        ("{}", ()),
    ],
)
def test_pairs_of_a_permute_are_read_in_order(pairs: str, found: tuple[tuple[int, ...]]) -> None:
    line = f"%a = f32[4]{{0}} collective-permute(%p), source_target_pairs={pairs}, metadata={{}}"
    assert replica_groups.pairs_of(line) == found


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
    ],
)
def test_how_many_groups_of_which_size_is_read_from_each_form(
    groups: str, count: int, size: int
) -> None:
    found = replica_groups.group_size_of(_line(groups))
    assert found == GroupSize(count, size) and found.ranks == count * size


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
        "[4,2",
        "",
    ],
)
def test_all_ranks_unequal_groups_and_what_is_damaged_have_no_size(groups: str) -> None:
    assert replica_groups.group_size_of(_line(groups)) is None
