"""Reads optimized HLO: computations, their instructions and calls, and published algorithms.

Optimized HLO is the text of a program that XLA compiled. The text consists of computations, which
consist of instructions, each on a line. The module `hlo_proof` decides whether a program is the
expected program.

The algorithm of a collective is read only if the compiler publishes the algorithm in the text, and
is never guessed. libtpu publishes its choice as JSON in the collective's ``backend_config``. Fields
that libtpu leaves out stay unknown. XLA for GPUs writes all fields, and a field with its default
value does not say which library does the work.
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

# The operations of HLO that are collectives.
HLO_COLLECTIVES = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "ragged-all-to-all",
    "collective-broadcast",
    "collective-permute",
    "send",
)

_INSTRUCTION_PATTERN = re.compile(r"=\s+(?P<shape>\(.*?\)|\S+)\s+(?P<op>[a-z][a-z0-9-]*)\(")
_ARRAY_PATTERN = re.compile(r"(?:[a-z]+(\d+)\w*|pred)\[([\d,]*)\]")
_COMPUTATION_HEAD_PATTERN = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[\w.-]+) .*\{$")
_COMPUTATIONS_PATTERN = re.compile(
    r"\b(calls|to_apply|condition|body|(?:true|false)_computation|(?:branch|called)_computations)="
    r"(\{[^}]*\}|%?[\w.-]+)"
)
_NAME_PATTERN = re.compile(r"[\w.-]+")
_QUOTED_TEXT_PATTERN = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# The comments and shapes that XLA may print before the names of operands.
_NOT_OPERANDS_PATTERN = re.compile(r"/\*.*?\*/|\w+\[[^\]]*\](?:\{[^}]*\})?")
_OPERANDS_END_PATTERN = re.compile(r"\)(?:, [\w-]+=|$)")

# An array's layout. If the array is not in the main memory, an S and a number name its memory.
_ARRAY_MEMORY_PATTERN = re.compile(r"\w+\[[\d,]*\]\{[^}S]*(?:S\((\d+)\))?[^}]*\}")

_BACKEND_CONFIG_PREFIX = "backend_config="
_COLORS_OR_PHASES_PATTERN = re.compile(r"\b(colors|phases):\s*(\d+)")
# Fields of libtpu's JSON whose values are reported unchanged.
_UNCHANGED_FIELDS = ("emitter", "strategy")

# Fields of a GPU's collective: the name of the field, its name in results, and the prefix that is
# removed from its values.
_GPU_CONFIG_FIELD = "collective_backend_config"
_GPU_FIELDS = (
    ("kernel_strategy", "strategy", "KERNEL_STRATEGY_"),
    ("backend", "backend", ""),
    ("collectives_mode", "mode", "COLLECTIVES_"),
)
_GPU_DEFAULT_VALUES = ("", "DEFAULT", "MODE_INVALID")


@dataclass(frozen=True)
class Instruction:
    """An instruction of a program in HLO: a line of its text.

    Attributes:
        op: The operation, such as ``all-reduce``.
        shape: The shape and the layout of the result, such as ``f32[1024]{0}``. For a result of
            several arrays, the shapes are in parentheses.
        text: The whole line, without spaces at its ends.

    """

    op: str
    shape: str
    text: str

    @functools.cached_property
    def name(self) -> str:
        """The name of the instruction, without a percent sign."""
        return self.text.removeprefix("ROOT ").partition(" = ")[0].lstrip("%")

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of the operands, without their shapes."""
        arguments = self.text.partition(f" {self.op}(")[2]
        arguments = _OPERANDS_END_PATTERN.split(arguments, maxsplit=1)[0]
        return tuple(_NAME_PATTERN.findall(_NOT_OPERANDS_PATTERN.sub("", arguments)))

    @functools.cached_property
    def array_bytes(self) -> tuple[int, ...]:
        """The size in bytes of each array of the result, without scalars.

        Scalars are left out, because they are counters. An element of the type ``pred`` is a byte.
        """
        return tuple(
            math.prod(map(int, extents.split(","))) * int(bits or 8) // 8
            for bits, extents in _ARRAY_PATTERN.findall(self.shape)
            if extents
        )

    @property
    def collective(self) -> str:
        """The kind of the collective that the instruction runs or starts, such as ``all-reduce``.

        Empty for an instruction that is no collective.
        """
        kind = self.op.removesuffix("-start")
        return kind if kind in HLO_COLLECTIVES else ""

    @property
    def result_bytes(self) -> int:
        """The size in bytes of the result of a collective, all arrays of the result together.

        The shape of an instruction that starts a collective lists the operand first, so only the
        second array is counted. An ``all-reduce-start`` is different: before jaxlib 0.11 all arrays
        of its shape are results, and since then only the second half of the arrays.
        """
        if self.op == "all-reduce-start" and self.shape.startswith("(("):
            return sum(self.array_bytes[len(self.array_bytes) // 2 :])
        if self.op.endswith("-start") and self.collective != "all-reduce":
            count = max(1, len(self.operands))
            return sum(self.array_bytes[count : 2 * count] or self.array_bytes)
        return sum(self.array_bytes)

    @property
    def moves_between_memories(self) -> bool:
        """Whether the instruction starts a copy from a memory of the device to another memory."""
        memories = _ARRAY_MEMORY_PATTERN.findall(self.text.partition("copy-start(")[0])
        return self.op == "copy-start" and len(set(memories[:2])) > 1

    @property
    def is_synchronous(self) -> bool:
        """Whether a GPU starts the collective and waits for its end without work in between."""
        return _json_object_at(_backend_config(self.text), _GPU_CONFIG_FIELD).get("is_sync") is True

    @functools.cached_property
    def text_without_quoted_parts(self) -> str:
        """The line of the instruction without texts in quotation marks.

        Quoted texts are names from the user's program, which may look like attributes of HLO, such
        as ``body=mlp``.
        """
        return remove_quoted_parts(self.text)

    @functools.cached_property
    def computations_by_role(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the computations in each attribute of HLO that names some, such as ``body``.

        Whether such a computation runs depends on the instruction.
        """
        return {
            role: tuple(_NAME_PATTERN.findall(names))
            for role, names in _COMPUTATIONS_PATTERN.findall(self.text_without_quoted_parts)
        }

    @property
    def called_computations(self) -> tuple[str, ...]:
        """The names of the computations that this instruction calls whenever it runs.

        Empty for conditionals and loops, which may call no computation, and for instructions such
        as ``call-done``, which continue a call that another instruction starts.
        """
        if self.op in ("conditional", "while") or self.op.endswith(("-update", "-done")):
            return ()
        return tuple(name for names in self.computations_by_role.values() for name in names)


@dataclass(frozen=True)
class Module:
    """A whole program in HLO.

    Attributes:
        computations: Maps the name of each computation to the instructions in the computation.
        entry: The name of the computation with which the program begins; empty if the text of the
            program names no such computation.

    """

    computations: Mapping[str, tuple[Instruction, ...]]
    entry: str

    def outer_loop_body_names(self) -> tuple[str, ...]:
        """Return the names of the computations that are bodies of loops, except inner loops.

        Only loops that run whenever the program runs are considered. An inner loop is a loop inside
        another loop.
        """
        loops = [line for line in self.unconditional_instructions(self.entry) if line.op == "while"]
        return tuple(name for loop in loops for name in loop.computations_by_role.get("body", ()))

    def unconditional_instructions(
        self, computation_name: str, *, includes_fused: bool = True
    ) -> tuple[Instruction, ...]:
        """Return the instructions that run whenever a computation of the program runs.

        These are the instructions in the computation with the name `computation_name`, and in the
        computations that this computation always calls, directly or not. With `includes_fused` the
        instructions inside fusions are returned, too, although they write nothing to memory.
        """
        lines: list[Instruction] = []
        for line in self.computations.get(computation_name, ()):
            lines.append(line)
            for called in line.called_computations if includes_fused or line.op != "fusion" else ():
                lines += self.unconditional_instructions(called, includes_fused=includes_fused)
        return tuple(lines)

    def collectives(self) -> tuple[Instruction, ...]:
        """Return the collectives in all computations, whether the computations run or not."""
        lines = (line for lines in self.computations.values() for line in lines)
        return tuple(line for line in lines if line.collective)


def remove_quoted_parts(text: str) -> str:
    """Return `text` without parts in quotation marks, such as names of files and of functions."""
    return _QUOTED_TEXT_PATTERN.sub("", text)


def read_module(text: str) -> Module:
    """Parse the text of a program in HLO, and return the program.

    If `text` is not HLO, the returned program has no computations.
    """
    computations: dict[str, list[Instruction]] = {}
    name, entry = "", ""
    # Not `splitlines`: names of the user may contain its other line separators.
    for line in text.split("\n"):
        head = _COMPUTATION_HEAD_PATTERN.match(line) if line and not line[0].isspace() else None
        if head is not None:
            name = head["name"]
            computations[name] = []
            entry = name if head["entry"] else entry
            continue
        match = _INSTRUCTION_PATTERN.search(line)
        if match is not None and name:
            instruction = Instruction(op=match["op"], shape=match["shape"], text=line.strip())
            computations[name].append(instruction)
    return Module({name: tuple(lines) for name, lines in computations.items()}, entry)


def algorithm_in_backend_config(collectives: Sequence[Instruction]) -> dict[str, str]:
    """Return the properties of the collectives' algorithm that the compiler published.

    The dictionary maps names of properties to values, such as ``colors`` to ``2``. The dictionary
    is empty if the compiler published nothing. If the values of several collectives differ, a plus
    sign joins the values.
    """
    published: dict[str, list[str]] = {}
    for line in collectives:
        for name, value in _algorithm_properties(_backend_config(line.text)):
            if value not in published.setdefault(name, []):
                published[name].append(value)
    return {name: "+".join(values) for name, values in sorted(published.items())}


def _backend_config(line: str) -> Mapping[str, Any]:
    """Return the JSON object after ``backend_config=`` in the line of an instruction.

    The object is empty if the line has no such object.
    """
    text = line.partition(_BACKEND_CONFIG_PREFIX)[2]
    if text.startswith("{"):
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            return dict(json.JSONDecoder().raw_decode(text)[0])
    return {}


def _json_object_at(value: Any, name: str) -> Mapping[str, Any]:
    """Return the object with the name `name` inside the JSON object `value`.

    The returned object is empty if `value` is no object, or has no such object inside.
    """
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _algorithm_properties(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each property of the algorithm that a compiler published.

    `config` is the JSON object of a collective's ``backend_config``.
    """
    algorithm = _json_object_at(config, "collective_algorithm_config")
    yield from ((name, str(algorithm[name])) for name in _UNCHANGED_FIELDS if algorithm.get(name))
    yield from _COLORS_OR_PHASES_PATTERN.findall(str(algorithm.get("debug", "")))
    if config.get("device_type") == "DEVICE_TYPE_SPARSECORE":
        yield "offload", "SparseCore"
    yield from _offload_properties(_json_object_at(config, "collective_offload_config"))
    gpu_config = _json_object_at(config, _GPU_CONFIG_FIELD)
    for field, name, prefix in _GPU_FIELDS:
        value = str(gpu_config.get(field, "")).removeprefix(prefix)
        if value not in _GPU_DEFAULT_VALUES:
            yield name, value


def _offload_properties(offload_config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the properties ``colors``, ``phases`` and ``rings`` that libtpu chose for offloading.

    An offloaded collective runs on a SparseCore. `offload_config` is its
    ``collective_offload_config``. Each property is a pair of its name and its value: a number of
    colors or of phases, or the types of rings, joined by plus signs.
    """
    for choice in offload_config.values():
        colors = _json_object_at(choice, "ici_strategy_config").get("color_strategies")
        if isinstance(colors, list):
            yield "colors", str(len(colors))
            values = [color.get("phase_rings") for color in colors if isinstance(color, dict)]
            phases = [rings for rings in values if isinstance(rings, list)]
            yield "phases", str(max(map(len, phases), default=0))
            rings = [ring for rings in phases for ring in rings if isinstance(ring, dict)]
            kinds = {str(ring.get("ring_type", "")) for ring in rings}
            yield "rings", "+".join(sorted(kind.removeprefix("ICI_RING_TYPE_") for kind in kinds))
