"""The changes between the collectives of two programs, and their texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.extensions.program.report import collective_differences, collectives_table, traffic_bytes
from busbw.extensions.program.worker_values import CollectiveUse

GATHER = CollectiveUse(
    kind="all_gather",
    dtype="float32",
    payload_bytes=4 << 20,
    ranks=4,
    axes="model",
    times=12,
    hidden_by=3,
    algorithm={"emitter": "Ring"},
    source="train.py:88",
)
SUM = replace(GATHER, kind="all_reduce", dtype="bfloat16", payload_bytes=12 << 20, axes="data")


def _texts(before: tuple[CollectiveUse, ...], after: tuple[CollectiveUse, ...]) -> list[str]:
    differences = collective_differences(before, after)
    assert all(difference.fails for difference in differences)
    return [difference.text for difference in differences]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"times": 24}, "12 -> 24 per step (train.py:88)"),
        (
            {"hidden_by": 0},
            "asynchronous -> synchronous (train.py:88)",
        ),
        ({"at_most": True}, "12 per step -> at most 12 per step (train.py:88)"),
        ({"per_iteration": True}, "12 per step -> 12 per iteration (train.py:88)"),
        ({"algorithm": {"emitter": "Tree"}}, "Ring -> Tree (train.py:88)"),
        ({"ranks": 2, "groups": 4}, "1 group of 4 -> 4 groups of 2 (train.py:88)"),
    ],
)
def test_a_changed_collective_is_named_with_the_change_and_its_line(
    changes: dict[str, Any], text: str
) -> None:
    texts = _texts((GATHER, SUM), (replace(GATHER, **changes), SUM))
    assert texts == [f"all-gather of float32 4M along model: {text}"]


def test_added_and_removed_collectives_of_a_program_are_named_with_their_lines() -> None:
    assert _texts((GATHER, SUM), (replace(SUM, source="train.py:90"),)) == [
        "all-gather of float32 4M along model: 12 per step -> none (train.py:88)"
    ]
    assert _texts((), (GATHER,)) == [
        "all-gather of float32 4M along model: none -> 12 per step (train.py:88)"
    ]


def test_a_collective_with_another_dtype_and_payload_is_named_once_with_both_changes() -> None:
    wide = replace(SUM, dtype="float32", payload_bytes=24 << 20)
    assert _texts((SUM, GATHER), (wide, GATHER)) == [
        "all-reduce of bfloat16 12M along data: bfloat16 12M -> float32 24M (train.py:88)"
    ]
    synchronous = replace(wide, hidden_by=0)
    assert _texts((SUM,), (synchronous,))[1:] == [
        "all-reduce of bfloat16 12M along data: asynchronous -> synchronous (train.py:88)"
    ]


def test_collectives_whose_payloads_changed_are_matched_in_the_order_of_their_payloads() -> None:
    large, small = replace(SUM, dtype="float32"), replace(SUM, dtype="float32", payload_bytes=8)
    halves = tuple(replace(use, payload_bytes=use.payload_bytes // 2) for use in (large, small))
    assert _texts((large, small), halves) == [
        "all-reduce of float32 12M along data: float32 12M -> float32 6M (train.py:88)",
        "all-reduce of float32 8 along data: float32 8 -> float32 4 (train.py:88)",
    ]


@pytest.mark.parametrize("changes", [{"times": 24}, {"ranks": 8, "axes": ""}, {"reduce_op": "max"}])
def test_collectives_are_not_matched_if_both_payload_and_kind_or_number_of_runs_differ(
    changes: dict[str, Any],
) -> None:
    other = replace(SUM, payload_bytes=8, **changes)
    removed, added = _texts((SUM,), (other,))
    assert removed == "all-reduce of bfloat16 12M along data: 12 per step -> none (train.py:88)"
    assert ": none -> " in added


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "train.py:123"},
        {"source": "other.py:1"},
        {"hidden_by": 10},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_collective_is_unchanged_if_only_its_source_line_or_its_overlap_differs(
    changes: dict[str, Any],
) -> None:
    assert _texts((GATHER, SUM), (SUM, replace(GATHER, **changes))) == []


def test_equal_collectives_at_several_source_lines_are_counted_together() -> None:
    apart = (replace(GATHER, times=5), replace(GATHER, times=7, source="train.py:90"))
    assert _texts((GATHER,), apart) == []
    more = (*apart, replace(GATHER, times=2, source="train.py:91"))
    assert _texts(apart, more) == [
        "all-gather of float32 4M along model: 12 -> 14 per step (train.py:91)"
    ]


def test_synchronous_and_asynchronous_collectives_are_counted_separately() -> None:
    mixed = (replace(GATHER, times=4), replace(GATHER, times=8, hidden_by=0))
    assert _texts((GATHER,), mixed) == [
        "all-gather of float32 4M along model: asynchronous -> 4 asynchronous, 8 synchronous "
        "(train.py:88)"
    ]


def test_a_change_of_a_collective_names_two_source_lines_and_counts_the_other_lines() -> None:
    many = tuple(replace(GATHER, source=f"train.py:{line}") for line in range(5))
    (text,) = _texts((), many)
    assert text.endswith("none -> 60 per step (train.py:0, train.py:1 and 3 more)")


GRADIENTS = CollectiveUse(
    kind="all_reduce", dtype="float32", payload_bytes=1 << 20, ranks=8, reduce_op="sum", times=3
)


@pytest.mark.parametrize(
    ("changed", "traffic"),
    [
        ({}, 3 * 2 * 7 / 8 * 2**20),
        ({"ranks": 1, "groups": 8}, 0),
        ({"ranks": 0, "groups": 0}, None),
        ({"per_iteration": True}, None),
        ({"kind": "ragged-all-to-all"}, None),
    ],
    ids=["a ring", "groups of one", "unknown groups", "unknown count", "no factor"],
)
def test_the_traffic_of_a_collective_is_the_number_of_bytes_that_a_ring_sends(
    changed: dict[str, object], traffic: float | None
) -> None:
    assert traffic_bytes(replace(GRADIENTS, **changed)) == traffic  # type: ignore[arg-type]


def test_the_note_below_the_table_of_collectives_counts_no_bytes_of_groups_of_one_rank() -> None:
    alone = replace(GRADIENTS, ranks=1, groups=8)
    assert collectives_table((GRADIENTS, alone)).notes == (
        "a step: 3.0 MiB of payloads, 5.2 MiB over each rank's link in rings",
    )
