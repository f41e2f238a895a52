"""Collectives done by hand on lists of numbers, each in the plainest way there is.

What a rank holds is a flat buffer; nothing here knows how `busbw.collectives` finds its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from busbw.collectives import COLLECTIVES, DTYPES, AbstractCollective, Draw
from busbw.collectives.base import Blocks

Buffer = list[float]

# Elements of a block: no multiple of any period, so that a cut period is compared too.
LENGTH = 131


def laid_out(blocks: Blocks, length: int = LENGTH) -> Buffer:
    """Each block's period again and again, to the block's end."""
    return [period[place % len(period)] for period in blocks for place in range(length)]


def starts(collective: AbstractCollective, draw: Draw) -> list[Buffer]:
    """What all ranks of a group put in."""
    return [laid_out(collective.start(draw, rank)) for rank in range(draw.ranks)]


def afters(collective: AbstractCollective, draw: Draw, rounds: int) -> list[Buffer]:
    """What all ranks of a group should hold after `rounds` rounds."""
    return [laid_out(collective.after(draw, rank, rounds)) for rank in range(draw.ranks)]


def simulated(name: str, reduce_op: str, held: Sequence[Buffer], rounds: int = 1) -> list[Buffer]:
    """What all ranks hold after the collective has been run that number of times over `held`."""
    result = list(held)
    for _ in range(rounds):
        result = _ROUNDS[name](result, _REDUCE[reduce_op])
    return result


def _all_reduce(held: list[Buffer], reduce: Callable[[Sequence[float]], float]) -> list[Buffer]:
    return [[reduce(at_once) for at_once in zip(*held)]] * len(held)


def _all_gather(held: list[Buffer], _: Callable[[Sequence[float]], float]) -> list[Buffer]:
    return [[one for buffer in held for one in buffer]] * len(held)


def _reduce_scatter(held: list[Buffer], reduce: Callable[[Sequence[float]], float]) -> list[Buffer]:
    whole = [reduce(at_once) for at_once in zip(*held)]
    size = len(whole) // len(held)
    return [whole[rank * size : (rank + 1) * size] for rank in range(len(held))]


def _all_to_all(held: list[Buffer], _: Callable[[Sequence[float]], float]) -> list[Buffer]:
    size = len(held[0]) // len(held)
    return [
        [one for buffer in held for one in buffer[rank * size : (rank + 1) * size]]
        for rank in range(len(held))
    ]


def _permute(held: list[Buffer], _: Callable[[Sequence[float]], float]) -> list[Buffer]:
    return [held[-1], *held[:-1]]


_ROUNDS = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "permute": _permute,
}
_REDUCE: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "max": max,
    "min": min,
    "none": max,
}


def kinds() -> list[tuple[str, str]]:
    """Every collective with each of its reduce ops."""
    return [
        (name, reduce_op)
        for name, collective in COLLECTIVES.items()
        for reduce_op in collective.reduce_ops or ("none",)
    ]


def is_exact(value: float, dtype: str) -> bool:
    """Whether `dtype` holds `value`: its odd factor fits the bits, its exponent the range."""
    exact = DTYPES[dtype]
    if value == 0:
        return True
    mantissa, exponent = math.frexp(abs(value))
    odd = int(mantissa * 2**53)
    bits = odd.bit_length() - ((odd & -odd).bit_length() - 1)
    return bits <= exact.bits and exact.least_exponent < exponent <= exact.greatest_exponent + 1
