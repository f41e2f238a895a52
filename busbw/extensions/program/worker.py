"""The collectives of a user's program, compiled for the devices that are measured on."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Mapping
from typing import Any

from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.measure import MeasureSession
from busbw.worker.serve import request_value

from .worker_inventory import uses_of
from .worker_values import ProgramCollectives, ProgramError


def list_collectives(session: MeasureSession, request: Mapping[str, Any]) -> ProgramCollectives:
    """Compile a user's program and list its collectives. Raises MeasuringError."""
    framework = session.backend.name
    if importlib.util.find_spec(f"{__name__}_{framework}") is None:
        raise unavailable(
            "only JAX makes a program; name the file of its optimized HLO, as --xla_dump_to "
            "writes it"
        )
    compiler = importlib.import_module(f"{__name__}_{framework}")
    text, mesh = compiler.compiled(session.backend, request_value(request, "source", str))
    return collectives_of(text, mesh)


def collectives_of(text: str, mesh: Mapping[str, int]) -> ProgramCollectives:
    """List the collectives of an optimized program.

    Raises MeasuringError for a text that cannot be read.
    """
    try:
        # A program for one device names no number of ranks.
        uses = uses_of(text, mesh, os.getcwd(), ranks=math.prod(mesh.values()))
    except ProgramError as error:
        raise MeasuringError(FailureKind.PROGRAM_ERROR, str(error)) from error
    return ProgramCollectives(uses=uses, mesh=mesh)
