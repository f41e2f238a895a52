"""A reader of optimized HLO: computations, their instructions, calls, and published algorithms.

Text in, values out; standard library only. `proof` decides whether a program is the expected one.

An algorithm is read where a compiler publishes it, never guessed. libtpu publishes its choice as
JSON in a collective's ``backend_config``; fields that it leaves out stay unknown. XLA for GPUs
writes all fields there: a field at its default says nothing, whichever library does the work.
"""

from __future__ import annotations

import contextlib
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
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# Comments and shapes, which XLA may print before the names of operands.
_NOT_OPERANDS = re.compile(r"/\*.*?\*/|\w+\[[^\]]*\](?:\{[^}]*\})?")
_OPERANDS_END = re.compile(r"\)(?:, [\w-]+=|$)")

# An array's layout, with the number of its memory behind an S where it is not the main one.
_MEMORY = re.compile(r"\w+\[[\d,]*\]\{[^}S]*(?:S\((\d+)\))?[^}]*\}")

_CONFIG = "backend_config="
_COUNTS = re.compile(r"\b(colors|phases):\s*(\d+)")
_PLAIN = ("emitter", "strategy")

# The fields of a GPU's collective: the field, its name in results, and the prefix of its values.
_GPU_CONFIG = "collective_backend_config"
_GPU_FIELDS = (
    ("kernel_strategy", "strategy", "KERNEL_STRATEGY_"),
    ("backend", "backend", ""),
    ("collectives_mode", "mode", "COLLECTIVES_"),
)
_DEFAULTS = ("", "DEFAULT", "MODE_INVALID")


@dataclass(frozen=True)
class Instruction:
    """One line: its opcode, the shape of its result, and the line itself."""

    op: str
    shape: str
    text: str

    @functools.cached_property
    def name(self) -> str:
        """The name as operands have it, without a percent sign."""
        return self.text.removeprefix("ROOT ").partition(" = ")[0].lstrip("%")

    @property
    def is_root(self) -> bool:
        return self.text.startswith("ROOT ")

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of the operands, before which XLA may print their shapes."""
        arguments = self.text.partition(f" {self.op}(")[2]
        arguments = _OPERANDS_END.split(arguments, maxsplit=1)[0]
        return tuple(_NAME.findall(_NOT_OPERANDS.sub("", arguments)))

    @functools.cached_property
    def array_bytes(self) -> tuple[int, ...]:
        """The bytes of each array of the result.

        Scalars count as nothing: they are counters. A name without bits is of one byte: ``pred``.
        """
        return tuple(
            math.prod(map(int, extents.split(","))) * int(bits or 8) // 8
            for bits, extents in _ARRAY.findall(self.shape)
            if extents
        )

    @property
    def collective(self) -> str:
        """The kind of the collective that the instruction is or starts, empty for none."""
        kind = self.op.removesuffix("-start")
        return kind if kind in COLLECTIVES else ""

    @property
    def result_bytes(self) -> int:
        """The bytes of the result; of a start those of the second array.

        A tuple's other arrays belong to the result, as in an all-to-all. Since jaxlib 0.11 an
        all-reduce's start has its operands in its shape, too.
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
        return _object(_config_of(self.text), _GPU_CONFIG).get("is_sync") is True

    @functools.cached_property
    def unquoted(self) -> str:
        """The line without names of the user, which may read ``body=mlp`` as an attribute does."""
        return unquoted(self.text)

    @property
    def called(self) -> tuple[str, ...]:
        """The computations that always run as a part of the instruction: no branch and no loop."""
        if self.op in ("conditional", "while"):
            return ()
        called = _CALLED.findall(self.unquoted)
        return tuple(name for text in called for name in _NAME.findall(text))


@dataclass(frozen=True)
class Module:
    """The computations of a program by name, and which of them is the entry."""

    computations: Mapping[str, tuple[Instruction, ...]]
    entry: str

    def loop_bodies(self) -> tuple[str, ...]:
        loops = [line for line in self.reached(self.entry) if line.op == "while"]
        return tuple(name for loop in loops for name in _BODY.findall(loop.text))

    def reached(self, name: str, *, fused: bool = True) -> tuple[Instruction, ...]:
        """Return the instructions that a run of a computation runs, each once.

        A fusion writes its result and nothing of what its parts would by themselves.
        """
        lines: list[Instruction] = []
        for line in self.computations.get(name, ()):
            lines.append(line)
            for called in line.called if fused or line.op != "fusion" else ():
                lines += self.reached(called, fused=fused)
        return tuple(lines)

    def collectives(self) -> tuple[Instruction, ...]:
        lines = (line for lines in self.computations.values() for line in lines)
        return tuple(line for line in lines if line.collective)


def unquoted(text: str) -> str:
    """Return a text without its quoted parts, which name files and other things of the user."""
    return _QUOTED.sub("", text)


def read(text: str) -> Module:
    """Read the computations of a program; a text that is no HLO has none."""
    computations: dict[str, list[Instruction]] = {}
    name, entry = "", ""
    # Names of the user may have other characters that end lines.
    for line in text.split("\n"):
        head = _HEAD.match(line) if line and not line[0].isspace() else None
        if head is not None:
            name = head["name"]
            computations[name] = []
            entry = name if head["entry"] else entry
            continue
        match = _INSTRUCTION.search(line)
        if match is not None and name:
            instruction = Instruction(op=match["op"], shape=match["shape"], text=line.strip())
            computations[name].append(instruction)
    return Module({name: tuple(lines) for name, lines in computations.items()}, entry)


def algorithm_of(collectives: Sequence[Instruction]) -> dict[str, str]:
    """Return what a compiler published of the algorithm, by name; empty for nothing.

    The values of several collectives that differ are joined by a plus sign.
    """
    published: dict[str, list[str]] = {}
    for line in collectives:
        for name, value in _published(_config_of(line.text)):
            if value not in published.setdefault(name, []):
                published[name].append(value)
    return {name: "+".join(values) for name, values in sorted(published.items())}


def _config_of(line: str) -> Mapping[str, Any]:
    text = line.partition(_CONFIG)[2]
    if text.startswith("{"):
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            return dict(json.JSONDecoder().raw_decode(text)[0])
    return {}


def _object(value: Any, name: str) -> Mapping[str, Any]:
    """Return the object `name` of a JSON value; empty if there is none."""
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _published(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    algorithm = _object(config, "collective_algorithm_config")
    yield from ((name, str(algorithm[name])) for name in _PLAIN if algorithm.get(name))
    yield from _COUNTS.findall(str(algorithm.get("debug", "")))
    if config.get("device_type") == "DEVICE_TYPE_SPARSECORE":
        yield "offload", "SparseCore"
    yield from _rings(_object(config, "collective_offload_config"))
    gpu_config = _object(config, _GPU_CONFIG)
    for field, name, begin in _GPU_FIELDS:
        value = str(gpu_config.get(field, "")).removeprefix(begin)
        if value not in _DEFAULTS:
            yield name, value


def _rings(offload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for choice in offload.values():
        colors = _object(choice, "ici_strategy_config").get("color_strategies")
        if isinstance(colors, list):
            yield "colors", str(len(colors))
            values = [color.get("phase_rings") for color in colors if isinstance(color, dict)]
            phases = [rings for rings in values if isinstance(rings, list)]
            yield "phases", str(max(map(len, phases), default=0))
            rings = [ring for rings in phases for ring in rings if isinstance(ring, dict)]
            kinds = {str(ring.get("ring_type", "")) for ring in rings}
            yield "rings", "+".join(sorted(kind.removeprefix("ICI_RING_TYPE_") for kind in kinds))
