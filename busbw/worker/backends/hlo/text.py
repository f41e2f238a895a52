"""Optimised HLO as text, read: computations, their instructions, what calls what.

Text in, values out; standard library only. What must be there is in `proof`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

COLLECTIVES = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "ragged-all-to-all",
    "collective-broadcast",
    "collective-permute",
)

_INSTRUCTION = re.compile(r"=\s+(?P<shape>\(.*?\)|\S+)\s+(?P<op>[a-z][a-z0-9-]*)\(")
_ARRAY = re.compile(r"([a-z]+\d+\w*|pred)\[([\d,]*)\]")
_HEAD = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[\w.-]+) .*\{$")
_BODY = re.compile(r"body=%?([\w.-]+)")
_CALLED = re.compile(r"(?:calls|to_apply|called_computations=\{)=?%?([\w.-]+)")

# An array's layout, with the number of its memory behind an S where it is not the main one.
_MEMORY = re.compile(r"\w+\[[\d,]*\]\{[^}S]*(?:S\((\d+)\))?[^}]*\}")

_BYTES = {
    "f64": 8,
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "bf16": 2,
    "f16": 2,
    "s16": 2,
    "u16": 2,
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "s64": 8,
    "u64": 8,
}


@dataclass(frozen=True)
class Instruction:
    """One line: what it does, the bytes of each array that it gives, and the line itself."""

    op: str
    array_bytes: tuple[int, ...]
    text: str

    @property
    def name(self) -> str:
        """What other lines call it, such as ``%copy.6``."""
        return self.text.removeprefix("ROOT ").partition(" = ")[0]

    @property
    def collective(self) -> str:
        """The kind of collective that it is or starts, empty for none."""
        kind = self.op.removesuffix("-start")
        return kind if kind in COLLECTIVES else ""

    @property
    def result_bytes(self) -> int:
        """Bytes that a collective gives: the second array of a start is the result.

        A tuple's other arrays belong to it, as in an all-to-all of parts.
        """
        if self.op.endswith("-start") and self.collective != "all-reduce":
            return self.array_bytes[1] if len(self.array_bytes) > 1 else sum(self.array_bytes)
        return sum(self.array_bytes)

    @property
    def moves_between_memories(self) -> bool:
        """Whether it starts a copy from one of the chip's memories to another, as to its own."""
        memories = _MEMORY.findall(self.text.partition("copy-start(")[0])
        return self.op == "copy-start" and len(set(memories[:2])) > 1

    @property
    def called(self) -> tuple[str, ...]:
        """Computations that run as a part of it, whatever happens: no branch and no loop."""
        if self.op in ("conditional", "while"):
            return ()
        return tuple(_CALLED.findall(self.text))


@dataclass(frozen=True)
class Module:
    """The computations of a program by name, and which of them is the entry."""

    computations: Mapping[str, tuple[Instruction, ...]]
    entry: str

    def loop_bodies(self) -> tuple[str, ...]:
        """The bodies of the loops that the entry runs."""
        loops = [one for one in self.reached(self.entry) if one.op == "while"]
        return tuple(name for loop in loops for name in _BODY.findall(loop.text))

    def reached(self, name: str, *, fused: bool = True) -> tuple[Instruction, ...]:
        """What always runs when the computation `name` runs, once; with or without fusions' parts.

        A fusion writes its result and nothing of what its parts would give by themselves.
        """
        found: list[Instruction] = []
        for one in self.computations.get(name, ()):
            found.append(one)
            for called in one.called if fused or one.op != "fusion" else ():
                found += self.reached(called, fused=fused)
        return tuple(found)

    def collectives(self) -> tuple[Instruction, ...]:
        """Every collective of the module, wherever it stands."""
        return tuple(one for lines in self.computations.values() for one in lines if one.collective)


def read(text: str) -> Module:
    """The module that `text` describes."""
    computations: dict[str, list[Instruction]] = {}
    name, entry = "", ""
    for line in text.splitlines():
        head = _HEAD.match(line) if line and not line[0].isspace() else None
        if head is not None:
            name = head["name"]
            computations[name] = []
            entry = name if head["entry"] else entry
            continue
        match = _INSTRUCTION.search(line)
        if match is not None and name:
            computations[name].append(
                Instruction(
                    op=match["op"],
                    array_bytes=_bytes_of_arrays(match["shape"]),
                    text=line.strip(),
                )
            )
    return Module(computations={n: tuple(c) for n, c in computations.items()}, entry=entry)


def _bytes_of_arrays(shape: str) -> tuple[int, ...]:
    """Scalars count as nothing: they are counters."""
    return tuple(
        math.prod(int(extent) for extent in extents.split(",")) * _BYTES.get(kind, 0)
        for kind, extents in _ARRAY.findall(shape)
        if extents
    )
