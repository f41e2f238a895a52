"""Signatures of simulated sums name rings, trees and recursive doubling."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from busbw.extensions.soak import worker_signature as signature
from busbw.extensions.soak.worker_signature import numbers_with_inexact_sums
from busbw.worker.backends.values import Array, CaseValues
from tests.helpers import build

PERIOD, COUNT = 16, 4096
Added = Callable[[list[Array]], Array]


def _inputs(ranks: int, seed: int, dtype: Any = np.float32) -> list[Array]:
    return [
        numbers_with_inexact_sums((PERIOD * ranks,), (seed, rank), dtype) for rank in range(ranks)
    ]


def _ring(blocks: list[Array]) -> Array:
    """Add as a ring does after a reduce-scatter: part c begins at the rank after c."""
    ranks, parts = len(blocks), np.array_split(np.stack(blocks), len(blocks), axis=1)
    sums = []
    for part, rows in enumerate(parts):
        held = rows[(part + 1) % ranks]
        for step in range(2, ranks + 1):
            held = rows[(part + step) % ranks] + held
        sums.append(held)
    return np.concatenate(sums)


def _exchanged(blocks: list[Array], distances: Iterable[int]) -> Array:
    """Add at each rank the sum of the rank at each of the distances in turn."""
    held = blocks
    for distance in distances:
        held = [held[rank] + held[rank ^ distance] for rank in range(len(held))]
    return held[0]


def _distances(blocks: list[Array]) -> list[int]:
    return [2**step for step in range(len(blocks).bit_length() - 1)]


def _doubling(blocks: list[Array]) -> Array:
    return _exchanged(blocks, _distances(blocks))


def _tree(blocks: Sequence[Array], root: int = 0) -> Array:
    total = blocks[root]
    for child in (2 * root + 1, 2 * root + 2):
        total = total + _tree(blocks, child) if child < len(blocks) else total
    return total


def _in_turn(blocks: list[Array]) -> Array:
    return list(itertools.accumulate(blocks))[-1]


SUMS: dict[str, tuple[Added, tuple[int, ...]]] = {
    "ring": (_ring, (4, 5, 8, 16)),
    "ring ": (lambda blocks: _ring(blocks[::-1]), (4, 7, 8)),
    "recursive doubling": (_doubling, (4, 8, 16)),
    "recursive halving": (lambda blocks: _exchanged(blocks, _distances(blocks)[::-1]), (4, 8, 16)),
    "binary tree": (_tree, (5, 8, 15)),
    "ranks in turn": (_in_turn, (4, 6, 8, 16)),
}


def _laid(inputs: Sequence[Array]) -> list[Array]:
    repeats = -(-COUNT // len(inputs[0]))
    return [np.tile(block, repeats)[:COUNT] for block in inputs]


def _added(inputs: Sequence[Array], added: Added, rounds: int) -> Array:
    total = added(_laid(inputs))
    for _ in range(rounds - 1):
        total = added([total] * len(inputs))
    return total


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "ranks"), [(name, ranks) for name, (_, all_) in SUMS.items() for ranks in all_]
)
def test_the_signature_names_the_order_of_additions_of_a_simulated_sum(
    name: str, ranks: int, rounds: int
) -> None:
    inputs = _inputs(ranks, seed=rounds)
    got = _added(inputs, SUMS[name][0], rounds)
    text = signature.signature_text(*signature.find_hash_and_order_mask(inputs, got, rounds))
    named = text.partition(" ")[2].split(" or ")
    assert name.strip() in named
    # The other orders that are named give the same bits.
    for other in {*named} - {"ring"}:
        assert np.array_equal(_added(inputs, SUMS[other][0], rounds), got)


def test_a_sum_that_begins_at_the_same_rank_in_all_elements_does_not_count_as_a_ring() -> None:
    inputs = _inputs(6, seed=1)
    for first, order in ((0, "ranks in turn"), (2, "another order")):
        got = _added([*inputs[first:], *inputs[:first]], _in_turn, 1)
        text = signature.signature_text(*signature.find_hash_and_order_mask(inputs, got, 1))
        assert text.endswith(f" {order}")


@pytest.mark.parametrize("count", [11, 16, 48])
def test_a_ring_with_any_number_of_segments_has_the_signature_of_a_ring(count: int) -> None:
    """Name a ring also if a framework divides the buffer into other parts."""
    inputs = _inputs(4, seed=count)
    parts = [
        _in_turn([*np.roll(rows, -part, axis=0)])
        for part, rows in enumerate(np.array_split(np.stack(_laid(inputs)), count, axis=1))
    ]
    text = signature.signature_text(
        *signature.find_hash_and_order_mask(inputs, np.concatenate(parts), 1)
    )
    assert text.endswith(" ring")


def test_the_signature_is_any_order_for_two_ranks_and_another_order_for_unknown_orders() -> None:
    two = _inputs(2, seed=0)
    assert signature.signature_text(
        *signature.find_hash_and_order_mask(two, _added(two, _in_turn, 1), 1)
    ).endswith(" any order")
    six = _inputs(6, seed=0)
    odd = _added(six, lambda blocks: _in_turn([blocks[index] for index in (3, 0, 5, 1, 4, 2)]), 1)
    assert signature.signature_text(*signature.find_hash_and_order_mask(six, odd, 1)).endswith(
        " another order"
    )


def test_the_signature_of_several_processes_depends_on_the_result_of_each_process() -> None:
    case = build.case(dtype="float32")
    reader = signature.SummationOrderReader(CaseValues(case, np.dtype("float32")))
    blocks = [reader.start(rank).reshape(-1) for rank in range(case.ranks)]
    results = [_added(blocks, added, 1) for added in (_in_turn, _doubling)]

    def read(*processes: int) -> str:
        """Read the signature of processes that have these results."""
        words = [
            signature.find_hash_and_order_mask(blocks, results[process], 1) for process in processes
        ]
        return reader.read(0, results[processes[0]], 1, lambda _: [[*map(float, w)] for w in words])

    assert read(0) == signature.signature_text(
        *signature.find_hash_and_order_mask(blocks, results[0], 1)
    )
    assert read(0, 0) != read(0, 1)


def test_signatures_have_equal_hashes_only_for_equal_orders_of_additions() -> None:
    inputs = _inputs(4, seed=0)
    hashes = [
        signature.find_hash_and_order_mask(inputs, _added(inputs, added, 1), 1)[0]
        for added in (_ring, _doubling, _in_turn, _ring)
    ]
    assert len(set(hashes)) == 3
    assert hashes[0] == hashes[-1]


def test_the_inputs_of_signatures_are_the_same_with_every_version_of_numpy() -> None:
    numbers = numbers_with_inexact_sums((3,), (0, 1), np.float64)
    assert numbers.tolist() == [1.0439102003864873, 1.0528792078479485, 1.7139500496814635]
    many = numbers_with_inexact_sums((4096,), (0, 0), np.float32)
    assert 1 <= many.min() < many.max() <= 2
    assert {int(word) & 1 for word in many.view(np.uint32)} == {0, 1}
