"""The option `--program`, and the values by which it names programs."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from busbw.session.option import Option, UsageError, argument_type

if TYPE_CHECKING:
    from busbw.session.options import Options

_FUNCTION_PATTERN = re.compile(r"(?:.+\.py|[^\W\d][\w.]*):[^\W\d]\w*")


@argument_type
def parse_program_option(text: str) -> str:
    """Check that `text` names a program, and return `text` unchanged.

    A program is named by ``FILE.py:FUNCTION``, ``MODULE:FUNCTION`` or the path of a file of
    optimized HLO. Raises ValueError for any other text.
    """
    is_hlo = os.path.exists(text) and not text.endswith(".py")
    if not is_hlo and not _FUNCTION_PATTERN.fullmatch(text):
        raise ValueError(
            f"expected FILE.py:FUNCTION or MODULE:FUNCTION, such as perf/programs.py:train_step, "
            f"or a file of optimized HLO; got {text[:60]!r}"
        )
    return text


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
    sources = dict.fromkeys(options.extra.get("program", ()))
    # Two programs with the same name would share a baseline.
    if len({program_name(source) for source in sources}) < len(sources):
        raise UsageError(f"--program: two programs have the same name: {', '.join(sources)}")
    return tuple(sources)


def is_hlo_file(source: str) -> bool:
    """Return whether `source`, a value of --program, names a file of HLO instead of a function."""
    return ":" not in PurePath(source).name


def program_name(source: str) -> str:
    """Return a short name of the program `source`: ``train-step`` for ``train.py:step``."""
    file_name = PurePath(source).name.replace(".py:", ":")
    words = PurePath(source).stem if is_hlo_file(source) else file_name
    return re.sub(r"\W+", "-", words).strip("-")
