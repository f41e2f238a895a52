"""A program before and after it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class CompileError(Exception):
    """The compiler refused a program; the message is the compiler's own."""


@dataclass(frozen=True, kw_only=True)
class Optimized:
    """The optimized HLO of a program, and the bytes that one rank's part of the program takes."""

    text: str
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Lowered:
    """A program before it is compiled, and what compiles it, or raises CompileError.

    `text` is the whole program. `step` collectives make one turn of its loop, or the whole of a
    program without a loop. `mesh` has the extents of the axes of a user's program, by name.
    """

    text: str
    step: int
    compiled: Callable[[], Optimized]
    mesh: Mapping[str, int] | None = None
