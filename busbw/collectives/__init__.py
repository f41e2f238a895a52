"""Which collectives there are: one small file each, with byte counts, busbw factor, exact values.

A leaf that both sides of the worker's channel look down at: the worker lays out and checks
values by it, the other side knows payloads and rates by it. Standard library only, Python 3.10;
knows no framework, no file and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from .all_gather import AllGather
from .all_reduce import AllReduce
from .all_to_all import AllToAll
from .base import AbstractCollective, Blocks, Draw
from .numbers import DTYPES, Dtype
from .permute import Permute
from .reduce_scatter import ReduceScatter

COLLECTIVES: Mapping[str, AbstractCollective] = {
    collective.name: collective
    for collective in (AllReduce(), AllGather(), ReduceScatter(), AllToAll(), Permute())
}

REDUCE_OPS = ("sum", "max", "min")

__all__ = [
    "COLLECTIVES",
    "DTYPES",
    "REDUCE_OPS",
    "AbstractCollective",
    "Blocks",
    "Draw",
    "Dtype",
]
