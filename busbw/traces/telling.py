"""What an event is of a collective: by what the profiler noted of it, and only then by its name.

XLA names an instruction after where it came from: a copy may be called ``all_gather.5``, a
reduce-scatter ``fusion.635``. The operation in the instruction's own text decides, then its
category, on a GPU the instruction that a kernel belongs to, and the name where none of these is
noted. What surely is a collective, of a kind that nothing tells, has the kind UNKNOWN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from busbw.collectives import replica_groups
from busbw.collectives.replica_groups import GroupSize

from .attribution import device_of_plane
from .event import Event, Stats
from .instruction import TEXTS, NotedInstruction, instruction_of, nccl_bytes, payload_bytes
from .names import Naming, Phase, Source, naming, of_fusion

UNKNOWN = "unknown"

_NOTED = (*TEXTS, "hlo_category", "tf_op")
# What can make an event one whose name does not.
_TELLING = frozenset((*TEXTS, "hlo_category"))
# What runs aside, and what users and libraries bring along: the name may say what it is.
_NAMED_FREELY = {"async-start", "async-done", "custom-call"}
# No collective, whatever such an instruction is called. A fusion of one says so.
_PLAIN = re.compile(
    r"(?:.* )?fusion|copy(?:-start|-done)?|data formatting|non-fusion elementwise|broadcast|convert"
    r"|reduce|reshape|transpose|bitcast|slice(?:-start|-done)?|dynamic-(?:update-)?slice"
    r"|while|call|conditional"
)
_COLLECTIVE = re.compile(r"collective|all-(?:reduce|gather|to-all)|reduce-scatter")
_BEGUN = (Phase.START, Phase.UPDATE)
_OFFLOADED = '"OFFLOAD_COLLECTIVE"'
_MOVED = re.compile(r"Mem(?:cpy|set)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What an event is of a collective, with its payload and its groups where these are noted.

    `kind` is "" for a part of something that runs aside, which the other part may tell to be one.
    """

    kind: str
    source: Source
    phase: Phase = Phase.WHOLE
    number: str = ""
    payload_bytes: int | None = None
    groups: GroupSize | None = None


class Telling:
    """Tells events apart; what was found once is kept, for programs repeat themselves."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Told | None] = {}
        self._categories: dict[str, bool] = {}

    def of(self, event: Event) -> Told | None:
        """What `event` is of a collective; None for another thing."""
        stats = event.stats
        key: tuple[object, ...] = (event.name, event.plane)
        if stats:
            key = (*key, *map(stats.get, _NOTED))
        if key not in self._known:
            self._known[key] = _told(event.name, event.plane, stats)
        found = self._known[key]
        if found is not None and "dtype" in stats and found.payload_bytes is None:
            return replace(found, payload_bytes=nccl_bytes(stats))
        return found

    def may_be_one(self, name: str, plane: str, stats: Stats) -> bool:
        """Whether an event whose name says nothing may be one, by its stats.

        These may be any that a file held. A category mostly says enough, and there are few of them.
        """
        if _TELLING.isdisjoint(stats):
            return False
        category = stats.get("hlo_category")
        if isinstance(category, str):
            if category not in self._categories:
                said = bool(_first_kind(category.split()) or _unknown(category))
                self._categories[category] = said or category in _NAMED_FREELY
            if not self._categories[category]:
                return False
        return _told(name, plane, stats) is not None


def _told(name: str, plane: str, stats: Stats) -> Told | None:
    """Only what a device did itself is looked at beyond its name.

    On a host many events note the instruction that they have to do with.
    """
    said = naming(name)
    if plane and device_of_plane(plane) is None:
        return _by_name(said, stats)
    if said is None or said.source is not Source.KERNEL:
        found = instruction_of(stats)
        if found is not None:
            return _by_instruction(found, said, name, stats)
        if stats.get("hlo_category"):
            return _by_category(str(stats["hlo_category"]), said, name, stats)
    belongs = str(stats.get("hlo_op", ""))
    if belongs and not name.lstrip("%").startswith(belongs):
        return _of_kernel(belongs, said, name, stats)
    return _by_name(said, stats)


def _by_name(said: Naming | None, stats: Stats) -> Told | None:
    """What the name leaves open, the stats may tell: NCCL has one kernel for all that sends."""
    if said is None:
        return None
    is_open = not said.kind or said.is_of_several
    kind = (_first_kind(_words(stats)) if is_open else "") or said.kind
    if not kind and said.sure:
        kind = UNKNOWN
    return Told(kind=kind, source=said.source, phase=said.phase, number=said.number)


def _by_instruction(
    found: NotedInstruction, said: Naming | None, name: str, stats: Stats
) -> Told | None:
    kind, by_op = _kind_of_instruction(found, said, stats), naming(found.op)
    if not kind and (by_op is None or said is None):
        return None
    phase = by_op.phase if by_op is not None else Phase.WHOLE
    if found.op == "custom-call" and said is not None:
        phase = said.phase
    begun = naming(found.operand) if phase is Phase.DONE else None
    paired = begun if begun is not None and begun.phase in _BEGUN else said
    return Told(
        kind=kind,
        source=Source.INSTRUCTION,
        phase=phase,
        number=paired.number if paired is not None else name,
        payload_bytes=payload_bytes(kind, found),
        groups=replica_groups.group_size_of(found.attributes),
    )


def _kind_of_instruction(found: NotedInstruction, said: Naming | None, stats: Stats) -> str:
    """By the operation; what runs aside is by what it calls, a fusion by its category, too.

    UNKNOWN for what surely is a collective, "" for what is not known to be one.
    """
    category = str(stats.get("hlo_category", ""))
    by_op = naming(found.op)
    if by_op is not None and by_op.kind:
        return by_op.kind
    if found.op == "custom-call":
        return said.kind if said is not None else ""
    if found.op == "fusion":
        return _first_kind((*category.split(), *found.called)) or _unknown(category)
    if by_op is None:
        return _unknown(found.op)
    of_name = said.kind if said is not None else ""
    kind = of_name or _first_kind((*category.split(), *found.called, *_words(stats)))
    sure = _OFFLOADED in found.attributes or (said is not None and said.sure)
    return kind or (UNKNOWN if sure else _unknown(category))


def _by_category(category: str, said: Naming | None, name: str, stats: Stats) -> Told | None:
    if category in _NAMED_FREELY:
        return _by_name(said, stats)
    kind = _first_kind(category.split()) or _unknown(category)
    if not kind:
        return None if _PLAIN.fullmatch(category) else _by_name(said, stats)
    of_category = naming(category.split()[0])
    phase = said.phase if said else of_category.phase if of_category else Phase.WHOLE
    number = said.number if said else name.replace("-done", "-start")
    return Told(kind=kind, source=Source.INSTRUCTION, phase=phase, number=number)


def _of_kernel(belongs: str, said: Naming | None, name: str, stats: Stats) -> Told | None:
    """A kernel, by the instruction that it belongs to; copies beside it are no collective."""
    instruction = naming(belongs)
    if instruction is None or not instruction.kind:
        return _by_name(said, stats)
    return None if _MOVED.match(name) else Told(kind=instruction.kind, source=Source.KERNEL)


def _unknown(text: str) -> str:
    return UNKNOWN if _COLLECTIVE.search(text) else ""


def _words(stats: Stats) -> Iterator[str]:
    """What the stats say beside the instruction's own text."""
    yield from str(stats.get("hlo_category", "")).split()
    yield str(stats.get("hlo_op", ""))
    yield str(stats.get("tf_op", "")).rstrip(":").rsplit("/", 1)[-1]


def _first_kind(words: Iterable[str]) -> str:
    """The first kind that one of the words is the name of; "" for none."""
    for word in words:
        said = naming(word)
        if said is not None and said.kind:
            return said.kind
        if of_fusion(word):
            return of_fusion(word)
    return ""
