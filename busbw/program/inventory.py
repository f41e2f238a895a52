"""Every collective of a program: what it moves, along which axes, how often in a step, and where.

A program runs what its entry calls: loops count as often as they turn, a branch as often as it may
be taken. The same collective may be printed several times: at its start, within the computations
that run meanwhile, and at its end.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from busbw.collectives.base import group_size_of
from busbw.model.program import Uses
from busbw.model.words import plural

from . import frames
from .axes import MOST_RANKS, Axes, Mesh, UnknownRanksError
from .computations import Computations
from .hlo import Module, ProgramError
from .hlo import read as read_module
from .lines import Lines
from .trips import Trips

__all__ = ["ProgramError", "UnknownRanksError", "mesh_of", "ranks_of", "read"]

# A line that somebody broke by hand.
_WRAPPED = re.compile(r"([,(])\n[ \t]+(?=\S)")
_HEAD_END = re.compile(r"^(?:ENTRY )?%?[\w.-]+ \(.*\{$", re.MULTILINE)
_COUNTS = re.compile(r"\b(?:num_partitions|replica_count)=(\d{1,9})\b")
_MESH = re.compile(r"sdy\.mesh @\w+ = <\[(.*?)\]")
_EXTENT = re.compile(r'"([^"]+)"=(\d+)')


def read(text: str, mesh: Mesh | None = None, root: str = "", ranks: int | None = None) -> Uses:
    """Return the collectives of a step, the largest first.

    `mesh` is what the program calls its axes, `root` the folder that sources are shown from, and
    `ranks` how many take part where the text does not say it. Raises ProgramError for a text that
    is no optimized HLO, or is cut, and UnknownRanksError where nothing says how many ranks there
    are.
    """
    try:
        module = read_module(_WRAPPED.sub(r"\1 ", text))
        _check_whole(text, module)
        head = _head_of(text)
        named = _ranks_of(head, module)
        axes = Axes(mesh or {}, ranks if named is None else named)
        lines = Lines(module, axes, frames.read(head, root))
        counts = Computations(module, lines, Trips(module)).entry()
    except ProgramError:
        raise
    # Of a number in the text: nothing else is converted.
    except ValueError as error:
        raise ProgramError(f"a number in it cannot be read: {str(error)[:100]}") from error
    found = [count.of(use) for use, count in counts.items()]
    return tuple(sorted(found, key=lambda one: (-one.payload_bytes, one.name, one.source)))


def ranks_of(text: str) -> int | None:
    """Return how many ranks a program says that it has; None if it does not say it."""
    return _ranks_of(_head_of(text), read_module(text))


def _ranks_of(head: str, module: Module) -> int | None:
    """Return replicas times partitions; where the head names neither, the ranks of all groups."""
    counts = [int(count) for count in _COUNTS.findall(head)]
    if counts and all(counts):
        return math.prod(min(count, MOST_RANKS) for count in counts)
    sizes = (group_size_of(line.text) for line in module.collectives())
    return max((size.ranks for size in sizes if size is not None), default=None)


def _head_of(text: str) -> str:
    end = _HEAD_END.search(text)
    return text[: end.start()] if end else ""


def _check_whole(text: str, module: Module) -> None:
    """Raise ProgramError for a text that ends too early, with what of it is there."""
    if module.entry and not module.unclosed:
        return
    lines = len(text.splitlines())
    if not module.computations:
        raise ProgramError(
            f"it has no computation: it is no HLO, or it is cut in its head, at line {lines}"
        )
    last = module.unclosed or list(module.computations)[-1]
    where = "within" if module.unclosed else "after"
    kinds = Counter(line.collective for line in module.collectives())
    named = [plural(count, f"{kind} instruction") for kind, count in sorted(kinds.items())]
    raise ProgramError(
        f"it is cut: it ends at line {lines}, {where} the computation "
        f"{last[:60]}{'' if module.entry else ' and before its ENTRY computation'}. Up to there it "
        f"has {', '.join(named) or 'no collective'}; how often a step runs them is not in it. "
        "Expected the whole file"
    )


def mesh_of(lowered: str) -> dict[str, int]:
    """Return the names and extents of the mesh that a program was written for, if it has one.

    `lowered` is its StableHLO, in which a mesh of all ranks is the first one.
    """
    found = [dict(_EXTENT.findall(text)) for text in _MESH.findall(lowered)]
    meshes = [{name: int(extent) for name, extent in one.items()} for one in found if one]
    return max(meshes, key=lambda one: math.prod(one.values()), default={})
