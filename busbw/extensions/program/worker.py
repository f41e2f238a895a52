"""Compile a user's program in a worker, for the measured devices, and list its collectives."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Mapping
from typing import Any

from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.backends.out_of_memory import is_out_of_memory, out_of_memory_error
from busbw.worker.measure import MeasuringWorker
from busbw.worker.serve import request_value

from .worker_inventory import collectives_in_hlo
from .worker_values import ProgramCollectives, ProgramError


def list_collectives(worker: MeasuringWorker, request: Mapping[str, Any]) -> ProgramCollectives:
    """Compile a user's program for the devices of the worker, and list its collectives.

    `worker` has the framework of the worker. The value `source` of the request names the program,
    such as ``train.py:step``. Raises MeasuringError if the framework cannot compile programs of
    users, or if the program cannot be compiled or read.
    """
    framework = worker.backend.name
    if importlib.util.find_spec(f"{__name__}_{framework}") is None:
        raise unavailable(
            "only JAX makes a program; name the file of its optimized HLO, as --xla_dump_to "
            "writes it"
        )
    compiler = importlib.import_module(f"{__name__}_{framework}")
    text, mesh = compiler.compile_program(worker.backend, request_value(request, "source", str))
    return parse_collectives(text, mesh)


def compile_error(error: Exception) -> MeasuringError:
    """Return the MeasuringError that stands for `error`, with which a compiler refused a program.

    The kind of the failure is OUT_OF_MEMORY or COMPILE_ERROR.
    """
    if is_out_of_memory(error):
        return out_of_memory_error(error)
    return MeasuringError(FailureKind.COMPILE_ERROR, str(error).strip())


def parse_collectives(text: str, mesh: Mapping[str, int]) -> ProgramCollectives:
    """List the collectives in `text`, the optimized HLO of a user's program.

    `mesh` maps the axis names of the program's mesh to their extents; empty without a mesh. Raises
    MeasuringError if the text cannot be read.
    """
    try:
        # The HLO of a program for a single device does not say the number of ranks.
        uses = collectives_in_hlo(text, mesh, os.getcwd(), ranks=math.prod(mesh.values()))
    except ProgramError as error:
        raise MeasuringError(FailureKind.PROGRAM_ERROR, str(error)) from error
    return ProgramCollectives(uses=uses, mesh=mesh)
