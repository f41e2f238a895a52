"""The exact values of every collective: what it gives, for how many rounds, and what shows."""

from __future__ import annotations

import itertools

import pytest

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, MOST_ROUNDS, Draw
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
def test_after_one_round_every_rank_holds_what_the_collective_gives(
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
def test_after_chained_rounds_every_rank_holds_what_the_collective_gives(
    name: str, reduce_op: str, dtype: str, ranks: int, rounds: int
) -> None:
    draw = _draw(dtype, reduce_op, ranks, number=1)
    rounds = min(rounds, COLLECTIVES[name].exact_rounds(draw, "in_place"))
    got = simulated(name, reduce_op, starts(COLLECTIVES[name], draw), rounds)
    assert got == afters(COLLECTIVES[name], draw, rounds)


@each_kind
@each_dtype
@each_size
def test_every_rank_starts_and_ends_with_other_values_than_in_the_draw_before(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    # Draws take turns: the first of four follows the last of them again.
    for before, number in [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]:
        earlier, later = (_draw(dtype, reduce_op, ranks, n) for n in (before, number))
        collective = COLLECTIVES[name]
        assert all(_differ(starts(collective, later), starts(collective, earlier)))
        assert all(_differ(afters(collective, later, 1), afters(collective, earlier, 1)))


@each_kind
@each_dtype
@each_size
def test_no_rank_but_a_root_starts_with_its_result(
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


@each_kind
@each_size
def test_every_rank_starts_with_other_values_than_the_others(
    name: str, reduce_op: str, ranks: int
) -> None:
    buffers = starts(COLLECTIVES[name], _draw("bfloat16", reduce_op, ranks))
    unlike = 2 if name == "reduce_scatter" else ranks
    assert len({tuple(buffer) for buffer in buffers}) == unlike


@pytest.mark.parametrize("reduce_op", ["sum", "max", "min"])
@each_dtype
@each_size
def test_a_rank_that_an_all_reduce_leaves_out_counts_twice_or_takes_for_another_shows(
    reduce_op: str, dtype: str, ranks: int
) -> None:
    draw = _draw(dtype, reduce_op, ranks)
    begun, (expected, *_) = (
        starts(COLLECTIVES["all_reduce"], draw),
        afters(COLLECTIVES["all_reduce"], draw, 1),
    )
    for rank in range(ranks):
        others = begun[:rank] + begun[rank + 1 :]
        replaced = [*begun[:rank], begun[(rank + 1) % ranks], *begun[rank + 1 :]]
        assert simulated("all_reduce", reduce_op, others)[0] != expected
        assert simulated("all_reduce", reduce_op, replaced)[0] != expected
        if reduce_op == "sum":
            assert simulated("all_reduce", reduce_op, [*begun, begun[rank]])[0] != expected


@each_dtype
@each_size
def test_a_rank_that_a_reduce_scatter_leaves_out_or_counts_twice_shows_on_every_rank(
    dtype: str, ranks: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    collective = COLLECTIVES["reduce_scatter"]
    begun, expected = starts(collective, draw), afters(collective, draw, 1)
    nothing = [0.0] * len(begun[0])
    for rank in range(ranks):
        without = [*begun[:rank], nothing, *begun[rank + 1 :]]
        twice = [
            [2 * element for element in buffer] if i == rank else buffer
            for i, buffer in enumerate(begun)
        ]
        assert all(_differ(simulated("reduce_scatter", "sum", without), expected))
        assert all(_differ(simulated("reduce_scatter", "sum", twice), expected))


@pytest.mark.parametrize("name", ["all_gather", "all_to_all", "permute"])
@each_size
def test_a_rank_that_sent_nothing_shows_wherever_its_block_should_be(name: str, ranks: int) -> None:
    draw = _draw("bfloat16", "none", ranks)
    collective = COLLECTIVES[name]
    begun, expected = starts(collective, draw), afters(collective, draw, 1)
    for rank in range(ranks):
        silent = [*begun[:rank], [0.0] * len(begun[rank]), *begun[rank + 1 :]]
        shows = _differ(simulated(name, "none", silent), expected)
        assert shows == (
            [i == (rank + 1) % ranks for i in range(ranks)] if name == "permute" else [True] * ranks
        )


@pytest.mark.parametrize("name", ["reduce_scatter", "all_to_all", "permute"])
@each_dtype
@each_size
def test_the_results_of_any_two_ranks_differ_so_that_a_swapped_pair_shows(
    name: str, dtype: str, ranks: int
) -> None:
    collective = COLLECTIVES[name]
    reduce_op = "sum" if collective.reduce_ops else "none"
    ended = afters(collective, _draw(dtype, reduce_op, ranks), 1)
    for buffer, other in itertools.combinations(ended, 2):
        assert buffer != other


@pytest.mark.parametrize("name", ["all_gather", "all_to_all", "permute"])
@each_size
def test_the_values_of_two_ranks_that_are_swapped_show(name: str, ranks: int) -> None:
    collective = COLLECTIVES[name]
    draw = _draw("float32", "none", ranks)
    begun, expected = starts(collective, draw), afters(collective, draw, 1)
    for first, second in itertools.combinations(range(ranks), 2):
        swapped = list(begun)
        swapped[first], swapped[second] = begun[second], begun[first]
        assert any(_differ(simulated(name, "none", swapped), expected))


@each_kind
@each_size
def test_an_element_that_is_off_by_one_bit_shows(name: str, reduce_op: str, ranks: int) -> None:
    draw = _draw("float32", reduce_op, ranks)
    expected = afters(COLLECTIVES[name], draw, 1)
    for rank, place in itertools.product(range(ranks), (0, len(expected[0]) - 1)):
        got = [list(buffer) for buffer in expected]
        got[rank][place] *= 1 + 2**-23
        assert _differ(got, expected) == [i == rank for i in range(ranks)]


@each_dtype
@each_size
def test_a_skipped_round_of_sums_shows_in_every_element(dtype: str, ranks: int) -> None:
    draw = _draw(dtype, "sum", ranks)
    collective = COLLECTIVES["all_reduce"]
    for rounds in range(2, collective.exact_rounds(draw, "in_place") + 1):
        (after,), (before,) = (
            collective.after(draw, 0, rounds),
            collective.after(draw, 0, rounds - 1),
        )
        assert all(value != other for value, other in zip(after, before))


def test_up_to_32_blocks_of_a_reduce_scatter_differ() -> None:
    blocks = COLLECTIVES["reduce_scatter"].start(_draw("float32", "sum", 32), 0)
    assert len(set(blocks)) == 32


@each_kind
@each_dtype
def test_elements_in_another_order_show(name: str, reduce_op: str, dtype: str) -> None:
    for (ended,) in zip(afters(COLLECTIVES[name], _draw(dtype, reduce_op, 4), 1)):
        assert ended[1:] + ended[:1] != ended
        assert ended[4:] + ended[:4] != ended
        assert ended[::-1] != ended


@each_kind
@each_dtype
@pytest.mark.parametrize("ranks", [*RANKS, 5, 12, 16, 64, 128])
def test_every_value_is_one_that_the_dtype_holds(
    name: str, reduce_op: str, dtype: str, ranks: int
) -> None:
    collective, draw = COLLECTIVES[name], _draw(dtype, reduce_op, ranks, number=3)
    last = collective.exact_rounds(draw, collective.placements[0])
    assert last >= 1
    for position in (0, 1, ranks - 1):
        result = [collective.start(draw, position), collective.after(draw, position, 1)]
        result += [collective.after(draw, position, last)]
        assert all(
            is_exact(value, dtype) for blocks in result for period in blocks for value in period
        )


@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter"])
@each_dtype
@each_size
def test_a_sum_over_any_of_the_ranks_is_exact_so_that_its_order_is_free(
    name: str, dtype: str, ranks: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    begun = [COLLECTIVES[name].start(draw, rank) for rank in range(ranks)]
    periods = list(zip(*(itertools.chain(*blocks) for blocks in begun)))
    for count in range(1, ranks + 1):
        for chosen in itertools.combinations(range(ranks), count):
            for at_once in set(periods):
                assert is_exact(sum(at_once[rank] for rank in chosen), dtype)


@each_dtype
@each_size
def test_in_the_last_exact_round_every_partial_sum_is_exact_too(dtype: str, ranks: int) -> None:
    draw = _draw(dtype, "sum", ranks)
    collective = COLLECTIVES["all_reduce"]
    last = collective.exact_rounds(draw, "in_place")
    (held,) = collective.after(draw, 0, last - 1) if last > 1 else collective.start(draw, 0)
    for count in range(1, ranks + 1):
        assert all(is_exact(count * value, dtype) for value in held)


@each_kind
@each_size
def test_groups_that_work_at_once_differ_from_their_neighbours(
    name: str, reduce_op: str, ranks: int
) -> None:
    # A group's draw is as many places further on as the group's number.
    collective = COLLECTIVES[name]
    for group, neighbour in [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3), (1, 3)]:
        mine, others = (_draw("bfloat16", reduce_op, ranks, n) for n in (group, neighbour))
        assert all(_differ(starts(collective, mine), starts(collective, others)))
        assert all(_differ(afters(collective, mine, 1), afters(collective, others, 1)))


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
def test_how_long_a_chain_of_sums_may_be_depends_on_bits_and_exponents(
    dtype: str, ranks: int, rounds: int
) -> None:
    assert ALL_REDUCE.exact_rounds(_draw(dtype, "sum", ranks), "in_place") == rounds


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("ranks", "number"),
    [*((ranks, 0) for ranks in (*range(2, 17), 64, 100)), *((4, number) for number in (1, 2, 3))],
)
def test_each_round_to_the_last_exact_round_is_exact_in_every_element(
    dtype: str, ranks: int, number: int
) -> None:
    draw = _draw(dtype, "sum", ranks, number)
    last = ALL_REDUCE.exact_rounds(draw, "in_place")
    assert last >= 1
    for rounds in range(1, last + 1):
        (ended,) = ALL_REDUCE.after(draw, 0, rounds)
        assert all(is_exact(value, dtype) for value in ended)


@pytest.mark.parametrize(
    ("dtype", "ranks"),
    [
        *((dtype, ranks) for dtype in DTYPES for ranks in (2, 4, 8, 16)),
        *((dtype, ranks) for dtype in ("float32", "bfloat16", "float16") for ranks in (3, 5, 7, 9)),
    ],
)
def test_a_round_after_the_last_exact_round_is_not_exact(dtype: str, ranks: int) -> None:
    draw = _draw(dtype, "sum", ranks)
    beyond = ALL_REDUCE.exact_rounds(draw, "in_place") + 1
    (ended,) = ALL_REDUCE.after(draw, 0, beyond)
    assert not all(is_exact(value, dtype) for value in ended)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 256, 257])
def test_out_of_place_any_number_of_rounds_is_exact_if_one_round_is(dtype: str, ranks: int) -> None:
    draw = _draw(dtype, "sum", ranks)
    chained = ALL_REDUCE.exact_rounds(draw, "in_place")
    apart = ALL_REDUCE.exact_rounds(draw, "out_of_place")
    assert apart == (MOST_ROUNDS if chained else 0)


@pytest.mark.parametrize(("name", "reduce_op"), [kind for kind in kinds() if kind[1] != "sum"])
def test_collectives_without_a_sum_stay_exact(name: str, reduce_op: str) -> None:
    draw = _draw("bfloat16", reduce_op, 250)
    assert COLLECTIVES[name].exact_rounds(draw, COLLECTIVES[name].placements[0]) == MOST_ROUNDS


@pytest.mark.parametrize(
    ("dtype", "ranks", "rounds"),
    [
        ("bfloat16", 128, MOST_ROUNDS),
        ("bfloat16", 129, 0),
        ("float16", 1024, MOST_ROUNDS),
        ("float16", 1025, 0),
    ],
)
def test_a_reduce_scatter_needs_room_for_one_sum_of_two_of_each_rank(
    dtype: str, ranks: int, rounds: int
) -> None:
    draw = _draw(dtype, "sum", ranks)
    assert COLLECTIVES["reduce_scatter"].exact_rounds(draw, "out_of_place") == rounds
