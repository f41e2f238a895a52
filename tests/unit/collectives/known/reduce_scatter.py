"""Reduce-scatter by hand."""

from __future__ import annotations

from fractions import Fraction

from tests.unit.collectives.known import Buffer, Reduce


def once(held: list[Buffer], reduce: Reduce) -> list[Buffer]:
    whole = [reduce(at_once) for at_once in zip(*held)]
    size = len(whole) // len(held)
    return [whole[rank * size : (rank + 1) * size] for rank in range(len(held))]


def bus_factor(n: int) -> Fraction:
    return Fraction(n - 1, n)


INPUT_OF_FOUR, OUTPUT_OF_FOUR = Fraction(1), Fraction(1, 4)
