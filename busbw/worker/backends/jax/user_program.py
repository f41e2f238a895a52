"""A program of the user's in JAX: his module is imported here, and his function called.

Whatever it raises is said in a sentence, with the line of his own code that it comes from.
"""

from __future__ import annotations

import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax

from busbw.model.words import FailureKind
from busbw.program import frames, inventory
from busbw.worker.operations.user_program import CompileError, Lowered, Optimized

from ..base import MeasuringError, first_line
from .backend import JaxBackend

_ACCEPTED = (
    "expected what jax.jit(...).lower(...) gives, or a jitted function and its arguments: "
    "(jitted, arguments)"
)


def user_program(backend: JaxBackend, source: str) -> Lowered:
    """Make a program of the user's for the devices that are measured on. Raises MeasuringError."""
    return lowered(source, backend.devices())


def lowered(source: str, devices: Sequence[Any]) -> Lowered:
    """The program that `source`, ``MODULE:FUNCTION``, makes for `devices`.

    Raises MeasuringError PROGRAM_ERROR.
    """
    place, _, name = source.rpartition(":")
    try:
        found = _function(place, name)(list(devices))
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], (tuple, list)):
            found = found[0].lower(*found[1])
    except MeasuringError:
        raise
    # SystemExit, too: it is the user's program that ends, not the worker.
    except (Exception, SystemExit) as error:
        text = f"{source}: {type(error).__name__}: {first_line(error)}{_where(error)}"
        raise MeasuringError(FailureKind.PROGRAM_ERROR, text) from error
    if not isinstance(found, jax.stages.Lowered):
        text = f"{source} gives {type(found).__name__}; {_ACCEPTED}"
        raise MeasuringError(FailureKind.PROGRAM_ERROR, text)
    # Lines that moved are another program to the cache: what was compiled names the old ones.
    text = found.as_text(debug_info=True)
    return Lowered(text, 1, partial(optimized, found, devices), inventory.mesh_of(text))


def _function(place: str, name: str) -> Any:
    """Return the function of a module, found as ``python FILE`` and ``python -m MODULE`` find it.

    Nothing is left beside the user's files: what is imported from now on writes no ``__pycache__``.
    """
    sys.dont_write_bytecode = True
    path, module = Path(place).absolute(), place
    folder = os.getcwd()
    if place.endswith(".py"):
        folder, module = str(path.parent), path.stem
        there = sys.modules.get(module)
        # Another program's file of the same name.
        if there is not None and getattr(there, "__file__", None) != str(path):
            del sys.modules[module]
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    return pkgutil.resolve_name(f"{module}:{name}")


def _where(error: BaseException) -> str:
    """Such as `` (train.py:31)``: the innermost line that is the user's own."""
    for one in reversed(traceback.extract_tb(error.__traceback__)):
        if one.filename != __file__ and not frames.is_of_a_library(one.filename):
            return f" ({Path(one.filename).name}:{one.lineno})"
    return ""


def optimized(lowered: Any, among: Sequence[Any] | None = None) -> Optimized:
    """Compile a program.

    Raises CompileError, also where this jaxlib cannot read a newer compiler's output.
    """
    try:
        compiled = lowered.compile()
        if among is not None:
            _check_devices(compiled, among)
        stats, text = compiled.memory_analysis(), compiled.as_text()
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        raise CompileError(str(error).strip()) from error
    return Optimized(
        text=text,
        argument_bytes=int(stats.argument_size_in_bytes),
        output_bytes=int(stats.output_size_in_bytes),
        alias_bytes=int(stats.alias_size_in_bytes),
        temporary_bytes=int(stats.temp_size_in_bytes),
        peak_bytes=int(getattr(stats, "peak_memory_in_bytes", 0)),
    )


def _check_devices(compiled: Any, among: Sequence[Any]) -> None:
    """Raise MeasuringError where a user's program uses devices that it was not given."""
    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    used = {device for one in shardings for device in getattr(one, "device_set", ())}
    if not used <= set(among):
        other = sorted({device.device_kind for device in used.difference(among)})
        text = f"it is made for other devices ({', '.join(other)}) than those that it was given"
        raise MeasuringError(FailureKind.PROGRAM_ERROR, text)
