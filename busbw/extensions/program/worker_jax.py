"""Compile a user's program in JAX: import the user's module and call the function.

An error that the function raises is reported in a sentence with the line of the user's own code.
"""

from __future__ import annotations

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

from .worker import compile_error, mesh_in_stablehlo
from .worker_values import is_in_library


def compile_program(backend: JaxBackend, source: str) -> tuple[str, Mapping[str, int]]:
    """Return the optimized HLO of a user's program, and the extents of its mesh by axis name.

    `source` names the user's function, such as ``train.py:step``. The program is compiled for the
    devices of `backend`. Raises MeasuringError if the function fails or does not return a program,
    or if the compiler refuses the program.
    """
    program = lower_program(source, backend.devices())
    try:
        text = program.compile().as_text()
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        raise compile_error(error) from error
    return text, mesh_in_stablehlo(program.as_text())


def lower_program(source: str, devices: Sequence[Any]) -> Any:
    """Call a user's function with `devices`, and return the jax.stages.Lowered of its program.

    The user's function returns a Lowered, or a pair ``(jitted, arguments)`` of a jitted function
    and its arguments. `source` names the user's function, as ``FILE.py:FUNCTION`` or
    ``MODULE:FUNCTION``. Raises MeasuringError with the kind PROGRAM_ERROR if the function fails or
    returns anything else.
    """
    try:
        program = _load_function(source)(list(devices))
        if isinstance(program, tuple) and len(program) == 2:
            program = program[0].lower(*program[1])
    # A user's program that calls sys.exit must not end the worker.
    except (Exception, SystemExit) as error:
        raise MeasuringError(
            FailureKind.PROGRAM_ERROR,
            f"{source}: {type(error).__name__}: {first_line(error)}{_user_code_line_text(error)}",
        ) from error
    if not isinstance(program, jax.stages.Lowered):
        raise MeasuringError(
            FailureKind.PROGRAM_ERROR,
            f"{source} gives {type(program).__name__}; expected what jax.jit(...).lower(...) "
            "gives, or a jitted function and its arguments: (jitted, arguments)",
        )
    return program


def _load_function(source: str) -> Any:
    """Import the module in `source`, and return the function that `source` names.

    `source` has the form ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION``. The module is imported from
    the folder in which ``python FILE`` or ``python -m MODULE`` would search. Python writes no
    ``__pycache__`` into the user's folders.
    """
    sys.dont_write_bytecode = True
    place, _, name = source.rpartition(":")
    path = Path(place.removesuffix(".py")).absolute()
    # A file with the same name may have been imported for another program.
    sys.modules.pop(path.name, None)
    sys.path.insert(0, str(path.parent))
    return pkgutil.resolve_name(f"{path.name}:{name}")


def _user_code_line_text(error: BaseException) -> str:
    """Return the innermost line of the user's code in a traceback, such as `` (train.py:31)``.

    The traceback is that of `error`. The text is empty if no line of the user's code is in it.
    """
    frames = reversed(traceback.extract_tb(error.__traceback__))
    user_frames = (f for f in frames if f.filename != __file__ and not is_in_library(f.filename))
    return next((f" ({Path(f.filename).name}:{f.lineno})" for f in user_frames), "")
