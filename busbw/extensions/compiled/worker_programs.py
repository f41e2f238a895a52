"""A program before and after it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OptimizedProgram:
    """The optimized HLO of a program, and the memory of a rank that the program needs.

    `needed_bytes` is the memory for arguments, outputs and temporary values. `temporary_bytes` is
    the memory for temporary values alone. `peak_bytes` is the largest amount of memory in use at
    any moment; 0 if the compiler does not report it.
    """

    text: str
    needed_bytes: int
    temporary_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class LoweredProgram:
    """A program before it is compiled; `text` is its StableHLO.

    `collectives_per_turn` is the number of collectives in a turn of the program's loop, or in the
    whole program if it has no loop. `compile` compiles the program, and raises MeasuringError if
    the compiler refuses it. `mesh` maps the axis names of a user's program to their extents. It is
    None for a program of busbw.
    """

    text: str
    collectives_per_turn: int
    compile: Callable[[], OptimizedProgram]
    mesh: Mapping[str, int] | None = None
