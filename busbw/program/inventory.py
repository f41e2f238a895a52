"""Every collective of a program: what it moves, along which axes, how often in a step, and where.

A program runs what its entry calls: loops count as often as they turn, a branch as often as it may
be taken. The same collective may be printed several times: at its start, within the computations
that run meanwhile, and at its end.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import group_size_of, groups_of, pairs_of, unread_groups_of
from busbw.model.program import CONSECUTIVE, STRIDED, Use, Uses

from . import frames
from .hlo import Instruction, Module, algorithm_of
from .hlo import read as read_module
from .trips import Trips

Mesh = Mapping[str, int]

_KINDS = {one.hlo: one.name for one in COLLECTIVES.values()}
_ARRAY = re.compile(r"\b(pred|token|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_CHANNEL = re.compile(r"\bchannel_id=(\d+)")
# A compiler names all ranks by groups, too; a jaxlib that is too new for it may not read these.
_LOST_GROUPS = re.compile(r"replica_groups=\{\}.*\buse_global_device_ids=true")
_COMMENT = re.compile(r"/\*.*?\*/")
_BRANCHES = re.compile(
    r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%?[\w.-]+))"
)
_LOOP = re.compile(r"(condition|body)=%?([\w.-]+)")
# A line that somebody broke by hand.
_WRAPPED = re.compile(r"([,(])\n[ \t]+(?=\S)")
_HEAD_END = re.compile(r"^(?:ENTRY )?%?[\w.-]+ \(.*\{$", re.MULTILINE)
_COUNTS = re.compile(r"\b(?:num_partitions|replica_count)=(\d{1,9})\b")
_MESH = re.compile(r"sdy\.mesh @\w+ = <\[(.*?)\]")
_EXTENT = re.compile(r'"([^"]+)"=(\d+)')
_WORDS = {"bf": "bfloat", "f": "float", "s": "int", "u": "uint", "c": "complex"}
_NUMBERED = re.compile(r"(bf|f|s|u|c)(\d+)(\w*)")

# A fusion that begins or ends a collective on a TPU, by the target of the custom call in it.
_BEGINS, _ENDS = '"AsyncCollectiveStart"', '"AsyncCollectiveDone"'

_REDUCE_OPS = {"add": "sum", "maximum": "max", "minimum": "min"}
_CALLS = ("fusion", "call", "custom-call")
# What hands on a collective under way.
_CARRIES = ("get-tuple-element", "bitcast", "tuple", "copy", "opt-barrier")
_Ranks = tuple[tuple[int, ...], ...]
# Kind and channel.
_Mark = tuple[str, str]

# Nothing that a collective could hide behind.
_IDLE = {
    *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "copy"),
    *("partition-id", "replica-id", "opt-barrier", "iota", "broadcast", "recv"),
}
_IDLE_TARGETS = re.compile(
    r'custom_call_target="(?:PrepareAsyncCall|AllocateBuffer|ConcatBitcast|AsyncCollective)'
)

# Programs nest a few computations deep; beyond this a text is none of a compiler's.
_MOST_DEPTH = 100
# Axes of a mesh are tried in all combinations, and groups of ranks are compared one by one.
_MOST_AXES, _MOST_RANKS = 8, 65_536
# Beyond any rank's memory, and beyond what a step of any length runs.
_MOST = 10**15
# How many operands are searched for a source.
_MOST_OPERANDS = 64


class ProgramError(ValueError):
    """A text that is no optimised HLO."""


def read(text: str, mesh: Mesh | None = None, root: str = "") -> Uses:
    """The collectives of a step, the largest first; `mesh` is what the program calls its axes.

    `root` is the folder that sources are shown from. Raises ProgramError.
    """
    end = _HEAD_END.search(text)
    head = text[: end.start()] if end else ""
    try:
        module = read_module(_WRAPPED.sub(r"\1 ", text))
        reader = _Reader(
            module=module,
            mesh=mesh or {},
            ranks=_ranks_of(head),
            frames=frames.read(head, root),
            trips=Trips(module),
        )
        found = [count.of(use) for use, count in reader.of(module.entry).items()]
    except ProgramError:
        raise
    # Of a number in the text: nothing else is converted.
    except ValueError as error:
        raise ProgramError(f"a number in it cannot be read: {str(error)[:100]}") from error
    if not module.entry:
        raise ProgramError("it has no ENTRY computation: this is no optimised HLO")
    return tuple(sorted(found, key=lambda one: (-one.payload_bytes, one.name, one.source)))


def _ranks_of(head: str) -> int:
    """How many take part: replicas times partitions, one where the head names neither."""
    return math.prod(min(int(count), _MOST_RANKS) for count in _COUNTS.findall(head))


def mesh_of(lowered: str) -> dict[str, int]:
    """The names and extents of the mesh that a program was written for; empty where it has none.

    `lowered` is its StableHLO, in which a mesh of all ranks is the first one.
    """
    found = [dict(_EXTENT.findall(text)) for text in _MESH.findall(lowered)]
    meshes = [{name: int(extent) for name, extent in one.items()} for one in found if one]
    return max(meshes, key=lambda one: math.prod(one.values()), default={})


class _Count(NamedTuple):
    """How often they run, and of the one that hides least the operations that it hides behind."""

    times: int
    between: tuple[tuple[str, int], ...] = ()
    op_name: str = ""

    def with_other(self, other: _Count) -> _Count:
        least = min(self, other, key=lambda one: sum(count for _, count in one.between))
        return self._replace(times=min(self.times + other.times, _MOST), between=least.between)

    def of(self, use: Use) -> Use:
        return replace(use, times=self.times, between=dict(self.between), op_name=self.op_name)


# By a Use that has nothing of what its _Count has.
_Found = dict[Use, _Count]


class _Part(enum.Enum):
    WHOLE = "whole"
    BEGINS = "begins"
    GOES_ON = "goes on"
    ENDS = "ends"


@dataclass
class _Open:
    """A collective that was started: what it is, and where in its computation."""

    at: int
    found: _Found
    marks: set[_Mark]


@dataclass
class _Reader:
    module: Module
    mesh: Mesh
    ranks: int
    frames: frames.Frames
    trips: Trips
    _done: dict[str, _Found] = field(default_factory=dict)
    _under_way: list[str] = field(default_factory=list)
    _axes: dict[object, str] = field(default_factory=dict)

    def of(self, name: str) -> _Found:
        """What a run of this computation runs. Raises ProgramError."""
        if name not in self._done:
            if name in self._under_way or len(self._under_way) > _MOST_DEPTH:
                raise ProgramError(f"the computation {name[:60]} calls itself, or nests too deep")
            self._under_way.append(name)
            self._done[name] = self._read(name)
            self._under_way.pop()
        return self._done[name]

    def _read(self, name: str) -> _Found:
        found: _Found = {}
        opened: dict[str, _Open] = {}
        lines = self.module.computations.get(name, ())
        for at, line in enumerate(lines):
            if line.op in ("while", "conditional"):
                _merge(found, self._of_branches(name, line))
                continue
            begun = [opened[one] for one in line.operands if one in opened] if opened else []
            under_way = {mark for one in begun for mark in one.marks}
            part = self._part(line, under_way)
            if part is _Part.BEGINS:
                own = self._placed(name, line, self._started(line))
                opened[_bare(line)] = _Open(at, own, self._marks(line))
            elif part is _Part.WHOLE:
                _merge(found, self._placed(name, line, self._own(line)))
            elif begun and part is _Part.ENDS:
                _merge(found, _closed(begun[0], lines[begun[0].at + 1 : at]))
                opened = {n: one for n, one in opened.items() if one is not begun[0]}
            elif begun and (part is _Part.GOES_ON or line.op in _CARRIES):
                opened[_bare(line)] = begun[0]
        # Of what is awaited in another computation nothing is known to be hidden.
        for one in {one.at: one for one in opened.values()}.values():
            _merge(found, _closed(one, ()))
        return found

    def _part(self, line: Instruction, under_way: set[_Mark]) -> _Part | None:
        """Which part of a collective `line` is, if any; those it takes from are `under_way`."""
        if line.collective:
            begins = line.op.endswith("-start") or line.op == "send"
            return _Part.BEGINS if begins else _Part.WHOLE
        if line.op.endswith(("-done", "-update")):
            return _Part.ENDS if line.op.endswith("-done") else _Part.GOES_ON
        callees = line.called if line.op in _CALLS or line.op.endswith("-start") else ()
        if not any(self.of(one) for one in callees):
            return None
        if line.op != "fusion":
            return _Part.BEGINS if line.op.endswith("-start") else _Part.WHOLE
        within = self._within(line)
        if any(_BEGINS in one.text for one in within):
            return _Part.BEGINS
        if any(_ENDS in one.text for one in within):
            return _Part.ENDS
        return _Part.WHOLE if under_way.isdisjoint(self._marks(line)) else _Part.GOES_ON

    def _within(self, line: Instruction) -> list[Instruction]:
        return [one for name in line.called for one in self.module.computations.get(name, ())]

    def _marks(self, line: Instruction) -> set[_Mark]:
        """What the parts of one collective have in common, of those directly in a fusion."""
        lines = self._within(line) if line.op == "fusion" else []
        return {(one.collective, _channel_of(one)) for one in lines if one.collective}

    def _of_branches(self, name: str, line: Instruction) -> _Found:
        """Of a loop's turns, and of each branch that may be taken."""
        found: _Found = {}
        if line.op == "conditional":
            for several, one in _BRANCHES.findall(line.text):
                for branch in (several or one).split(","):
                    for key, count in self.of(branch.strip().lstrip("%")).items():
                        _merge(found, {replace(key, at_most=True): count})
            return found
        parts = dict(_LOOP.findall(line.text))
        inside = [self.of(parts[one]) for one in ("body", "condition") if one in parts]
        if not any(inside):
            return found
        trips = self.trips.of(name, line)
        for of_part, times in zip(inside, (trips, trips and trips + 1)):
            for key, count in of_part.items():
                if times is None:
                    _merge(found, {replace(key, per_iteration=True): count})
                elif times:
                    _merge(found, {key: count._replace(times=min(count.times * times, _MOST))})
        return found

    def _started(self, line: Instruction) -> _Found:
        """Of a fusion what feeds the call that starts it; its other collectives went on."""
        own: _Found = {}
        if line.op != "fusion":
            own = self._own(line)
        else:
            within = {_bare(one): one for one in self._within(line)}
            fed = [name for one in within.values() if _BEGINS in one.text for name in one.operands]
            for name in fed:
                if name in within and within[name].collective:
                    _merge(own, self._with_origin(line, self._collective(within[name])))
        waits = line.is_waited_for_at_once
        return {replace(key, asynchronous=not waits): count for key, count in own.items()}

    def _own(self, line: Instruction) -> _Found:
        if line.collective:
            return self._collective(line)
        found: _Found = {}
        for name in line.called:
            scattered = line.op == "fusion" and self._scatters(name)
            for key, count in self._with_origin(line, self.of(name)).items():
                kind = "reduce_scatter" if scattered and key.kind == "all_reduce" else key.kind
                _merge(found, {replace(key, kind=kind): count})
        return found

    def _scatters(self, name: str) -> bool:
        """Whether a fusion gives of its all-reduce each rank's part alone."""
        lines = self.module.computations.get(name, ())
        summed = [one for one in lines if one.collective == "all-reduce"]
        if len(summed) != 1 or not any(one.op == "dynamic-slice" for one in lines):
            return False
        ranks, *_ = self._groups(summed[0])
        return sum(lines[-1].array_bytes) * ranks == sum(summed[0].array_bytes)

    def _placed(self, name: str, line: Instruction, found: _Found) -> _Found:
        """Where a compiler noted no source, that of the nearest operand which has one."""
        if all(key.source for key in found):
            return found
        lines = {_bare(one): one for one in self.module.computations[name]}
        names, source = [*line.operands], ""
        while names and not source and len(names) < _MOST_OPERANDS:
            one = lines.get(names.pop(0))
            if one is not None:
                source = self.frames.source_of(one.text)
                names += one.operands
        placed: _Found = {}
        for key, count in found.items():
            _merge(placed, {replace(key, source=key.source or source): count})
        return placed

    def _with_origin(self, line: Instruction, found: _Found) -> _Found:
        """With source, name and algorithm of the instruction that calls it, where it has none."""
        source, name = self.frames.source_of(line.text), frames.op_name_of(line.text)
        chosen = algorithm_of([line])
        return {
            replace(
                key, source=key.source or source, algorithm=key.algorithm or chosen
            ): count._replace(op_name=count.op_name or name)
            for key, count in found.items()
        }

    def _collective(self, line: Instruction) -> _Found:
        ranks, groups, axes = self._groups(line)
        arrays = _arrays(line)
        whole = ranks if line.collective == "reduce-scatter" else 1
        sizes = tuple(min(size * whole, _MOST) for _, size in arrays)
        # What an all-to-all gives is one buffer, cut up for each rank.
        parts = sizes if len(sizes) > 1 and line.collective != "all-to-all" else ()
        key = Use(
            kind=_KINDS.get(line.collective, line.collective),
            dtype="+".join(sorted({name for name, _ in arrays})),
            payload_bytes=min(sum(sizes), _MOST),
            ranks=ranks,
            groups=groups,
            axes=axes,
            reduce_op=self._reduce_op(line),
            parts=parts,
            algorithm=algorithm_of([line]),
            source=self.frames.source_of(line.text),
        )
        return {key: _Count(1, op_name=frames.op_name_of(line.text))}

    def _reduce_op(self, line: Instruction) -> str:
        """What the computation that it applies does last."""
        applied = [one for name in line.called for one in self.module.computations.get(name, ())]
        return _REDUCE_OPS.get(applied[-1].op, applied[-1].op) if applied else ""

    def _groups(self, line: Instruction) -> tuple[int, int, str]:
        """(ranks of a group, groups, axes of the mesh that it runs along)."""
        pairs = pairs_of(line.text)
        if pairs is not None:
            moved = {rank for pair in pairs for rank in pair}
            axes = self._named(pairs, _along_pairs)
            if not axes:
                return len(moved), 0, ""
            rings = self.ranks // self.mesh[axes]
            return self.mesh[axes], rings if _are_rings(self.mesh, axes, pairs) else 0, axes
        size = group_size_of(line.text)
        if size is None and unread_groups_of(line.text):
            # Of unequal groups the largest; of what no parser reads nothing is known.
            sizes = [len(group) for group in groups_of(line.text, self.ranks) or ()]
            return max(sizes, default=0), len(sizes), ""
        if size is None and _LOST_GROUPS.search(line.text):
            return 0, 0, ""
        if size is None:
            return self.ranks, 1, ",".join(self.mesh) if self._fits else ""
        if size.ranks > _MOST_RANKS:
            return size.size, size.groups, ""
        groups = groups_of(line.text, self.ranks) or ()
        return size.size, size.groups, self._named(tuple(groups), _along_groups)

    @property
    def _fits(self) -> bool:
        few = self.ranks <= _MOST_RANKS and len(self.mesh) <= _MOST_AXES
        return few and math.prod(self.mesh.values()) == self.ranks

    def _named(self, which: _Ranks, along: Callable[[Mesh, _Ranks], str]) -> str:
        if which not in self._axes:
            self._axes[which] = along(self.mesh if self._fits else {}, which)
        return self._axes[which]


def _along_groups(mesh: Mesh, groups: _Ranks) -> str:
    """The fewest axes that make up these groups, or how else they lie; empty for neither."""
    wanted = {tuple(sorted(group)) for group in groups}
    size, ranks = len(groups[0]) if groups else 0, sum(map(len, groups))
    names = [name for name, extent in mesh.items() if extent > 1]
    for count in range(1, len(names) + 1):
        for some in itertools.combinations(names, count):
            fits = math.prod(mesh[name] for name in some) == size
            if fits and set(_groups_along(mesh, some)) == wanted:
                return ",".join(some)
    if 1 < size < ranks:
        for mesh, how in (
            ({"": ranks // size, CONSECUTIVE: size}, CONSECUTIVE),
            ({STRIDED: size, "": ranks // size}, STRIDED),
        ):
            if set(_groups_along(mesh, (how,))) == wanted:
                return how
    return ""


def _groups_along(mesh: Mesh, names: Sequence[str]) -> Iterator[tuple[int, ...]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    outer = [at for at, name in enumerate(mesh) if name not in names]
    for rank, place in enumerate(itertools.product(*map(range, mesh.values()))):
        groups.setdefault(tuple(place[at] for at in outer), []).append(rank)
    return map(tuple, groups.values())


def _along_pairs(mesh: Mesh, pairs: _Ranks) -> str:
    """The one axis that all pairs go along; empty where there is none."""
    for name in mesh:
        groups = {
            rank: at for at, group in enumerate(_groups_along(mesh, (name,))) for rank in group
        }
        if pairs and all(groups.get(a) == groups.get(b) for a, b in pairs):
            return name
    return ""


def _are_rings(mesh: Mesh, axis: str, pairs: _Ranks) -> bool:
    """Whether every rank sends to the next one along `axis`, or every one to the one before."""
    groups = list(_groups_along(mesh, (axis,)))
    onwards = {pair for group in groups for pair in zip(group, (*group[1:], group[0]))}
    return set(pairs) in (onwards, {(b, a) for a, b in onwards})


def _merge(found: _Found, more: _Found) -> None:
    for key, count in more.items():
        found[key] = found[key].with_other(count) if key in found else count


def _closed(begun: _Open, meanwhile: Sequence[Instruction]) -> _Found:
    """With the operations between its start and its end; where there are none it is waited for."""
    work = Counter(one.op for one in meanwhile if _works(one))
    found: _Found = {}
    for key, count in begun.found.items():
        if key.asynchronous and work:
            _merge(found, {key: count._replace(between=tuple(sorted(work.items())))})
        else:
            _merge(found, {replace(key, asynchronous=False): count})
    return found


def _works(line: Instruction) -> bool:
    idle = line.op in _IDLE or line.op.endswith(("-start", "-done", "-update"))
    return not idle and not _IDLE_TARGETS.search(line.text)


def _channel_of(line: Instruction) -> str:
    found = _CHANNEL.search(line.text)
    return found[1] if found else ""


def _bare(line: Instruction) -> str:
    return line.name.lstrip("%")


def _arrays(line: Instruction) -> list[tuple[str, int]]:
    """(dtype, bytes) of each array that a collective gives: of a start not what it takes."""
    shape = _COMMENT.sub("", line.shape)
    elements = _elements(shape)
    if line.op == "send":
        shape = elements[0] if elements else shape
    elif line.op.endswith("-start") and (line.collective != "all-reduce" or shape.startswith("((")):
        shape = elements[1] if len(elements) > 1 else shape
    return [
        (_dtype(name), _size(extents) * int(bits or 8) // 8)
        for name, bits, extents in _ARRAY.findall(shape)
        if name != "token"
    ]


def _size(extents: str) -> int:
    found = 1
    for word in filter(None, extents.split(",")):
        found = min(found * min(int(word[:16]), _MOST), _MOST)
    return found


def _elements(shape: str) -> list[str]:
    """Those of a tuple, each whole; none of what is no tuple."""
    if not shape.startswith("("):
        return []
    found, depth, begin = [], 0, 1
    for at, letter in enumerate(shape):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if (letter == "," and depth == 1) or (letter == ")" and depth == 0):
            found.append(shape[begin:at])
            begin = at + 1
    return found


def _dtype(name: str) -> str:
    """``bf16`` as bfloat16, ``f8e4m3fn`` as float8_e4m3fn; others as XLA has them."""
    if name == "pred":
        return "bool"
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return name
    return f"{_WORDS[found[1]]}{found[2]}" + (f"_{found[3]}" if found[3] else "")
