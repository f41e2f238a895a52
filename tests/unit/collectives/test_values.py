"""The exact values of every collective: results, longest exact chains, and visible errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, MAX_ITERATIONS, Draw
from tests.helpers.sweep import sweep
from tests.unit.collectives.known import KNOWN, Buffer
from tests.unit.collectives.simulation import afters, is_exact, kinds, simulated, starts

# Odd and a power of two first: the gate has these.
RANKS = (3, 8, 2, 4)
DRAWS = range(5)

each_kind = pytest.mark.parametrize(("name", "reduce_op"), kinds())
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_size = pytest.mark.parametrize("ranks", sweep(RANKS, in_gate=2))


def _draw(dtype: str, reduce_op: str, ranks: int, number: int = 0) -> Draw:
    return Draw(dtype=dtype, reduce_op=reduce_op, ranks=ranks, number=number)


def _differ(got: list[Buffer], expected: list[Buffer]) -> list[bool]:
    assert [len(buffer) for buffer in got] == [len(buffer) for buffer in expected]
    return [buffer != other for buffer, other in zip(got, expected)]


@each_kind
@each_dtype
@each_size
def test_the_expected_values_equal_a_simulated_collective_on_every_rank(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    for number in DRAWS:
        draw = _draw(dtype, reduce_op, ranks, number)
        got = simulated(name, reduce_op, starts(COLLECTIVES[name], draw))
        assert got == afters(COLLECTIVES[name], draw, 1)


@pytest.mark.parametrize(
    ("name", "reduce_op"),
    [kind for kind in kinds() if "in_place" in COLLECTIVES[kind[0]].placements],
)
@each_dtype
@each_size
@pytest.mark.parametrize("rounds", [2, 5])
def test_the_expected_values_of_a_chain_equal_a_chain_of_simulated_collectives(
    name: str, reduce_op: str, dtype: str, ranks: int, rounds: int
) -> None:
    draw = _draw(dtype, reduce_op, ranks, number=1)
    rounds = min(rounds, COLLECTIVES[name].max_exact_iterations(draw, "in_place"))
    got = simulated(name, reduce_op, starts(COLLECTIVES[name], draw), rounds)
    assert got == afters(COLLECTIVES[name], draw, rounds)


@each_kind
@each_dtype
@each_size
def test_every_rank_starts_and_ends_with_different_values_for_different_draws(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    # Draws take turns: the first of four follows the last of them again. The draws of groups that
    # work at once are as many places apart as the groups.
    for before, number in [*itertools.combinations(range(4), 2), (3, 4)]:
        earlier, later = (_draw(dtype, reduce_op, ranks, n) for n in (before, number))
        collective = COLLECTIVES[name]
        assert all(_differ(starts(collective, later), starts(collective, earlier)))
        assert all(_differ(afters(collective, later, 1), afters(collective, earlier, 1)))


@each_kind
@each_dtype
@each_size
def test_no_rank_of_a_collective_except_a_root_starts_with_the_values_of_its_result(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    collective, root = COLLECTIVES[name], getattr(KNOWN[name], "ROOT", None)
    for number in DRAWS:
        draw = _draw(dtype, reduce_op, ranks, number)
        both = zip(starts(collective, draw), afters(collective, draw, 1))
        for rank, (begun, ended) in enumerate(both):
            if rank != root:
                assert begun * (len(ended) // len(begun)) != ended
                assert ended * (len(begun) // len(ended)) != begun


def _tampered(begun: list[Buffer], name: str, reduce_op: str) -> Iterator[list[Buffer]]:
    """Yield the inputs of a faulty collective: a rank is left out, replaced or counted twice.

    Only the input of a root decides the result, so no other rank of such a collective is changed.
    """
    neutral = {"max": -math.inf, "min": math.inf}.get(reduce_op, 0.0)
    root = getattr(KNOWN[name], "ROOT", None)
    for rank, buffer in enumerate(begun):
        if root is not None and rank != root:
            continue
        replacements = [begun[(rank + 1) % len(begun)]] if name != "reduce_scatter" else []
        replacements.append([neutral] * len(buffer))
        if reduce_op == "sum":
            replacements.append([2 * element for element in buffer])
        for replacement in replacements:
            yield [*begun[:rank], replacement, *begun[rank + 1 :]]


@each_kind
@each_dtype
@each_size
def test_a_collective_that_leaves_out_or_replaces_or_repeats_a_rank_changes_the_results(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    draw, collective = _draw(dtype, reduce_op, ranks), COLLECTIVES[name]
    expected = afters(collective, draw, 1)
    for inputs in _tampered(starts(collective, draw), name, reduce_op):
        shows = _differ(simulated(name, reduce_op, inputs), expected)
        assert sum(shows) == (1 if name == "permute" else ranks)


@each_kind
@each_dtype
@each_size
def test_expected_results_differ_between_ranks_with_different_blocks_and_contain_no_zero(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    ended = afters(COLLECTIVES[name], _draw(dtype, reduce_op, ranks), 1)
    if name in ("reduce_scatter", "all_to_all", "permute"):
        assert len({tuple(buffer) for buffer in ended}) == ranks
    # A value of zero would have no bit that shows.
    assert all(all(buffer) for buffer in ended)


@each_dtype
@each_size
def test_a_skipped_iteration_of_a_chain_of_sums_changes_every_element(
    dtype: str, ranks: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    collective = COLLECTIVES["all_reduce"]
    for rounds in range(2, collective.max_exact_iterations(draw, "in_place") + 1):
        (after,), (before,) = (
            collective.exact_blocks_after(draw, 0, rounds),
            collective.exact_blocks_after(draw, 0, rounds - 1),
        )
        assert all(value != other for value, other in zip(after, before))


def test_the_32_blocks_of_a_reduce_scatter_over_32_ranks_are_all_different() -> None:
    blocks = COLLECTIVES["reduce_scatter"].starting_blocks(_draw("float32", "sum", 32), 0)
    assert len(set(blocks)) == 32


@each_kind
@each_dtype
def test_a_result_whose_elements_are_rotated_or_reversed_differs_from_the_right_result(
    name: str, reduce_op: str, dtype: str
) -> None:
    for (ended,) in zip(afters(COLLECTIVES[name], _draw(dtype, reduce_op, 4), 1)):
        assert ended[1:] + ended[:1] != ended
        assert ended[4:] + ended[:4] != ended
        assert ended[::-1] != ended


@each_kind
@each_dtype
@pytest.mark.parametrize("ranks", [*RANKS, 5, 12, 16, 64, 128])
def test_every_value_of_inputs_and_results_is_exact_in_its_dtype(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    collective, draw = COLLECTIVES[name], _draw(dtype, reduce_op, ranks, number=3)
    last = collective.max_exact_iterations(draw, collective.placements[0])
    assert last >= 1
    for position in (0, 1, ranks - 1):
        result = [
            collective.starting_blocks(draw, position),
            collective.exact_blocks_after(draw, position, 1),
        ]
        result += [collective.exact_blocks_after(draw, position, last)]
        assert all(
            is_exact(value, dtype) for blocks in result for period in blocks for value in period
        )


@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter"])
@each_dtype
@each_size
def test_a_sum_over_any_subset_of_ranks_is_exact_in_its_dtype(
    name: str, dtype: str, ranks: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    begun = [COLLECTIVES[name].starting_blocks(draw, rank) for rank in range(ranks)]
    periods = list(zip(*(itertools.chain(*blocks) for blocks in begun)))
    for count in range(1, ranks + 1):
        for chosen in itertools.combinations(range(ranks), count):
            for at_once in set(periods):
                assert is_exact(sum(at_once[rank] for rank in chosen), dtype)


ALL_REDUCE = COLLECTIVES["all_reduce"]


@pytest.mark.parametrize(
    ("dtype", "ranks", "rounds"),
    [
        ("float32", 2, 251),
        ("float32", 4, 125),
        ("float32", 3, 15),
        ("float16", 4, 13),
        ("bfloat16", 8, 83),
        ("bfloat16", 3, 5),
        ("bfloat16", 9, 2),
        ("bfloat16", 129, 1),
        ("bfloat16", 256, 31),
        ("bfloat16", 257, 0),
        ("int32", 2, 28),
        ("int32", 4, 14),
    ],
)
def test_the_longest_exact_chain_of_sums_depends_on_the_dtype_and_the_number_of_ranks(
    dtype: str, ranks: int, rounds: int
) -> None:
    assert ALL_REDUCE.max_exact_iterations(_draw(dtype, "sum", ranks), "in_place") == rounds


@pytest.mark.parametrize(
    ("dtype", "ranks"),
    [
        *((dtype, ranks) for dtype in DTYPES for ranks in (2, 4, 8, 16)),
        *((dtype, ranks) for dtype in ("float32", "bfloat16", "float16") for ranks in (3, 5, 7, 9)),
    ],
)
def test_an_iteration_after_the_longest_exact_chain_of_sums_is_not_exact(
    dtype: str, ranks: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    beyond = ALL_REDUCE.max_exact_iterations(draw, "in_place") + 1
    (ended,) = ALL_REDUCE.exact_blocks_after(draw, 0, beyond)
    assert not all(is_exact(value, dtype) for value in ended)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 256, 257])
def test_a_chain_of_any_length_out_of_place_is_exact_if_a_single_iteration_is_exact(
    dtype: str, ranks: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    chained = ALL_REDUCE.max_exact_iterations(draw, "in_place")
    apart = ALL_REDUCE.max_exact_iterations(draw, "out_of_place")
    assert apart == (MAX_ITERATIONS if chained else 0)


@pytest.mark.parametrize(("name", "reduce_op"), [kind for kind in kinds() if kind[1] != "sum"])
def test_a_chain_of_any_length_is_exact_for_collectives_without_a_sum(
    name: str, reduce_op: str
) -> None:
    draw = _draw("bfloat16", reduce_op, 250)
    assert (
        COLLECTIVES[name].max_exact_iterations(draw, COLLECTIVES[name].placements[0])
        == MAX_ITERATIONS
    )


@pytest.mark.parametrize(
    ("dtype", "ranks", "rounds"),
    [
        ("bfloat16", 128, MAX_ITERATIONS),
        ("bfloat16", 129, 0),
        ("float16", 1024, MAX_ITERATIONS),
        ("float16", 1025, 0),
    ],
)
def test_a_reduce_scatter_is_exact_up_to_a_number_of_ranks_that_depends_on_the_dtype(
    dtype: str, ranks: int, rounds: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    assert COLLECTIVES["reduce_scatter"].max_exact_iterations(draw, "out_of_place") == rounds
