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
        ({"times": 24}, "12 per step -> 24 per step (train.py:88)"),
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


WIDE = replace(SUM, dtype="float32", payload_bytes=24 << 20)
LARGE, SMALL = replace(SUM, dtype="float32"), replace(SUM, dtype="float32", payload_bytes=8)
APART = (replace(GATHER, times=5), replace(GATHER, times=7, source="train.py:90"))
MIXED = (replace(GATHER, times=4), replace(GATHER, times=8, hidden_by=0))
MANY = tuple(replace(GATHER, source=f"train.py:{line}") for line in range(3))
G, S = "all-gather of float32 4M along model: ", "all-reduce of bfloat16 12M along data: "
WIDENED = S + "bfloat16 12M -> float32 24M (train.py:88)"


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        (
            (GATHER, SUM),
            (replace(SUM, source="train.py:90"),),
            [G + "12 per step -> none (train.py:88)"],
        ),
        ((), (GATHER,), [G + "none -> 12 per step (train.py:88)"]),
        # Another dtype and payload: both in one line.
        ((SUM, GATHER), (WIDE, GATHER), [WIDENED]),
        (
            (SUM,),
            (replace(WIDE, hidden_by=0),),
            [WIDENED, S + "asynchronous -> synchronous (train.py:88)"],
        ),
        # In the order of their payloads.
        (
            (LARGE, SMALL),
            (replace(LARGE, payload_bytes=6 << 20), replace(SMALL, payload_bytes=4)),
            [
                "all-reduce of float32 12M along data: float32 12M -> float32 6M (train.py:88)",
                "all-reduce of float32 8 along data: float32 8 -> float32 4 (train.py:88)",
            ],
        ),
        # The largest with the largest, and the smaller collective is removed.
        (
            (LARGE, SMALL),
            (replace(LARGE, payload_bytes=6 << 20),),
            [
                "all-reduce of float32 12M along data: float32 12M -> float32 6M (train.py:88)",
                "all-reduce of float32 8 along data: 12 per step -> none (train.py:88)",
            ],
        ),
        # Only the source line or the overlap differs.
        *(
            ((GATHER, SUM), (SUM, other), [])
            for other in (
                replace(GATHER, source="train.py:123"),
                replace(GATHER, source="other.py:1"),
                replace(GATHER, hidden_by=10),
            )
        ),
        # At several lines.
        ((GATHER,), APART, []),
        (
            APART,
            (*APART, replace(GATHER, times=2, source="train.py:91")),
            [G + "12 per step -> 14 per step (train.py:91)"],
        ),
        (
            (GATHER,),
            MIXED,
            [G + "asynchronous -> 4 asynchronous, 8 synchronous (train.py:88)"],
        ),
        # Combined at two lines.
        (
            (replace(GATHER, source="train.py:88, train.py:90"),),
            (replace(GATHER, payload_bytes=2 << 20),),
            [G + "float32 4M -> float32 2M (train.py:90)"],
        ),
        ((), MANY, [G + f"none -> 36 per step ({', '.join(use.source for use in MANY)})"]),
    ],
)
def test_each_change_of_the_collectives_of_a_program_is_named_once_with_its_source_lines(
    before: tuple[CollectiveUse, ...], after: tuple[CollectiveUse, ...], texts: list[str]
) -> None:
    assert _texts(before, after) == texts


@pytest.mark.parametrize("changes", [{"times": 24}, {"ranks": 8, "axes": ""}, {"reduce_op": "max"}])
def test_collectives_are_not_matched_if_both_payload_and_kind_or_number_of_runs_differ(
    changes: dict[str, Any],
) -> None:
    other = replace(SUM, payload_bytes=8, **changes)
    removed, added = _texts((SUM,), (other,))
    assert removed == "all-reduce of bfloat16 12M along data: 12 per step -> none (train.py:88)"
    assert ": none -> " in added


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
