"""A program before and after it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class CompileError(Exception):
    """The compiler refused a program; the message is the compiler's own."""


@dataclass(frozen=True, kw_only=True)
class OptimizedProgram:
    """The optimized HLO of a program, and the bytes of memory that a rank needs to run it.

    `alias_bytes` are the bytes that outputs share with arguments. `temporary_bytes` are scratch
    space. `peak_bytes` is the most memory in use at any moment; 0 if the compiler does not say it.
    """

    text: str
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class LoweredProgram:
    """A program before it is compiled, as the whole `text` of its StableHLO.

    `compile` compiles the program, or raises CompileError. `collectives_per_turn` is the number of
    collectives in a turn of the program's loop, or in the whole program if it has no loop. For a
    user's program `mesh` has the extents of its mesh by axis name; None for a case.
    """

    text: str
    collectives_per_turn: int
    compile: Callable[[], OptimizedProgram]
    mesh: Mapping[str, int] | None = None
