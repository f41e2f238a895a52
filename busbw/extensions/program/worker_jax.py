"""A program of the user's in JAX: a worker imports the user's module and calls the function.

What the function raises becomes a sentence, with the line of the user's own code.
"""

from __future__ import annotations

import os
import pkgutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError, first_line
from busbw.worker.backends.jax.backend import JaxBackend

from .worker_inventory import mesh_of
from .worker_sources import is_in_library


def compiled(backend: JaxBackend, source: str) -> tuple[str, Mapping[str, int]]:
    """Return a program's optimized HLO for the devices that are measured on, and its mesh.

    Raises MeasuringError.
    """
    program = lowered(source, backend.devices())
    try:
        text = program.compile().as_text()
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        raise MeasuringError(FailureKind.COMPILE_ERROR, str(error).strip()) from error
    return text, mesh_of(program.as_text())


def lowered(source: str, devices: Sequence[Any]) -> Any:
    """Return the program that `source`, ``MODULE:FUNCTION``, makes for `devices`.

    Raises MeasuringError PROGRAM_ERROR.
    """
    try:
        program = _function(source)(list(devices))
        if isinstance(program, tuple) and len(program) == 2:
            program = program[0].lower(*program[1])
    # SystemExit, too: the user's program ends, not the worker.
    except (Exception, SystemExit) as error:
        text = f"{source}: {type(error).__name__}: {first_line(error)}{_place_of(error)}"
        raise MeasuringError(FailureKind.PROGRAM_ERROR, text) from error
    if not isinstance(program, jax.stages.Lowered):
        raise MeasuringError(
            FailureKind.PROGRAM_ERROR,
            f"{source} gives {type(program).__name__}; expected what jax.jit(...).lower(...) "
            "gives, or a jitted function and its arguments: (jitted, arguments)",
        )
    return program


def _function(source: str) -> Any:
    """Return the function of a module, found as ``python FILE`` and ``python -m MODULE`` find it.

    Nothing is left beside the user's files: later imports write no ``__pycache__``.
    """
    sys.dont_write_bytecode = True
    place, _, name = source.rpartition(":")
    folder, module = os.getcwd(), place
    if place.endswith(".py"):
        folder, module = str(Path(place).absolute().parent), Path(place).stem
        # Another program's file may have the same name.
        sys.modules.pop(module, None)
    sys.path.insert(0, folder)
    return pkgutil.resolve_name(f"{module}:{name}")


def _place_of(error: BaseException) -> str:
    """Return the innermost line that is the user's own, such as `` (train.py:31)``."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    user_frames = (f for f in frames if f.filename != __file__ and not is_in_library(f.filename))
    return next((f" ({Path(f.filename).name}:{f.lineno})" for f in user_frames), "")
