"""All-reduce by hand."""

from __future__ import annotations

from fractions import Fraction

from tests.unit.collectives.known import Buffer, Reduce


def once(held: list[Buffer], reduce: Reduce) -> list[Buffer]:
    return [[reduce(at_once) for at_once in zip(*held)]] * len(held)


def bus_factor(n: int) -> Fraction:
    return Fraction(2 * (n - 1), n)


INPUT_OF_FOUR = OUTPUT_OF_FOUR = Fraction(1)
