"""The collectives of a user's program, compiled for the devices that are measured on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from busbw.model.program import ProgramCollectives
from busbw.model.words import FailureKind
from busbw.program import inventory
from busbw.worker import backends
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.backends.out_of_memory import is_out_of_memory, out_of_memory
from busbw.worker.measure import MeasureSession
from busbw.worker.serve import value_of


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


def user_program(session: MeasureSession, request: Mapping[str, Any]) -> ProgramCollectives:
    """List the collectives of a user's program. Raises MeasuringError."""
    lowering = backends.part(session.backend.name, "user_program")
    if lowering is None:
        raise unavailable(
            "a program is made by JAX alone; name the file of its optimized HLO, as --xla_dump_to "
            "writes it"
        )
    lowered: Lowered = lowering.user_program(session.backend, value_of(request, "source", str))
    try:
        return collectives_of(lowered.compiled(), lowered.mesh or {})
    except CompileError as error:
        raise refused(error) from error


def refused(error: CompileError) -> MeasuringError:
    """Return the failure of a program that the compiler refused."""
    if is_out_of_memory(error):
        return out_of_memory(error)
    return MeasuringError(FailureKind.COMPILE_ERROR, str(error))


def collectives_of(optimized: Optimized, mesh: Mapping[str, int]) -> ProgramCollectives:
    """List the collectives of an optimized program.

    Raises MeasuringError for a text that cannot be read.
    """
    try:
        # A program for one device names no number of ranks.
        uses = inventory.read(optimized.text, mesh, os.getcwd(), ranks=math.prod(mesh.values()))
    except inventory.ProgramError as error:
        raise MeasuringError(FailureKind.PROGRAM_ERROR, str(error)) from error
    return ProgramCollectives(uses=uses, mesh=mesh)
