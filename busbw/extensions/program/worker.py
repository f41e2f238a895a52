"""Compile a user's program in a worker, and list every collective of optimized HLO.

A collective is listed with its payload, mesh axes, runs per step and source line. Only collectives
that the entry computation reaches are listed. A collective in a loop counts for each turn of the
loop, and a collective in a branch as often as the branch may be taken. HLO may print a collective
several times: at its start, in the computations that run meanwhile, and at its end. Such a
collective is listed once.
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.collectives import COLLECTIVES
from busbw.model.field_types import MAX_PAYLOAD_BYTES
from busbw.model.machine import LETTER_AXES
from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.backends.fake import FakeBackend
from busbw.worker.backends.hlo import (
    Instruction,
    Module,
    algorithm_in_backend_config,
    read_module,
    remove_quoted_parts,
)
from busbw.worker.backends.out_of_memory import is_out_of_memory, out_of_memory_error
from busbw.worker.measure import MeasuringWorker
from busbw.worker.serve import request_value

from .worker_flow import (
    TurnCounter,
    count_hiding_operations,
    is_continuation,
)
from .worker_values import (
    MAX_RANKS,
    CollectiveUse,
    CollectiveUses,
    ProgramCollectives,
    ProgramError,
    SourceLines,
    describe_groups,
    merge_equal_uses,
)

_KINDS_BY_HLO_NAME = {collective.hlo_name: collective.name for collective in COLLECTIVES.values()}
_REDUCE_OPS = {"add": "sum", "maximum": "max", "minimum": "min"}

_ARRAY_PATTERN = re.compile(r"\b(pred|bf|f|s|u|c)(\d*)(\w*)\[([\d,]*)\]")
# The beginning of numpy's name of a dtype by that of XLA's name, such as bfloat16 for bf16.
_DTYPES = dict(pred="bool", bf="bfloat", f="float", s="int", u="uint", c="complex")
# A compiler may replace the name of an argument by an operation, such as jit(step)/while.
_ARGUMENT_NAME_PATTERN = re.compile(r'\bop_name="(?!\w+\()((?:[^"\\]|\\.)*)"')

# The largest distance of an operand from a collective at which a source line is searched.
_MAX_OPERAND_DISTANCE = 64

_END_PATTERN = re.compile(r"\n\}.*\s*\Z")
_RANK_COUNTS_PATTERN = re.compile(r"\b(?:num_partitions|replica_count)=(\d{1,9})\b")
_MESH_PATTERN = re.compile(r"sdy\.mesh @\w+ = <\[(.*?)\]")
_EXTENT_PATTERN = re.compile(r'"([^"]+)"=(\d+)')


def list_collectives(worker: MeasuringWorker, request: Mapping[str, Any]) -> ProgramCollectives:
    """Compile a user's program for the devices of this worker, and list the program's collectives.

    `worker.backend` is the back end that uses the worker's framework. The value `source` of
    `request` names the program, such as ``train.py:step``. For the scripted framework ``fake``,
    which cannot compile, the script names a file of optimized HLO instead. Raises MeasuringError
    if the framework cannot compile programs of users, or if the program cannot be compiled or read.
    """
    backend = worker.backend
    if isinstance(backend, FakeBackend):
        script = backend.script["program"]
        return parse_collectives(Path(script["hlo"]).read_text(), script.get("mesh", {}))
    if backend.name != "jax":
        raise unavailable(
            "only JAX makes a program; name the file of its optimized HLO, as --xla_dump_to "
            "writes it"
        )
    compiler = importlib.import_module(f"{__name__}_jax")
    return parse_collectives(
        *compiler.compile_program(backend, request_value(request, "source", str))
    )


def compile_error(error: Exception) -> MeasuringError:
    """Return a MeasuringError for `error`, the exception with which a compiler refused a program.

    The MeasuringError has the kind OUT_OF_MEMORY if the program needs too much memory, and
    otherwise the kind COMPILE_ERROR.
    """
    if is_out_of_memory(error):
        return out_of_memory_error(error)
    return MeasuringError(FailureKind.COMPILE_ERROR, str(error).strip())


def parse_collectives(text: str, mesh: Mapping[str, int]) -> ProgramCollectives:
    """Return the collectives and arguments in `text`, the optimized HLO of a user's program.

    Source files below the current folder are shown by their relative paths. `mesh` maps the axis
    names of the program's mesh to their extents, and is empty if the program has no mesh. Raises
    MeasuringError if the text cannot be read.
    """
    try:
        # Files below the folder of the session are shown by their relative paths. The HLO of a
        # program for a single device does not say the number of ranks.
        return collectives_in_hlo(
            text.replace(f'"{os.getcwd()}/', '"'), mesh, math.prod(mesh.values())
        )
    except ProgramError as error:
        raise MeasuringError(FailureKind.PROGRAM_ERROR, str(error)) from error


def collectives_in_hlo(
    text: str, mesh: Mapping[str, int] | None = None, ranks: int | None = None
) -> ProgramCollectives:
    """Return the collectives that a step of a program runs, and the arguments of the program.

    Args:
        text: The optimized HLO of the program.
        mesh: The extents of the program's mesh by axis name; None if the program has no mesh.
        ranks: The number of ranks, used if the text does not contain the number; None if it is
            unknown.

    Raises:
        ProgramError: The text is not optimized HLO, the text is incomplete, the program has more
            than MAX_RANKS ranks, or a collective runs over all ranks and their number is unknown.

    """
    try:
        module = read_module(text)
        # The first line that ends with a brace begins the first computation.
        head = text.partition(" {\n")[0]
        if not module.entry or not _END_PATTERN.search(text):
            raise ProgramError(
                "it is no optimized HLO, or it is cut: expected a whole file with an ENTRY "
                "computation"
            )
        # A program has replicas x partitions.
        counts = _RANK_COUNTS_PATTERN.findall(remove_quoted_parts(head))
        program_ranks = math.prod(map(int, counts or [0])) or ranks
        if program_ranks is not None and program_ranks > MAX_RANKS:
            raise ProgramError(f"it is for {program_ranks} ranks, expected at most {MAX_RANKS}")
        # Groups lie along no axes of a mesh of other ranks, or of too many axes to be measured.
        if not mesh or math.prod(mesh.values()) != program_ranks or len(mesh) > len(LETTER_AXES):
            mesh = {}
        inventory = _CollectiveInventory(module, mesh, program_ranks, SourceLines(head))
        uses = inventory.uses_in(module.entry)
        return ProgramCollectives(
            uses=tuple(sorted(uses, key=lambda use: (-use.payload_bytes, use.name, use.source))),
            mesh=mesh,
            arguments=_arguments_in(module.computations.get(module.entry, ())),
        )
    # A number in the text may be too long, an operand may be missing, and a computation may call
    # itself.
    except (LookupError, RecursionError, ValueError) as error:
        raise ProgramError(f"it cannot be read: {str(error)[:100]}") from error


def _arguments_in(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Return the size in bytes of each argument of a program by argument name, in their order.

    `instructions` are the instructions of the program's entry computation. An argument without a
    name of its own has its number as the name. A parameter instruction is an argument, or holds
    several arguments: XLA for TPUs passes thousands of arguments as a single parameter.
    """
    sizes: dict[str, int] = {}
    parameters = [line for line in instructions if line.op == "parameter"]
    for line in sorted(parameters, key=lambda line: int(line.operands[0])):
        name = "".join(_ARGUMENT_NAME_PATTERN.findall(line.text)[:1]).replace(r"\'", "'")
        for _, array_bytes in _arrays_in(line.shape):
            own_name = name if name and name not in sizes else str(len(sizes))
            sizes[own_name] = min(array_bytes, MAX_PAYLOAD_BYTES)
    return sizes


def mesh_in_stablehlo(stablehlo_text: str) -> dict[str, int]:
    """Return the extents of the largest mesh in a program's StableHLO, by axis name.

    `stablehlo_text` is the text of the program before XLA compiles it. The result is empty if the
    text contains no mesh.
    """
    meshes = [
        {axis: int(extent) for axis, extent in _EXTENT_PATTERN.findall(text)}
        for text in _MESH_PATTERN.findall(stablehlo_text)
    ]
    return max(meshes, key=lambda mesh: math.prod(mesh.values()), default={})


class _CollectiveInventory:
    """A finder of the collectives that each computation of the program `module` runs.

    `mesh` maps the axis names of the program's mesh to their extents. `program_ranks` is the number
    of ranks of the program; None if the number is unknown. `sources` finds the source lines of
    instructions. The collectives of a computation are cached, because several instructions may call
    the computation.
    """

    def __init__(
        self,
        module: Module,
        mesh: Mapping[str, int],
        program_ranks: int | None,
        sources: SourceLines,
    ) -> None:
        self._computations = module.computations
        self._mesh = mesh
        self._program_ranks = program_ranks
        self._sources = sources
        self._turn_counter = TurnCounter(module)
        self._texts = {
            name: "\n".join(instruction.text for instruction in instructions)
            for name, instructions in module.computations.items()
        }
        self._uses_by_computation: dict[str, CollectiveUses] = {}

    def uses_in(self, computation: str) -> CollectiveUses:
        """Return the collectives that a single run of the computation `computation` runs.

        The collectives of called computations are included. A collective in a called computation
        whose algorithm or source line is unknown gets that of the calling instruction. Raises
        ProgramError if a collective runs over all ranks and the number of ranks is unknown.
        """
        if computation not in self._uses_by_computation:
            instructions = self._computations.get(computation, ())
            hiding_counts = count_hiding_operations(instructions, self._texts)
            by_name = {instruction.name: instruction for instruction in instructions}
            self._uses_by_computation[computation] = merge_equal_uses(
                replace(
                    use,
                    hidden_by=hiding_counts.get(instruction.name, use.hidden_by),
                    algorithm=use.algorithm or algorithm_in_backend_config([instruction]),
                    source=use.source or self._source_text(by_name, instruction),
                )
                for instruction in instructions
                for use in self._collectives_run_by(computation, instruction)
            )
        return self._uses_by_computation[computation]

    def _collectives_run_by(
        self, computation: str, instruction: Instruction
    ) -> Iterable[CollectiveUse]:
        """Return the collectives that a single run of `instruction` in `computation` runs.

        If `instruction` itself is a collective, the CollectiveUse lacks the source line, the
        algorithm and the number of hiding operations. `uses_in` fills in these fields.
        """
        if instruction.collective:
            if is_continuation(instruction, self._texts[computation]):
                return ()
            return (self._describe_collective(instruction),)
        called = instruction.called_computations
        if instruction.op in ("conditional", "while"):
            called = (*itertools.chain(*instruction.computations_by_role.values()),)
        uses = [use for name in called for use in self.uses_in(name)]
        if instruction.op == "conditional":
            # A single branch runs: a collective runs at most as often as in the branch with the
            # most runs.
            return [replace(use, at_most=True) for use in merge_equal_uses(uses, max)]
        if instruction.op == "while" and uses:
            turns = self._turn_counter.count_turns(computation, instruction)
            if turns is None:
                return [replace(use, per_iteration=True) for use in uses]
            return [replace(use, times=use.times * turns) for use in uses if turns]
        if instruction.op == "fusion":
            # If the result of a fusion is only each rank's part of a sum, its all-reduce counts as
            # a reduce-scatter.
            result_bytes = sum(instruction.array_bytes)
            return [
                replace(use, kind="reduce_scatter")
                if use.kind == "all_reduce"
                and result_bytes < use.payload_bytes == result_bytes * use.ranks
                else use
                for use in uses
            ]
        return uses

    def _describe_collective(self, instruction: Instruction) -> CollectiveUse:
        """Return the collective that `instruction` runs or starts, with the number of runs 1.

        Raises ProgramError if the collective runs over all ranks, whose number is unknown.
        """
        ranks, groups, axes = describe_groups(
            instruction.text_without_quoted_parts, self._mesh, self._program_ranks
        )
        arrays = _arrays_in(instruction.shape)
        if instruction.op == "send":
            arrays = arrays[:1]
        # The shape of an instruction that starts a collective may list the operands before the
        # results.
        count = len(instruction.operands)
        arrays = arrays[count : 2 * count] or arrays
        # The input of a reduce-scatter is larger than its result.
        factor = ranks if instruction.collective == "reduce-scatter" else 1
        payload_bytes = sum(array_bytes for _, array_bytes in arrays) * factor
        reduce_op = "".join(
            line.op
            for name in instruction.called_computations
            for line in self._computations.get(name, ())[-1:]
        )
        return CollectiveUse(
            kind=_KINDS_BY_HLO_NAME.get(instruction.collective, instruction.collective),
            dtype="+".join(sorted({dtype for dtype, _ in arrays})),
            payload_bytes=min(payload_bytes, MAX_PAYLOAD_BYTES),
            ranks=ranks,
            groups=groups,
            axes=axes,
            reduce_op=_REDUCE_OPS.get(reduce_op, reduce_op),
        )

    def _source_text(
        self, instructions: Mapping[str, Instruction], instruction: Instruction
    ) -> str:
        """Return the source lines of a collective instruction, such as ``a.py:8, a.py:9``.

        If the compiler combined several collectives into one instruction, the text has the lines of
        all of them. If the instruction has no source line, the text has the lines of the nearest
        operands that have one. If there are none either, the text is empty. `instructions` maps
        names to the instructions of the computation.
        """
        names = [instruction.name]
        for user in instructions.values() if instruction.collective else ():
            if user.op.endswith(("get-tuple-element", "-done")) and user.operands[0] in names:
                names.append(user.name)
        for _ in range(_MAX_OPERAND_DISTANCE):
            nearest = [instructions[name] for name in names if name in instructions]
            lines = dict.fromkeys(self._sources.user_line_of(line.text) for line in nearest)
            if any(lines):
                return ", ".join(filter(None, lines))
            names = [*dict.fromkeys(name for line in nearest for name in line.operands)]
        return ""


def _arrays_in(shape: str) -> list[tuple[str, int]]:
    """Return (dtype, size in bytes) of each array in `shape`, the HLO text of a result's shape."""
    return [
        (
            f"{_DTYPES[kind]}{bits}_{variant}".rstrip("_"),
            math.prod(map(int, filter(None, extents.split(",")))) * int(bits or 8) // 8,
        )
        for kind, bits, variant, extents in _ARRAY_PATTERN.findall(shape)
    ]
