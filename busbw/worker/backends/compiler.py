"""The door for compilers: programs for topologies that are not there, compiled and not run.

As narrow as the one for measuring, `base`: foreign errors end here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from busbw.model import Case, Compiler, Topology


class CompileError(Exception):
    """The compiler refused a program; the message is the compiler's own."""


@dataclass(frozen=True, kw_only=True)
class Optimized:
    """What a compiler gave: the optimised HLO, and bytes that one rank's part of it takes."""

    text: str
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    peak_bytes: int


class AbstractLowered(ABC):
    """A case's program for one topology, not compiled yet.

    `text` is all that it says. `step` collectives make one turn of its loop, or the whole of a
    program without a loop.
    """

    text: str
    step: int

    @abstractmethod
    def compiled(self) -> Optimized:
        """Run the compiler. Raises CompileError."""


class AbstractCompiler(ABC):
    """The compilers of one framework, whatever chips they are for."""

    @abstractmethod
    def describe(self, topology: Topology) -> Compiler:
        """The compiler for `topology`; where there is none, why."""

    @abstractmethod
    def lowered(self, case: Case, topology: Topology) -> AbstractLowered:
        """The program that measuring `case` on `topology` would run. Raises MeasuringError."""
