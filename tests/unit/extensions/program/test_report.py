"""The changes between the collectives of two programs, and their texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.extensions.program.report import (
    argument_differences,
    collective_differences,
    collectives_table,
    sent_bytes_per_step,
)
from busbw.extensions.program.worker import collectives_in_hlo
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
    differences = [*collective_differences(before, after)]
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
    removed, added = _texts((SUM,), (replace(SUM, payload_bytes=8, **changes),))
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
    assert sent_bytes_per_step(replace(GRADIENTS, **changed)) == traffic  # type: ignore[arg-type]


def test_the_note_below_the_table_of_collectives_counts_no_bytes_of_groups_of_one_rank() -> None:
    assert collectives_table((GRADIENTS, replace(GRADIENTS, ranks=1, groups=8))).notes == (
        "a step: 3.0 MiB of payloads, 5.2 MiB over each rank's link in rings",
    )


Parameters = tuple[tuple[str, str], ...]

W0, W1, ROWS = ("f32[8,64]", "w[0]"), ("f32[512,1024]", "w[1]"), ("bf16[4]", "rows")
GROWN = ("f32[4096,1024]", "w[1]")
GROWN_TEXT = "argument 1, `w[1]`: 2.0 MiB -> 16.0 MiB"
STEP = ("f32[]", r"state[\'step\']")


def _argument_texts(*programs: Parameters) -> list[str]:
    """Return the differences between two programs, given the shapes and names of their arguments.

    The arguments of a program are in the reverse order in its HLO.
    """
    bodies = [
        "".join(
            f'  %p{number} = {shape} parameter({number}), metadata={{op_name="{name}"}}\n'
            for number, (shape, name) in reversed([*enumerate(parameters)])
        )
        for parameters in programs
    ]
    texts = [f"HloModule m\n\nENTRY %m () -> f32[] {{\n{body}}}\n" for body in bodies]
    old, new = (collectives_in_hlo(text).arguments for text in texts)
    differences = [*argument_differences(old, new)]
    assert not any(difference.fails for difference in differences)
    return [difference.text for difference in differences]


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ((W0, W1, ROWS), (W0, W1, ROWS), []),
        ((W0, W1, ROWS), (W0, GROWN, ROWS), [GROWN_TEXT]),
        ((W0, GROWN), (W0, W1), ["argument 1, `w[1]`: 16.0 MiB -> 2.0 MiB"]),
        (
            (ROWS, W1),
            (("bf16[8]", "rows"), GROWN),
            ["argument 0, `rows`: 8 bytes -> 16 bytes", GROWN_TEXT],
        ),
        # An argument that was added or removed moves the arguments behind it.
        ((W0, ROWS), (W0, STEP, ROWS), ["argument 1, `state['step']`: none -> 4 bytes"]),
        ((W0, STEP, ROWS), (W0, ROWS), ["argument 1, `state['step']`: 4 bytes -> none"]),
        (
            (W0, ROWS),
            (W0, STEP),
            ["argument 1, `rows`: 8 bytes -> 4 bytes"],
        ),
        # Only the name differs, or the compiler lost the name.
        ((W0, W1, ROWS), (("f32[8,64]", "first"), GROWN, ("bf16[4]", "batch")), [GROWN_TEXT]),
        ((W0, W1), (W0, ("f32[4096,1024]", "jit(step)/while")), [GROWN_TEXT]),
        # Too little to see in MiB.
        (
            (("f32[262144]", "w"),),
            (("f32[262145]", "w"),),
            ["argument 0, `w`: 1048576 bytes -> 1048580 bytes"],
        ),
        # Arguments without a name, with the same name, and in a tuple are compared by number.
        (
            (("f32[8]", ""), ("f32[8]", "")),
            (("f32[8]", ""), ("f32[16]", "")),
            ["argument 1: 32 bytes -> 64 bytes"],
        ),
        (
            (("f32[8]", "x"), ("f32[8]", "x")),
            (("f32[16]", "x"), ("f32[8]", "x")),
            ["argument 0, `x`: 32 bytes -> 64 bytes"],
        ),
        (
            (("(s4[8]{0}, pred[], /*index=2*/f32[8]{0:T(8)})", ""),),
            (("(s4[8]{0}, pred[], /*index=2*/f32[16]{0:T(8)})", ""),),
            ["argument 2: 32 bytes -> 64 bytes"],
        ),
        # A stored program from before arguments were stored.
        ((), (W0, W1), []),
        ((W0, W1), (), []),
    ],
)
def test_the_arguments_of_a_program_whose_bytes_changed_are_named_with_both_numbers_of_bytes(
    before: Parameters, after: Parameters, texts: list[str]
) -> None:
    assert _argument_texts(before, after) == texts
