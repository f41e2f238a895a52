"""Collectives beside and inside loops, of which compilers split one over several computations.

The folder `looped` has programs as libtpu 0.0.42.1 and jax-cuda13-pjrt 0.10.2 compiled them for 8
ranks. `EXPECTED` is what each program holds on every chip, counted by hand from its source. With
``flags`` in their names, more collectives are asynchronous than by default
(``--xla_tpu_enable_async_collective_fusion`` and its like), or loops are pipelined
(``--xla_gpu_enable_while_loop_double_buffering``, ``--xla_gpu_enable_pipelined_p2p`` and its like).
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from busbw.extensions.program.worker import collectives_in_hlo
from busbw.extensions.program.worker_values import CollectiveUse

LOOPED = Path(__file__).parent / "looped"
KIB, MIB = 1 << 10, 1 << 20

# (kind, payload, how often): the outer loop turns 3 times, the inner one and each scan 6 times.
Row = tuple[str, int, str]
EXPECTED: dict[str, set[Row]] = {
    "gather_beside_scan": {("all_gather", 16 * MIB, "1 per step")},
    "moves_beside_nested_loops": {
        ("all_gather", 16 * MIB, "1 per step"),
        ("permute", 2 * MIB, "1 per step"),
        ("all_reduce", 2 * KIB, "18 per step"),
    },
    "ring_in_a_loop": {("permute", 256 * KIB, "8 per step")},
    "gathers_of_the_next_layer": {("all_gather", 2 * MIB, "6 per step")},
    "scatter_in_the_transpose": {
        ("all_gather", 2 * MIB, "6 per step"),
        ("reduce_scatter", 2 * MIB, "7 per step"),
    },
    "branches": {
        ("all_gather", 16 * MIB, "1 per step"),
        ("all_gather", 2 * MIB, "at most 6 per step"),
        ("all_reduce", 256 * KIB, "at most 6 per step"),
        ("all_reduce", 4, "6 per step"),
    },
    "until_converged": {
        ("all_gather", 16 * MIB, "1 per step"),
        ("all_to_all", 2 * MIB, "1 per step"),
        ("all_reduce", 4, "1 per iteration"),
    },
    "sum_beside_scan": {("all_reduce", 2 * MIB, "1 per step")},
}
# Where a compiler makes something else of a program: libtpu for v5p scatters by a sum of which each
# rank takes its part, and XLA for GPUs cuts a ring into two halves that it sends.
DEPARTS: dict[str, set[Row]] = {
    "scatter_in_the_transpose.v5p_2x2x2.flags": {
        ("all_gather", 2 * MIB, "6 per step"),
        ("all_reduce", 2 * MIB, "7 per step"),
    },
    "ring_in_a_loop.h100_8.flags": {("send", 256 * KIB, "16 per step")},
}

# How many operations run beside the collective of each payload that has the fewest: those between
# its start and its end in the text, a loop as one operation.
HIDDEN: dict[str, dict[int, int]] = {
    "gather_beside_scan.v5e_2x4": {16 * MIB: 2},
    "until_converged.v5e_2x4": {16 * MIB: 5},
    "scatter_in_the_transpose.v5p_2x2x2.flags": {2 * MIB: 4},
    "moves_beside_nested_loops.tpu7x_2x2x1": {
        16 * MIB: 3,
        2 * MIB: 2,
    },
    # Of the four sends of a turn one is awaited at once.
    "ring_in_a_loop.h100_8.flags": {256 * KIB: 8},
    "gathers_of_the_next_layer.h100_8.flags": {2 * MIB: 1},
    "branches.h100_8": {16 * MIB: 5},
    "sum_beside_scan.v6e_2x4.flags": {2 * MIB: 2},
}


def expected(name: str) -> set[Row]:
    """Return the rows of a program, which is named with its chip."""
    return DEPARTS.get(name, EXPECTED[name.partition(".")[0]])


def make_rows(uses: Iterable[CollectiveUse]) -> set[Row]:
    """Return the rows of all collectives, which may differ in their lines."""
    times = Counter[tuple[str, int, bool, bool]]()
    for use in uses:
        times[use.kind, use.payload_bytes, use.at_most, use.per_iteration] += use.times
    return {
        (kind, size, f"{'at most ' * most}{count} per {'iteration' if is_each else 'step'}")
        for (kind, size, most, is_each), count in times.items()
    }


def _uses(name: str) -> tuple[CollectiveUse, ...]:
    text = gzip.decompress((LOOPED / f"{name}.hlo.gz").read_bytes()).decode()
    return collectives_in_hlo(text, {"x": 8}).uses


@pytest.mark.parametrize("name", HIDDEN)
def test_a_compiled_collective_that_is_split_over_several_computations_is_counted_once(
    name: str,
) -> None:
    assert make_rows(_uses(name)) == expected(name)


@pytest.mark.parametrize("name", HIDDEN)
def test_a_compiled_collective_in_progress_across_a_loop_or_branch_is_asynchronous(
    name: str,
) -> None:
    hidden: dict[int, int] = {}
    for use in _uses(name):
        if use.is_asynchronous:
            size = use.payload_bytes
            hidden[size] = min(hidden.get(size, use.hidden_by), use.hidden_by)
    assert hidden == HIDDEN[name]


def test_every_recorded_hlo_file_with_loops_has_an_expected_value_in_this_test() -> None:
    assert {path.name.partition(".hlo")[0] for path in LOOPED.iterdir()} == set(HIDDEN)
