"""The option `--program`, and the values by which it names programs."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from busbw import storage
from busbw.session.option import Option, UsageError, argument_type

if TYPE_CHECKING:
    from busbw.session.options import Options


@argument_type
def parse_program_option(text: str) -> str:
    """Check that `text` names a program, and return `text` unchanged.

    A program is named by ``FILE.py:FUNCTION``, ``MODULE:FUNCTION`` or the path of a file of
    optimized HLO. Raises ValueError for any other text.
    """
    place, _, function = text.rpartition(":")
    is_file = place.endswith(".py")
    names = [function] if is_file else [function, *place.split(".")]
    if os.path.exists(text) and not text.endswith(".py"):
        return text
    if not place or not all(name.isidentifier() for name in names):
        raise ValueError(
            f"expected FILE.py:FUNCTION or MODULE:FUNCTION, such as perf/programs.py:train_step, "
            f"or a file of optimized HLO; got {text[:60]!r}"
        )
    if is_file:
        _check_mentions_function(place, function)
    return text


def _check_mentions_function(path: str, function: str) -> None:
    """Raise ValueError if the Python file `path` is missing or does not mention `function`.

    A worker would notice such an error, too, but only after the worker has started its framework.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path}: there is no such file")
    with storage.reraise_as(ValueError, storage.InputError, where=f"{path}: "):
        code = storage.read(Path(path)).decode(errors="replace")
    if not re.search(rf"\b{function}\b|import \*", code):
        raise ValueError(f"{path}: there is no function {function!r}")


PROGRAM = Option(
    name="program",
    arguments={
        "type": parse_program_option,
        "action": "append",
        "metavar": "MODULE:FUNCTION",
        "help": "Check a program of your own instead of the collectives: a function of a module or "
        "of a FILE.py that takes devices and returns jax.jit(...).lower(...), or a file of "
        "optimized HLO, as --xla_dump_to writes it. Each of its collectives is measured by itself. "
        "Example: --program=train.py:step. May be repeated",
    },
    excludes=(
        *("soak", "payloads", "mesh", "axes", "strategies", "collectives", "reduce_ops"),
        *("placement", "dtypes"),
    ),
    exclusion_reason="whose collectives are measured",
)


def program_sources(options: Options) -> tuple[str, ...]:
    """Return the values of all --program options, each value once; empty without --program.

    Raises UsageError if two different programs have the same name.
    """
    sources: dict[str, str] = {}
    for source in options.extra.get("program", ()):
        # Two programs with the same name would share a baseline.
        name = program_name(source)
        if sources.setdefault(name, source) != source:
            raise UsageError(f"--program: {sources[name]} and {source} would both be called {name}")
    return tuple(sources.values())


def is_hlo_file(source: str) -> bool:
    """Return whether `source`, a value of --program, is a file of HLO and not a function."""
    return ":" not in PurePath(source).name


def program_name(source: str) -> str:
    """Return a short name of a program, such as ``train-step`` for the `source` train.py:step."""
    place, _, function = source.rpartition(":")
    words = PurePath(source).stem if is_hlo_file(source) else f"{PurePath(place).stem}-{function}"
    return re.sub(r"\W+", "-", words).strip("-")
