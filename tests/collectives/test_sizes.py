"""Bytes, blocks and bus factors of every collective, against nccl-tests' figures."""

from __future__ import annotations

from fractions import Fraction

import pytest

from busbw.collectives import COLLECTIVES, DTYPES, REDUCE_OPS, Draw

RANKS = (2, 3, 4, 8, 64)
PAYLOAD = 2**10 * 3

# What nccl-tests divides S/t by, PERFORMANCE.md.
BUS_FACTORS = {
    "all_reduce": lambda n: Fraction(2 * (n - 1), n),
    "all_gather": lambda n: Fraction(n - 1, n),
    "reduce_scatter": lambda n: Fraction(n - 1, n),
    "all_to_all": lambda n: Fraction(n - 1, n),
    "permute": lambda n: Fraction(1),
}


def test_every_collective_is_found_by_its_own_name() -> None:
    assert {name: collective.name for name, collective in COLLECTIVES.items()} == {
        name: name for name in BUS_FACTORS
    }


@pytest.mark.parametrize("name", BUS_FACTORS)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_bus_factor_is_that_of_nccl_tests(name: str, ranks: int) -> None:
    assert COLLECTIVES[name].bus_factor(ranks) == pytest.approx(float(BUS_FACTORS[name](ranks)))


@pytest.mark.parametrize(
    ("name", "input_parts", "output_parts"),
    [
        ("all_reduce", Fraction(1), Fraction(1)),
        ("all_gather", Fraction(1, 4), Fraction(1)),
        ("reduce_scatter", Fraction(1), Fraction(1, 4)),
        ("all_to_all", Fraction(1), Fraction(1)),
        ("permute", Fraction(1), Fraction(1)),
    ],
)
def test_a_rank_of_four_puts_in_and_gets_this_part_of_the_payload(
    name: str, input_parts: Fraction, output_parts: Fraction
) -> None:
    collective = COLLECTIVES[name]
    assert collective.input_bytes(PAYLOAD, 4) == PAYLOAD * input_parts
    assert collective.output_bytes(PAYLOAD, 4) == PAYLOAD * output_parts


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_payload_is_the_larger_of_input_and_output(name: str, ranks: int) -> None:
    collective, payload = COLLECTIVES[name], 64 * PAYLOAD
    sizes = (collective.input_bytes(payload, ranks), collective.output_bytes(payload, ranks))
    assert max(sizes) == payload
    assert collective.parts(ranks) == (1 if name in ("all_reduce", "permute") else ranks)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", RANKS)
def test_values_come_in_as_many_blocks_as_are_put_in_and_taken_out(name: str, ranks: int) -> None:
    collective = COLLECTIVES[name]
    draw = Draw(dtype="float32", reduce_op="sum", ranks=ranks)
    begun, ended = collective.start(draw, ranks - 1), collective.after(draw, ranks - 1, 1)
    assert (len(begun), len(ended)) == (
        collective.input_blocks(ranks),
        collective.output_blocks(ranks),
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
def test_in_place_is_only_what_never_gives_back_what_was_put_in(
    name: str, placements: tuple[str, ...], reduce_ops: tuple[str, ...]
) -> None:
    collective = COLLECTIVES[name]
    assert (collective.placements, collective.reduce_ops) == (placements, reduce_ops)


@pytest.mark.parametrize(
    ("dtype", "size_bytes"), [("float32", 4), ("bfloat16", 2), ("float16", 2), ("int32", 4)]
)
def test_a_dtype_has_the_size_of_its_elements(dtype: str, size_bytes: int) -> None:
    assert DTYPES[dtype].size_bytes == size_bytes
