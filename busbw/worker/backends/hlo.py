"""Optimised HLO as text: which collectives a program holds, and which copies of the payload.

Text in, counts out; standard library only.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_COLLECTIVES = (
    "all-reduce",
    "all-reduce-start",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "collective-permute",
    "collective-permute-start",
)
_INSTRUCTION = re.compile(r"=\s+(?P<shape>\(.*?\)|\S+)\s+(?P<op>[a-z][a-z0-9-]*)\(")
_ARRAY = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
_LISTED_GROUPS = re.compile(r"replica_groups=\{\{([\d,]*)\}")
_IOTA_GROUPS = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=")

_BYTES = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "pred": 1, "s8": 1, "u8": 1, "f64": 8}


@dataclass(frozen=True)
class Instruction:
    """One collective: its kind, the bytes of its first array, the size of its first group."""

    op: str
    array_bytes: int
    group_size: int | None
    text: str


def _array_bytes(shape: str) -> int:
    match = _ARRAY.search(shape)
    if match is None:
        return 0
    count = 1
    for extent in match[2].split(","):
        count *= int(extent) if extent else 1
    return count * _BYTES.get(match[1], 0)


def _is_scalar(shape: str) -> bool:
    match = _ARRAY.search(shape)
    return match is None or not match[2]


def _group_size(line: str) -> int | None:
    listed = _LISTED_GROUPS.search(line)
    if listed:
        return len(listed[1].split(",")) if listed[1] else 0
    iota = _IOTA_GROUPS.search(line)
    return int(iota[2]) if iota else None


def collectives(text: str) -> list[Instruction]:
    """Every collective instruction of the module, in order."""
    found = []
    for line in text.splitlines():
        match = _INSTRUCTION.search(line)
        if match and match["op"] in _COLLECTIVES:
            op = match["op"].removesuffix("-start")
            size = _array_bytes(match["shape"])
            found.append(
                Instruction(
                    op=op, array_bytes=size, group_size=_group_size(line), text=line.strip()
                )
            )
    return found


def count_by_kind(found: list[Instruction]) -> dict[str, int]:
    """How many of each kind."""
    return dict(Counter(instruction.op for instruction in found))


@dataclass(frozen=True)
class Copies:
    """Instructions that copy the payload: in a loop's body, or once in a call of the program."""

    in_loop: tuple[str, ...]
    per_call: tuple[str, ...]


def payload_copies(text: str, payload_bytes: int) -> Copies:
    """The lines that copy an array of at least `payload_bytes`.

    What stands in the entry computation runs once in a call; anything else may be in the loop.
    """
    in_loop: list[str] = []
    per_call: list[str] = []
    entry = False
    for line in text.splitlines():
        if line and not line.startswith((" ", "}")):
            entry = line.startswith("ENTRY")
        match = _INSTRUCTION.search(line)
        if match is None or match["op"] not in ("copy", "copy-start"):
            continue
        if not _is_scalar(match["shape"]) and _array_bytes(match["shape"]) >= payload_bytes:
            (per_call if entry else in_loop).append(line.strip())
    return Copies(in_loop=tuple(in_loop), per_call=tuple(per_call))
