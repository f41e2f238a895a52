"""Bytes, blocks and bus factors of every collective, against nccl-tests' figures."""

from __future__ import annotations

import pytest

from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES, Draw

from .known import KNOWN

RANKS = (2, 3, 4, 8, 64)
PAYLOAD = 2**10 * 3


def test_every_collective_is_found_by_its_own_name_and_known_from_elsewhere() -> None:
    assert {name: one.name for name, one in COLLECTIVES.items()} == {name: name for name in KNOWN}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_bus_factor_is_that_of_nccl_tests(name: str, ranks: int) -> None:
    assert COLLECTIVES[name].bus_factor(ranks) == float(KNOWN[name].bus_factor(ranks))


@pytest.mark.parametrize("name", KNOWN)
def test_a_rank_of_four_puts_in_and_gets_this_part_of_the_payload(name: str) -> None:
    collective, known = COLLECTIVES[name], KNOWN[name]
    assert collective.input_bytes(PAYLOAD, 4) == PAYLOAD * known.INPUT_OF_FOUR
    assert collective.output_bytes(PAYLOAD, 4) == PAYLOAD * known.OUTPUT_OF_FOUR


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_payload_is_the_larger_of_input_and_output(name: str, ranks: int) -> None:
    collective, payload = COLLECTIVES[name], 64 * PAYLOAD
    sizes = (collective.input_bytes(payload, ranks), collective.output_bytes(payload, ranks))
    assert max(sizes) == payload
    assert collective.parts(ranks) in (1, ranks)


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
