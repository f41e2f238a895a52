"""Slurm: a process that `srun` started, which is one task of a step.

The script of `sbatch` and the shell of `salloc` have variables of the job, SLURM_PROCID among them,
and are no task of a step: they have no SLURM_STEP_NUM_TASKS. Variables as in srun's manual.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

from .base import Launched, LauncherError, rank_of, whole

_COUNT = "SLURM_STEP_NUM_TASKS"
_RANK = "SLURM_PROCID"
_NODES = "SLURM_STEP_NODELIST"
_NODE = "SLURMD_NODENAME"
_JOB = ("SLURM_JOB_ID", "SLURM_STEP_ID")

# A node, or a part of its name: text, or ranges in brackets.
_PART = re.compile(r"[^\[\],]+|\[[^\[\]]+\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def launched(environment: Mapping[str, str]) -> Launched | None:
    """What the step says of this task. Raises LauncherError for variables that fit no step."""
    if not all(environment.get(name) for name in (_COUNT, _RANK, _NODES)):
        return None
    count = whole(environment, _COUNT, least=1)
    rank = rank_of(environment, _RANK, count)
    host, *others = itertools.islice(nodes(environment[_NODES]), 2)
    here = environment.get(_NODE, "")
    unnamed = ""
    if rank == 0 and here and here != host:
        # Such as --distribution=arbitrary, whose list of nodes is in another order.
        unnamed = f"rank 0 is on {here}, and not on the first node of the step, {host}"
    return Launched(
        launcher="Slurm",
        rank=rank,
        count=count,
        job=".".join(environment.get(name, "") for name in _JOB),
        host="" if unnamed else host,
        unnamed=unnamed,
        one_host=not others,
    )


def nodes(text: str) -> Iterator[str]:
    """The nodes of a list such as ``n[01-04,7],m3``, in its order. Raises LauncherError."""
    for parts in _elements(text):
        choices = [_choices(part, text) for part in parts]
        yield from ("".join(chosen) for chosen in _product(choices))


def _elements(text: str) -> Iterator[list[str]]:
    at = 0
    while True:
        parts = []
        while found := _PART.match(text, at):
            parts.append(found[0])
            at = found.end()
        if not parts or text[at : at + 1] not in ("", ","):
            raise _no_list(text)
        yield parts
        if at == len(text):
            return
        at += 1


def _choices(part: str, text: str) -> list[tuple[str, str]]:
    """The ranges in brackets, as pairs of numbers; text by itself is a pair of it and nothing."""
    if not part.startswith("["):
        return [(part, "")]
    found = [_RANGE.fullmatch(one) for one in part[1:-1].split(",")]
    ranges = [(one[1], one[2] or one[1]) for one in found if one]
    if len(ranges) < len(found) or any(int(begin) > int(end) for begin, end in ranges):
        raise _no_list(text)
    return ranges


def _product(choices: list[list[tuple[str, str]]]) -> Iterator[tuple[str, ...]]:
    """One of each part, the last one changing fastest; nothing is made before it is asked for."""
    if not choices:
        yield ()
        return
    first, *rest = choices
    for begin, end in first:
        for word in _numbers(begin, end) if end else (begin,):
            yield from ((word, *others) for others in _product(rest))


def _numbers(begin: str, end: str) -> Iterator[str]:
    return (f"{number:0{len(begin)}d}" for number in range(int(begin), int(end) + 1))


def _no_list(text: str) -> LauncherError:
    return LauncherError(
        f"{_NODES}={text[:60]!r} is no list of nodes; accepted are lists such as n[01-04,7],m3"
    )
