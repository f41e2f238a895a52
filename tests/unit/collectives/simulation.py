"""Collectives done by hand, and what `busbw.collectives` says of the same ones.

What a rank holds is a flat buffer; `known` knows nothing of how values are found there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, AbstractCollective, Blocks, Draw
from tests.unit.collectives.known import KNOWN, Buffer, Reduce

# Elements of a block: no multiple of any period, so that a cut period is compared too.
LENGTH = 131


def laid_out(blocks: Blocks, length: int = LENGTH) -> Buffer:
    """Repeat each block's period to the block's end."""
    return [period[place % len(period)] for period in blocks for place in range(length)]


def starts(collective: AbstractCollective, draw: Draw) -> list[Buffer]:
    """Return the inputs of all ranks of a group."""
    return [laid_out(collective.starting_blocks(draw, rank)) for rank in range(draw.ranks)]


def afters(collective: AbstractCollective, draw: Draw, rounds: int) -> list[Buffer]:
    """Return what all ranks of a group should hold after `rounds` rounds."""
    return [
        laid_out(collective.exact_blocks_after(draw, rank, rounds)) for rank in range(draw.ranks)
    ]


def simulated(name: str, reduce_op: str, held: Sequence[Buffer], rounds: int = 1) -> list[Buffer]:
    """Return what all ranks hold after the collective was run so often over `held`."""
    result = list(held)
    for _ in range(rounds):
        result = KNOWN[name].once(result, _REDUCE[reduce_op])
    return result


_REDUCE: dict[str, Reduce] = {
    "sum": math.fsum,
    "max": max,
    "min": min,
    "none": max,
}


def kinds() -> list[tuple[str, str]]:
    """List every collective with each of its reduce ops."""
    return [
        (name, reduce_op)
        for name, collective in COLLECTIVES.items()
        for reduce_op in collective.reduce_ops or ("none",)
    ]


def is_exact(value: float, dtype: str) -> bool:
    """Return whether `dtype` holds `value`: its odd factor fits the bits and its exponent fits."""
    exact = DTYPES[dtype]
    if value == 0:
        return True
    mantissa, exponent = math.frexp(abs(value))
    odd = int(mantissa * 2**53)
    bits = odd.bit_length() - ((odd & -odd).bit_length() - 1)
    return (
        bits <= exact.significant_bits
        and exact.least_exponent < exponent <= exact.greatest_exponent + 1
    )
