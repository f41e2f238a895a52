"""What an event's name says of a collective: its kind, and whether it is only a part of one.

Collectives have borne many names: those of XLA's instructions, of TensorFlow's nodes, of JAX's
primitives (XLA names an instruction after where it came from) and of NCCL's and RCCL's kernels. A
name is taken whole: what merely holds such a word is another thing. Knows no stats, lines or times.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.collectives import COLLECTIVES

_INSTRUCTIONS: Mapping[str, str] = {
    word: one.name for one in COLLECTIVES.values() for word in one.instructions
}
_NODES: Mapping[str, str] = {word: one.name for one in COLLECTIVES.values() for word in one.nodes}
_KERNELS: Mapping[str, str] = {
    word: one.name for one in COLLECTIVES.values() for word in one.kernels
}
# Those whose kernels run others as well.
_SHARED = {one.name for one in COLLECTIVES.values() if one.kernels_are_shared}
_FUSIONS: Mapping[str, str] = {
    word: one.name for one in COLLECTIVES.values() for word in one.fusions
}

# What XLA appends: of a copy of an instruction, of one within a fusion over both cores of a chip.
_COPY = r"(?:\.(?:\d+|cloned?|remat\d*|in_megacore_fusion))*"
_INSTRUCTION = re.compile(
    rf"%?(?P<op>[A-Za-z][A-Za-z_-]*?)(?:-fusion)?(?P<phase>-start|-done)?(?P<number>{_COPY})"
    # Of one that a SparseCore runs, such as all-reduce.2.cloned.1.call-start.
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
# A computation that runs beside the others, on a TPU's SparseCore for one.
_ASIDE = re.compile(
    r"%?(?P<op>(?:sparse-?core-)?call(?=-)|async(?=-[sd])|async-collective)"
    rf"-(?P<phase>start|update|done)(?P<number>{_COPY})"
)


class Phase(enum.Enum):
    """Which part of a collective an event is.

    What a SparseCore is to run may be started first and given its data later, with an update.
    """

    WHOLE = "whole"
    START = "start"
    UPDATE = "update"
    DONE = "done"


class Source(enum.IntEnum):
    """What wrote the name; where several did for one device, the first is the true one."""

    KERNEL = 0
    INSTRUCTION = 1
    NODE = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """What a name says.

    `kind` is "" where only the stats can tell it, and whether it is a collective at all unless
    that is `sure`; `number` tells pairs of a start and its done apart. `is_of_several`: what has
    this name runs other collectives, too, unless the stats tell another one.
    """

    kind: str
    source: Source
    phase: Phase = Phase.WHOLE
    number: str = ""
    sure: bool = True
    is_of_several: bool = False


@functools.lru_cache(maxsize=4096)
def naming(name: str) -> Naming | None:
    """What the name of an event says of a collective; None if it is the name of another thing."""
    short = name.split(" = ", 1)[0].strip()
    return _kernel(short) or _aside(short) or _instruction(short) or _node(short)


def _kernel(name: str) -> Naming | None:
    if _ANY_KERNEL.match(name):
        return Naming(kind="", source=Source.KERNEL)
    match = _KERNEL.match(name)
    kind = _KERNELS.get(match["op"] or match["old"]) if match else None
    if kind is None:
        return None
    return Naming(kind=kind, source=Source.KERNEL, is_of_several=kind in _SHARED)


def of_fusion(word: str) -> str:
    """The collective in a fusion that has this category, or calls this; "" for none."""
    match = _CALLED.fullmatch(word)
    return _FUSIONS.get(match["called"], "") if match else ""


def _aside(name: str) -> Naming | None:
    match = _ASIDE.fullmatch(name)
    if match is None:
        return None
    phase, number = Phase(match["phase"]), f"{match['op']}{match['number']}"
    sure = match["op"] == "async-collective"
    return Naming(kind="", source=Source.INSTRUCTION, phase=phase, number=number, sure=sure)


def _instruction(name: str) -> Naming | None:
    match = _INSTRUCTION.fullmatch(name)
    kind = _INSTRUCTIONS.get(match["op"].replace("_", "-")) if match else None
    if match is None or kind is None:
        return None
    part = match["call"] or (match["phase"] or "")[1:]
    phase = Phase(part) if part else Phase.WHOLE
    number = f"{match['op']}{match['number']}{match['again'] or ''}"
    return Naming(kind=kind, source=Source.INSTRUCTION, phase=phase, number=number)


def _node(name: str) -> Naming | None:
    """A TensorFlow node: ``<node>:<op>``, or its path, which ends with the op."""
    match = _NODE.fullmatch(name if ":" in name else name.rsplit("/", 1)[-1])
    kind = _NODES.get(match["op"]) if match else None
    return Naming(kind=kind, source=Source.NODE) if kind else None
