"""Every collective of a program: what it moves, along which axes, how often in a step, and where.

A program runs what its entry calls: a loop counts as often as it turns, a branch as often as it may
be taken. A collective may be printed several times: at its start, within the computations that run
meanwhile, and at its end.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.collectives import COLLECTIVES
from busbw.model.field_types import MOST_BYTES
from busbw.model.words import plural
from busbw.worker.backends.hlo.module import (
    Instruction,
    Module,
    published_algorithm,
    read_module,
    remove_quoted_parts,
)

from .worker_axes import MOST_RANKS, Axes, Mesh
from .worker_flow import hidden_by, is_continued
from .worker_sources import Sources
from .worker_trips import Trips, loop_parts
from .worker_values import ProgramError, Use, Uses, merge

_KINDS = {collective.hlo: collective.name for collective in COLLECTIVES.values()}
_REDUCE_OPS = {"add": "sum", "maximum": "max", "minimum": "min"}

_ARRAY = re.compile(r"\b(?!token\b)(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_DTYPE = re.compile(r"(bf|f|s|u|c)(\d+)(\w*)")
_DTYPES = {"bf": "bfloat", "f": "float", "s": "int", "u": "uint", "c": "complex"}

# How many operands are searched for a source.
_MOST_OPERANDS = 64

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", re.MULTILINE)
_CALLED = re.compile(
    r"\b(?:calls|to_apply|condition|body|(?:true|false)_computation"
    r"|(?:branch|called)_computations)=(\{[^}]*\}|%?[\w.-]+)"
)
_NAME = re.compile(r"[\w.-]+")
# Instructions in whose brackets there is a value.
_VALUES = ("constant", "parameter", "iota")
_COUNTS = re.compile(r"\b(?:num_partitions|replica_count)=(\d{1,9})\b")
_MESH = re.compile(r"sdy\.mesh @\w+ = <\[(.*?)\]")
_EXTENT = re.compile(r'"([^"]+)"=(\d+)')
_BRANCHES = re.compile(
    r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%?[\w.-]+))"
)


def uses_of(text: str, mesh: Mesh | None = None, root: str = "", ranks: int | None = None) -> Uses:
    """Return the collectives of a step, the largest first.

    `mesh` is what the program calls its axes, `root` the folder that sources are shown from, and
    `ranks` how many take part where the text does not say it. Raises ProgramError for a text that
    is no optimized HLO, is cut, or does not say how many ranks there are.
    """
    try:
        module, head = read_module(text), _head_of(text)
        lines = text.rstrip().split("\n")
        if not module.entry or not lines[-1].startswith("}"):
            collectives = plural(len(module.collectives()), "collective")
            raise ProgramError(
                "it is no optimized HLO, or it is cut: expected a whole file with an ENTRY "
                f"computation, got {collectives} until its end at line {len(lines)}, "
                f"{lines[-1].strip()[:60]!r}"
            )
        axes = Axes(mesh or {}, ranks_in(head) or ranks)
        inventory = _Inventory(module, axes, Sources(head, root), Trips(module))
        uses = inventory.uses(module.entry)
    except ProgramError:
        raise
    # Of a number in the text, or of a computation that calls itself.
    except (RecursionError, ValueError) as error:
        raise ProgramError(f"it cannot be read: {str(error)[:100]}") from error
    return tuple(sorted(uses, key=lambda use: (-use.payload_bytes, use.name, use.source)))


def mesh_of(lowered: str) -> dict[str, int]:
    """Return the names and extents of the mesh that a program was written for, if it has one.

    `lowered` is its StableHLO, in which a mesh of all ranks is the first one.
    """
    texts = map(_EXTENT.findall, _MESH.findall(lowered))
    meshes = [{name: int(extent) for name, extent in extents} for extents in texts if extents]
    return max(meshes, key=lambda mesh: math.prod(mesh.values()), default={})


def _head_of(text: str) -> str:
    end = _COMPUTATION.search(text)
    return text[: end.start()] if end else ""


def ranks_in(head: str) -> int | None:
    """Return replicas times partitions, None where the head names neither."""
    counts = [min(int(count), MOST_RANKS) for count in _COUNTS.findall(remove_quoted_parts(head))]
    return math.prod(counts) if counts else None


def is_scheduled(head: str) -> bool:
    """Tell whether a compiler has optimized the program with this head to its end."""
    return "is_scheduled=true" in remove_quoted_parts(head)


def check_whole(text: str) -> None:
    """Raise ProgramError if computations or instructions are missing or there twice."""
    called = (
        name
        for part in set(_CALLED.findall(remove_quoted_parts(text)))
        for name in _NAME.findall(part)
    )
    _check_names(_COMPUTATION.findall(text), called)
    for lines in read_module(text).computations.values():
        needed = (name for line in lines if line.op not in _VALUES for name in line.operands)
        _check_names([line.name for line in lines], needed)
    if text.count("\nENTRY ") > 1:
        raise ProgramError("it has two entries: expected the file as XLA wrote it")


def _check_names(names: Sequence[str], needed: Iterable[str]) -> None:
    """Raise ProgramError unless each name that is needed is there, and each once.

    After a bad merge, or a cut, the rest would be counted without a message.
    """
    missing = sorted(set(needed) - set(names))
    if missing:
        raise ProgramError(f"it runs {missing[0]!r}, which is missing: expected the whole file")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ProgramError(f"it has {twice[0]!r} twice: expected the file as XLA wrote it")


@dataclass
class _Inventory:
    """The collectives of each computation of `module`, which is read once."""

    module: Module
    axes: Axes
    sources: Sources
    trips: Trips
    _uses: dict[str, Uses] = field(default_factory=dict)

    def uses(self, computation: str) -> Uses:
        """Return what one run of a computation runs. Raises ProgramError."""
        if computation not in self._uses:
            lines = self.module.computations.get(computation, ())
            hidden = hidden_by(self.module, computation)
            by_name = {line.name: line for line in lines}
            self._uses[computation] = merge(
                self._placed(by_name, line, use)
                for line in lines
                for use in self._run(computation, line, hidden)
            )
        return self._uses[computation]

    def _run(self, computation: str, line: Instruction, hidden: Mapping[str, int]) -> Iterable[Use]:
        """Return what an instruction runs."""
        if line.op == "while":
            return self._turns(computation, line)
        if line.op == "conditional":
            names = ",".join(
                several or single for several, single in _BRANCHES.findall(line.unquoted_text)
            )
            branches = (name.strip().lstrip("%") for name in names.split(","))
            # One branch is taken each time.
            most = merge((use for branch in branches for use in self.uses(branch)), max)
            return [replace(use, at_most=True) for use in most]
        if line.collective and is_continued(line, self.module.computations[computation]):
            return ()
        if line.collective:
            return (self._describe(line, hidden.get(line.name, 0)),)
        uses = self._called(
            line, (use for name in line.called_computations for use in self.uses(name))
        )
        if line.name in hidden:
            return [replace(use, hidden_by=hidden[line.name]) for use in uses]
        return uses

    def _turns(self, computation: str, loop: Instruction) -> list[Use]:
        parts = loop_parts(loop)
        body, condition = self.uses(parts.get("body", "")), self.uses(parts.get("condition", ""))
        turns = self.trips.count(computation, loop) if body or condition else 0
        if turns is None:
            return [replace(use, per_iteration=True) for use in (*body, *condition)]
        runs = [(use, turns) for use in body] + [(use, turns + 1) for use in condition]
        return [replace(use, times=use.times * count) for use, count in runs if count]

    def _describe(self, line: Instruction, hidden_by: int) -> Use:
        """Return the collective of a line, which runs once. Raises ProgramError."""
        ranks, groups, axes = self.axes.groups_of(line.unquoted_text)
        arrays = _arrays_of(line)
        whole = ranks if line.collective == "reduce-scatter" else 1
        sizes = tuple(min(size * whole, MOST_BYTES) for _, size in arrays)
        applied = [
            part
            for name in line.called_computations
            for part in self.module.computations.get(name, ())
        ]
        reduce_op = applied[-1].op if applied else ""
        return Use(
            kind=_KINDS.get(line.collective, line.collective),
            dtype="+".join(sorted({name for name, _ in arrays})),
            payload_bytes=min(sum(sizes), MOST_BYTES),
            ranks=ranks,
            groups=groups,
            axes=axes,
            reduce_op=_REDUCE_OPS.get(reduce_op, reduce_op),
            # The result of an all-to-all is one buffer, cut up for each rank.
            parts=sizes if len(sizes) > 1 and line.collective != "all-to-all" else (),
            hidden_by=hidden_by,
            algorithm=published_algorithm([line]),
            source=self.sources.source_of(line.text),
        )

    def _called(self, line: Instruction, uses: Iterable[Use]) -> list[Use]:
        """Return the collectives of a computation that `line` calls, described by both.

        In a fusion whose result is each rank's part of a sum, the all-reduce is a reduce-scatter.
        """
        source, algorithm = self.sources.source_of(line.text), published_algorithm([line])
        is_scattered = line.op == "fusion" and any(map(self._scatters, line.called_computations))
        return [
            replace(
                use,
                kind="reduce_scatter" if is_scattered and use.kind == "all_reduce" else use.kind,
                source=use.source or source,
                algorithm=use.algorithm or algorithm,
            )
            for use in uses
        ]

    def _placed(self, lines: Mapping[str, Instruction], line: Instruction, use: Use) -> Use:
        """Return a Use with the source of the nearest operand where the compiler noted none."""
        names, source = [*line.operands], use.source
        while names and not source and len(names) < _MOST_OPERANDS:
            operand = lines.get(names.pop(0))
            if operand is not None:
                source = self.sources.source_of(operand.text)
                names += operand.operands
        return replace(use, source=source)

    def _scatters(self, name: str) -> bool:
        """Tell whether a fusion gives only each rank's part of its all-reduce."""
        lines = self.module.computations.get(name, ())
        sums = [line for line in lines if line.collective == "all-reduce"]
        if len(sums) != 1 or not any(line.op == "dynamic-slice" for line in lines):
            return False
        ranks, *_ = self.axes.groups_of(sums[0].unquoted_text)
        return sum(lines[-1].array_bytes) * ranks == sum(sums[0].array_bytes)


def _arrays_of(line: Instruction) -> list[tuple[str, int]]:
    """Return (dtype, bytes) of each array of a collective's result.

    The shape of a start has its operands, too.
    """
    arrays = [
        (
            _dtype_of(name),
            math.prod(map(int, filter(None, extents.split(",")))) * int(bits or 8) // 8,
        )
        for name, bits, extents in _ARRAY.findall(line.shape)
    ]
    count = len(line.operands)
    if line.op == "send":
        return arrays[:1]
    if line.op.endswith("-start") and (line.op != "all-reduce-start" or line.shape[:2] == "(("):
        return arrays[count : 2 * count]
    return arrays


def _dtype_of(name: str) -> str:
    """Return ``bf16`` as bfloat16 and ``f8e4m3fn`` as float8_e4m3fn; others as XLA has them."""
    match = _DTYPE.fullmatch(name)
    if match is None:
        return name.replace("pred", "bool")
    letters, bits, form = match.groups()
    return f"{_DTYPES[letters]}{bits}" + (f"_{form}" if form else "")
