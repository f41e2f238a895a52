"""Which collective an event is or belongs to: by what the profiler noted, then by its name.

XLA names an instruction after where it came from: a copy may be called ``all_gather.5``. So the
operation in its text decides, then its category, then on a GPU the instruction that a kernel
belongs to; the name, matched as a whole, only where none of these is noted. What is certainly a
collective, but of no known kind, is UNKNOWN.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import GroupSize, group_size_of, unread_groups_of

from .event import Event, Stats, device_of_plane
from .instruction import TEXTS, NotedInstruction, instruction_of, nccl_bytes, payload_bytes

UNKNOWN = "unknown"

_NOTED = (*TEXTS, "hlo_category", "tf_op")
# Stats that can make an event a collective although its name does not.
_DECISIVE = frozenset((*TEXTS, "hlo_category"))
# Asynchronous calls and custom calls of users and libraries: their names may say what they are.
_NAMED_FREELY = {"async-start", "async-done", "custom-call"}
# No collective, whatever such an instruction is called. The category of a fusion of one says so.
_PLAIN = re.compile(
    r"(?:.* )?fusion|copy(?:-start|-done)?|data formatting|non-fusion elementwise|broadcast|convert"
    r"|reduce|reshape|transpose|bitcast|slice(?:-start|-done)?|dynamic-(?:update-)?slice"
    r"|while|call|conditional"
)
_COLLECTIVE = re.compile(r"collective|all-(?:reduce|gather|to-all)|reduce-scatter")
_OFFLOADED = '"OFFLOAD_COLLECTIVE"'
_MEMORY_OPERATION = re.compile(r"Mem(?:cpy|set)")


def _kinds(words: str) -> Mapping[str, str]:
    return {word: one.name for one in COLLECTIVES.values() for word in getattr(one, words)}


_INSTRUCTIONS, _NODES = _kinds("instructions"), _kinds("nodes")
_KERNELS, _FUSIONS = _kinds("kernels"), _kinds("fusions")
# Collectives whose kernels also run other ones.
_SHARED = {one.name for one in COLLECTIVES.values() if one.kernels_are_shared}

# What XLA appends to copies of an instruction, and within a fusion over both cores of a chip.
_COPY = r"(?:\.(?:\d+|cloned?|remat\d*|in_megacore_fusion))*"
_INSTRUCTION = re.compile(
    rf"%?(?P<op>[A-Za-z][A-Za-z_-]*?)(?:-fusion)?(?P<phase>-start|-done)?(?P<number>{_COPY})"
    # On a SparseCore, such as all-reduce.2.cloned.1.call-start.
    r"(?:\.call-(?P<call>start|update|done)(?P<again>(?:\.\d+)*))?"
)
_NODE = re.compile(r"(?:(?P<node>.*):)?(?P<op>[A-Z]\w*?)(?:_\d+)?")
# ncclDevKernel_AllReduce_Sum_f32_RING_LL(...), and ncclAllReduceRingLLKernel_sum_f32 before 2.12;
# on symmetric memory ncclSymDevKernel_... (2.27) and ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32
_KERNEL = re.compile(
    r"nccl(?:(?:(?:Symk?)?Dev)?Kernel(?:Debug)?_(?P<op>[A-Za-z]+)"
    r"|(?P<old>[A-Z][a-z]+[A-Z][a-z]+)(?![a-z])\w*Kernel)"
)
# Kernels that may run any collective: NCCL's where it was built with few of them, and RCCL's.
_ANY_KERNEL = re.compile(r"nccl(?:Dev)?Kernel(?:Debug)?_Generic|mscclKernel_")
# What a fusion calls, and its category, where a collective is in it.
_CALLED = re.compile(r"%?(?P<called>[a-z-]+)(?:\.(?:\d+|cloned?))*")
# A computation that runs at the same time as others, for example on a TPU's SparseCore.
_ASYNC_CALL = re.compile(
    r"%?(?P<op>(?:sparse-?core-)?call(?=-)|async(?=-[sd])|async-collective)"
    rf"-(?P<phase>start|update|done)(?P<number>{_COPY})"
)


class Phase(enum.Enum):
    """A collective on a SparseCore may be started first and get its data later, by an update."""

    WHOLE = "whole"
    START = "start"
    UPDATE = "update"
    DONE = "done"


class Source(enum.IntEnum):
    """What wrote the name; where several did for one device, the lowest counts."""

    KERNEL = 0
    INSTRUCTION = 1
    NODE = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Recognized:
    """What a name says, or name and stats together.

    `kind` is "" where only the stats can say it, and for one part of an asynchronous call, whose
    other part may have a kind. `number` pairs a start with its done. Of a name: unless `sure`, the
    stats also say whether this is a collective at all; `is_shared`: the same name may stand for
    other collectives, which the stats then say.
    """

    kind: str
    source: Source
    phase: Phase = Phase.WHOLE
    number: str = ""
    payload_bytes: int | None = None
    groups: GroupSize | None = None
    unread_groups: str = ""
    sure: bool = True
    is_shared: bool = False


class Recognizer:
    """Recognizes events, and caches the answers: programs repeat themselves."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Recognized | None] = {}
        self._categories: dict[str, bool] = {}

    def recognize(self, event: Event) -> Recognized | None:
        stats = event.stats
        key: tuple[object, ...] = (event.name, event.plane)
        if stats:
            key = (*key, *map(stats.get, _NOTED))
        if key not in self._known:
            self._known[key] = _recognized(event.name, event.plane, stats)
        found = self._known[key]
        if found is not None and "dtype" in stats and found.payload_bytes is None:
            return replace(found, payload_bytes=nccl_bytes(stats))
        return found

    def may_be_collective(self, name: str, plane: str, stats: Stats) -> bool:
        """By its stats, which may be any that a file held; a category is usually enough."""
        if _DECISIVE.isdisjoint(stats):
            return False
        category = stats.get("hlo_category")
        if isinstance(category, str):
            if category not in self._categories:
                has_kind = bool(_first_kind(category.split()) or _unknown_kind(category))
                self._categories[category] = has_kind or category in _NAMED_FREELY
            if not self._categories[category]:
                return False
        return _recognized(name, plane, stats) is not None


def _recognized(name: str, plane: str, stats: Stats) -> Recognized | None:
    """Stats count only for what a device did: on a host many events note others' instructions."""
    parsed = parse_name(name)
    if plane and device_of_plane(plane) is None:
        return _by_name(parsed, stats)
    if parsed is None or parsed.source is not Source.KERNEL:
        found = instruction_of(stats)
        if found is not None:
            return _by_instruction(found, parsed, name, stats)
        if stats.get("hlo_category"):
            return _by_category(str(stats["hlo_category"]), parsed, name, stats)
    belongs = str(stats.get("hlo_op", ""))
    if belongs and not name.lstrip("%").startswith(belongs):
        return _of_kernel(belongs, parsed, name, stats)
    return _by_name(parsed, stats)


def _by_name(parsed: Recognized | None, stats: Stats) -> Recognized | None:
    """By the name, and by the stats where it is ambiguous: NCCL sends everything in one kernel."""
    if parsed is None:
        return None
    is_open = not parsed.kind or parsed.is_shared
    kind = (_first_kind(_words(stats)) if is_open else "") or parsed.kind
    return replace(parsed, kind=kind or (UNKNOWN if parsed.sure else ""))


def _by_instruction(
    found: NotedInstruction, parsed: Recognized | None, name: str, stats: Stats
) -> Recognized | None:
    kind, by_op = _kind_of_instruction(found, parsed, stats), parse_name(found.op)
    if not kind and (by_op is None or parsed is None):
        return None
    phase = by_op.phase if by_op is not None else Phase.WHOLE
    if found.op == "custom-call" and parsed is not None:
        phase = parsed.phase
    begun = parse_name(found.operand) if phase is Phase.DONE else None
    paired = begun if begun is not None and begun.phase in (Phase.START, Phase.UPDATE) else parsed
    return Recognized(
        kind=kind,
        source=Source.INSTRUCTION,
        phase=phase,
        number=paired.number if paired is not None else name,
        payload_bytes=payload_bytes(kind, found),
        groups=group_size_of(found.attributes),
        unread_groups=unread_groups_of(found.attributes),
    )


def _kind_of_instruction(found: NotedInstruction, parsed: Recognized | None, stats: Stats) -> str:
    """UNKNOWN for what is certainly a collective, "" for what is not known to be one."""
    category = str(stats.get("hlo_category", ""))
    by_op = parse_name(found.op)
    if by_op is not None and by_op.kind:
        return by_op.kind
    if found.op == "custom-call":
        return parsed.kind if parsed is not None else ""
    if found.op == "fusion":
        return _first_kind((*category.split(), *found.called)) or _unknown_kind(category)
    if by_op is None:
        return _unknown_kind(found.op)
    of_name = parsed.kind if parsed is not None else ""
    kind = of_name or _first_kind((*category.split(), *found.called, *_words(stats)))
    sure = _OFFLOADED in found.attributes or (parsed is not None and parsed.sure)
    return kind or (UNKNOWN if sure else _unknown_kind(category))


def _by_category(
    category: str, parsed: Recognized | None, name: str, stats: Stats
) -> Recognized | None:
    if category in _NAMED_FREELY:
        return _by_name(parsed, stats)
    kind = _first_kind(category.split()) or _unknown_kind(category)
    if not kind:
        return None if _PLAIN.fullmatch(category) else _by_name(parsed, stats)
    of_category = parse_name(category.split()[0])
    phase = parsed.phase if parsed else of_category.phase if of_category else Phase.WHOLE
    number = parsed.number if parsed else name.replace("-done", "-start")
    return Recognized(kind=kind, source=Source.INSTRUCTION, phase=phase, number=number)


def _of_kernel(
    belongs: str, parsed: Recognized | None, name: str, stats: Stats
) -> Recognized | None:
    instruction = parse_name(belongs)
    if instruction is None or not instruction.kind:
        return _by_name(parsed, stats)
    if _MEMORY_OPERATION.match(name):
        return None
    return Recognized(kind=instruction.kind, source=Source.KERNEL)


def _unknown_kind(text: str) -> str:
    return UNKNOWN if _COLLECTIVE.search(text) else ""


def _words(stats: Stats) -> Iterator[str]:
    yield from str(stats.get("hlo_category", "")).split()
    yield str(stats.get("hlo_op", ""))
    yield str(stats.get("tf_op", "")).rstrip(":").rsplit("/", 1)[-1]


def _first_kind(words: Iterable[str]) -> str:
    for word in words:
        parsed = parse_name(word)
        fused = _CALLED.fullmatch(word)
        kind = (parsed and parsed.kind) or (fused and _FUSIONS.get(fused["called"]))
        if kind:
            return kind
    return ""


@functools.lru_cache(maxsize=4096)
def parse_name(name: str) -> Recognized | None:
    short = name.split(" = ", 1)[0].strip()
    return _kernel(short) or _async_call(short) or _instruction(short) or _node(short)


def _kernel(name: str) -> Recognized | None:
    if _ANY_KERNEL.match(name):
        return Recognized(kind="", source=Source.KERNEL)
    match = _KERNEL.match(name)
    kind = _KERNELS.get(match["op"] or match["old"]) if match else None
    if kind is None:
        return None
    return Recognized(kind=kind, source=Source.KERNEL, is_shared=kind in _SHARED)


def _async_call(name: str) -> Recognized | None:
    match = _ASYNC_CALL.fullmatch(name)
    if match is None:
        return None
    phase, number = Phase(match["phase"]), f"{match['op']}{match['number']}"
    sure = match["op"] == "async-collective"
    return Recognized(kind="", source=Source.INSTRUCTION, phase=phase, number=number, sure=sure)


def _instruction(name: str) -> Recognized | None:
    match = _INSTRUCTION.fullmatch(name)
    kind = _INSTRUCTIONS.get(match["op"].replace("_", "-")) if match else None
    if match is None or kind is None:
        return None
    part = match["call"] or (match["phase"] or "")[1:]
    phase = Phase(part) if part else Phase.WHOLE
    number = f"{match['op']}{match['number']}{match['again'] or ''}"
    return Recognized(kind=kind, source=Source.INSTRUCTION, phase=phase, number=number)


def _node(name: str) -> Recognized | None:
    """A TensorFlow node: ``<node>:<op>``, or its path, which ends with the op."""
    match = _NODE.fullmatch(name if ":" in name else name.rsplit("/", 1)[-1])
    kind = _NODES.get(match["op"]) if match else None
    return Recognized(kind=kind, source=Source.NODE) if kind else None
