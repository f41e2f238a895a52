"""A parser of optimized HLO: computations, their instructions, calls, the algorithm.

Text in, values out; standard library only. What a program must hold is in `proof`.

A compiler's algorithm is read where it is published, never guessed. libtpu publishes its choice as
JSON in a collective's ``backend_config``; what it leaves out stays unknown. XLA for GPUs writes all
fields there: one at its default says nothing, whichever library does the work.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLLECTIVES = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "ragged-all-to-all",
    "collective-broadcast",
    "collective-permute",
    "send",
)

_INSTRUCTION = re.compile(r"=\s+(?P<shape>\(.*?\)|\S+)\s+(?P<op>[a-z][a-z0-9-]*)\(")
_ARRAY = re.compile(r"(?:[a-z]+(\d+)\w*|pred)\[([\d,]*)\]")
_HEAD = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[\w.-]+) .*\{$")
_BODY = re.compile(r"body=%?([\w.-]+)")
_CALLED = re.compile(r"(?:calls|to_apply|called_computations)=(\{[^}]*\}|%?[\w.-]+)")
_NAME = re.compile(r"[\w.-]+")
_MARK = re.compile(r"[()\[\]{},]")

# An array's layout, with the number of its memory behind an S where it is not the main one.
_MEMORY = re.compile(r"\w+\[[\d,]*\]\{[^}S]*(?:S\((\d+)\))?[^}]*\}")

_CONFIG = "backend_config="
_COUNTS = re.compile(r"\b(colors|phases):\s*(\d+)")
_PLAIN = ("emitter", "strategy")

# What a GPU's collective says of itself: the field, our name of it, and how its values begin.
_OF_GPUS = (
    ("kernel_strategy", "strategy", "KERNEL_STRATEGY_"),
    ("backend", "backend", ""),
    ("collectives_mode", "mode", "COLLECTIVES_"),
)
_SAYS_NOTHING = ("", "DEFAULT", "MODE_INVALID")


class ProgramError(ValueError):
    """A text that is no optimized HLO, or that cannot be read to its end."""


@dataclass(frozen=True)
class Instruction:
    """One line: what it does, the bytes of each array that it gives, and the line itself."""

    op: str
    array_bytes: tuple[int, ...]
    text: str

    @property
    def name(self) -> str:
        return self.text.removeprefix("ROOT ").partition(" = ")[0]

    @functools.cached_property
    def bare_name(self) -> str:
        """The name as operands have it."""
        return self.name.lstrip("%")

    @property
    def is_root(self) -> bool:
        return self.text.startswith("ROOT ")

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of what it takes, without a percent sign; XLA may print shapes before them."""
        found, at, depth = list[str](), self._parts.end(), 0
        for mark in _MARK.finditer(self.text, at):
            if mark[0] in "([{":
                depth += 1
            elif depth and mark[0] != ",":
                depth -= 1
            elif not depth:
                found.append(self.text[at : mark.start()].rpartition("*/")[2].strip())
                at = mark.end()
                if mark[0] == ")":
                    break
        return tuple(one.split()[-1].lstrip("%") for one in found if one)

    @property
    def shape(self) -> str:
        """The text of what it gives, such as ``(f32[4]{0}, f32[])``."""
        return self._parts["shape"]

    @property
    def _parts(self) -> re.Match[str]:
        found = _INSTRUCTION.search(self.text)
        assert found is not None, "the line that it was read from"
        return found

    @property
    def collective(self) -> str:
        """The kind of collective that it is or starts, empty for none."""
        kind = self.op.removesuffix("-start")
        return kind if kind in COLLECTIVES else ""

    @property
    def begins(self) -> bool:
        """Whether it is a collective that another instruction waits for."""
        return self.op == "send" or (bool(self.collective) and self.op.endswith("-start"))

    @property
    def result_bytes(self) -> int:
        """Of a start the second array; a tuple's others belong to it, as in an all-to-all.

        Since jaxlib 0.11 an all-reduce's start is what it takes and what it gives, too.
        """
        if self.op == "all-reduce-start" and self.shape.startswith("(("):
            return sum(self.array_bytes[len(self.array_bytes) // 2 :])
        if self.op.endswith("-start") and self.collective != "all-reduce":
            return self.array_bytes[1] if len(self.array_bytes) > 1 else sum(self.array_bytes)
        return sum(self.array_bytes)

    @property
    def moves_between_memories(self) -> bool:
        memories = _MEMORY.findall(self.text.partition("copy-start(")[0])
        return self.op == "copy-start" and len(set(memories[:2])) > 1

    @property
    def is_waited_for_at_once(self) -> bool:
        """Whether nothing is between the start of a GPU's collective and its end."""
        return _of_gpu(_config_of(self.text)).get("is_sync") is True

    @property
    def called(self) -> tuple[str, ...]:
        """Computations that always run as a part of it: no branch and no loop."""
        if self.op in ("conditional", "while"):
            return ()
        return tuple(name for text in _CALLED.findall(self.text) for name in _NAME.findall(text))


@dataclass(frozen=True)
class Module:
    """The computations of a program by name, and which of them is the entry.

    `unclosed` is the computation within which the text ends, if it does.
    """

    computations: Mapping[str, tuple[Instruction, ...]]
    entry: str
    unclosed: str = ""

    def loop_bodies(self) -> tuple[str, ...]:
        loops = [one for one in self.reached(self.entry) if one.op == "while"]
        return tuple(name for loop in loops for name in _BODY.findall(loop.text))

    def reached(self, name: str, *, fused: bool = True) -> tuple[Instruction, ...]:
        """Once; a fusion writes its result and nothing of what its parts would by themselves."""
        found: list[Instruction] = []
        for one in self.computations.get(name, ()):
            found.append(one)
            for called in one.called if fused or one.op != "fusion" else ():
                found += self.reached(called, fused=fused)
        return tuple(found)

    def collectives(self) -> tuple[Instruction, ...]:
        return tuple(one for lines in self.computations.values() for one in lines if one.collective)


def read(text: str) -> Module:
    computations: dict[str, list[Instruction]] = {}
    name, entry, unclosed = "", "", ""
    for line in text.splitlines():
        if line.startswith("}"):
            unclosed = ""
            continue
        head = _HEAD.match(line) if line and not line[0].isspace() else None
        if head is not None:
            name = unclosed = head["name"]
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
    return Module({name: tuple(lines) for name, lines in computations.items()}, entry, unclosed)


def _bytes_of_arrays(shape: str) -> tuple[int, ...]:
    """Scalars count as nothing: they are counters. A name without bits is of one byte: ``pred``."""
    return tuple(
        math.prod(int(extent) for extent in extents.split(",")) * int(bits or 8) // 8
        for bits, extents in _ARRAY.findall(shape)
        if extents
    )


def algorithm_of(collectives: Sequence[Instruction]) -> dict[str, str]:
    """Empty where it published nothing; of several that differ all, joined by a plus sign."""
    found: dict[str, list[str]] = {}
    for one in collectives:
        for name, value in _published(_config_of(one.text)):
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: "+".join(values) for name, values in sorted(found.items())}


def _config_of(line: str) -> Mapping[str, Any]:
    _, there, rest = line.partition(_CONFIG)
    if not there or not rest.startswith("{"):
        return {}
    try:
        config, _ = json.JSONDecoder().raw_decode(rest)
    except json.JSONDecodeError:
        return {}
    return config if isinstance(config, dict) else {}


def _published(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    chosen = config.get("collective_algorithm_config")
    if isinstance(chosen, dict):
        for name in _PLAIN:
            if chosen.get(name):
                yield name, str(chosen[name])
        yield from _COUNTS.findall(str(chosen.get("debug", "")))
    if config.get("device_type") == "DEVICE_TYPE_SPARSECORE":
        yield "offload", "SparseCore"
    yield from _rings(config.get("collective_offload_config"))
    of_gpu = _of_gpu(config)
    for field, name, begin in _OF_GPUS:
        value = str(of_gpu.get(field, "")).removeprefix(begin)
        if value not in _SAYS_NOTHING:
            yield name, value


def _of_gpu(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("collective_backend_config")
    return found if isinstance(found, dict) else {}


def _rings(offload: Any) -> Iterator[tuple[str, str]]:
    for one in offload.values() if isinstance(offload, dict) else ():
        strategy = one.get("ici_strategy_config") if isinstance(one, dict) else None
        colors = strategy.get("color_strategies") if isinstance(strategy, dict) else None
        if not isinstance(colors, list):
            continue
        yield "colors", str(len(colors))
        phases = [color.get("phase_rings", ()) for color in colors if isinstance(color, dict)]
        yield "phases", str(max(map(len, phases), default=0))
        kinds = {str(ring.get("ring_type", "")) for rings in phases for ring in rings}
        yield "rings", "+".join(sorted(kind.removeprefix("ICI_RING_TYPE_") for kind in kinds))
