"""List every collective of a program, with its payload, mesh axes, runs per step and source line.

Only collectives that the entry computation reaches are listed. A collective in a loop counts for
each turn of the loop, and a collective in a branch as often as the branch may be taken. HLO may
print a collective several times: at its start, in the computations that run meanwhile, and at its
end. Such a collective is listed once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from busbw.collectives import COLLECTIVES
from busbw.model.field_types import MAX_PAYLOAD_BYTES
from busbw.model.words import plural
from busbw.worker.backends.hlo.module import (
    Instruction,
    Module,
    algorithm_in_backend_config,
    read_module,
    remove_quoted_parts,
)

from .worker_axes import MAX_RANKS, MeshAxes, SourceLines
from .worker_flow import (
    LoopCounter,
    chain_ids_of_starts,
    count_hiding_operations,
    is_started_elsewhere,
    loop_computations,
)
from .worker_values import CollectiveUse, CollectiveUses, ProgramError, merge_equal_uses

_KINDS_BY_HLO_NAME = {collective.hlo_name: collective.name for collective in COLLECTIVES.values()}
_REDUCE_OPS = {"add": "sum", "maximum": "max", "minimum": "min"}

_ARRAY_PATTERN = re.compile(r"\b(?!token\b)(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_DTYPE_PATTERN = re.compile(r"(bf|f|s|u|c)(\d+)(\w*)")
_DTYPES = {"bf": "bfloat", "f": "float", "s": "int", "u": "uint", "c": "complex"}

# The largest number of operands in which a source line is searched.
_MAX_SEARCHED_OPERANDS = 64

_COMPUTATION_PATTERN = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", re.MULTILINE)
_CALLED_COMPUTATION_PATTERN = re.compile(
    r"\b(?:calls|to_apply|condition|body|(?:true|false)_computation"
    r"|(?:branch|called)_computations)=(\{[^}]*\}|%?[\w.-]+)"
)
_NAME_PATTERN = re.compile(r"[\w.-]+")
# Instructions whose brackets contain a value and not the names of operands.
_OPS_WITHOUT_OPERANDS = ("constant", "parameter", "iota")
_RANK_COUNTS_PATTERN = re.compile(r"\b(?:num_partitions|replica_count)=(\d{1,9})\b")
_MESH_PATTERN = re.compile(r"sdy\.mesh @\w+ = <\[(.*?)\]")
_EXTENT_PATTERN = re.compile(r'"([^"]+)"=(\d+)')
_BRANCHES_PATTERN = re.compile(
    r"\b(?:branch_computations|(?:true|false)_computation)=(\{[^}]*\}|%?[\w.-]+)"
)


def collectives_in_hlo(
    text: str,
    mesh: Mapping[str, int] | None = None,
    source_folder: str = "",
    ranks: int | None = None,
) -> CollectiveUses:
    """Return the collectives that a step of a program runs, the largest payload first.

    Args:
        text: The optimized HLO of the program.
        mesh: The extents of the program's mesh by axis name; None if the program has no mesh.
        source_folder: Paths of source files are shown relative to this folder; empty to shorten all
            paths.
        ranks: The number of ranks, used if the text does not contain the number; None if it is
            unknown.

    Raises:
        ProgramError: The text is not optimized HLO, the text is incomplete, or a collective runs
            over all ranks and their number is unknown.

    """
    try:
        module, head = read_module(text), _COMPUTATION_PATTERN.split(text, maxsplit=1)[0]
        lines = text.rstrip().split("\n")
        if not module.entry or not lines[-1].startswith("}"):
            raise ProgramError(
                "it is no optimized HLO, or it is cut: expected a whole file with an ENTRY "
                f"computation, got {plural(len(module.collectives()), 'collective')} until its end "
                f"at line {len(lines)}, {lines[-1].strip()[:60]!r}"
            )
        axes = MeshAxes(mesh or {}, ranks_in_head(head) or ranks)
        sources = SourceLines(head, source_folder)
        uses = _Inventory(
            module, axes, sources, LoopCounter(module), chain_ids_of_starts(module)
        ).uses_in(module.entry)
    # A number in the text may be too long, and a computation may call itself.
    except (RecursionError, ValueError) as error:
        raise ProgramError(f"it cannot be read: {str(error)[:100]}") from error
    return tuple(sorted(uses, key=lambda use: (-use.payload_bytes, use.name, use.source)))


def mesh_in_stablehlo(stablehlo_text: str) -> dict[str, int]:
    """Return the extents of the largest mesh in a program's StableHLO, by axis name.

    `stablehlo_text` is the text of the program before XLA compiles it. The result is empty if the
    text contains no mesh.
    """
    texts = map(_EXTENT_PATTERN.findall, _MESH_PATTERN.findall(stablehlo_text))
    meshes = [{axis: int(extent) for axis, extent in extents} for extents in texts if extents]
    return max(meshes, key=lambda mesh: math.prod(mesh.values()), default={})


def ranks_in_head(head: str) -> int | None:
    """Return the number of ranks of a program: replicas x partitions.

    `head` is the HLO before the first computation. Returns None if the head contains neither
    number. Raises ProgramError if the product is larger than MAX_RANKS.
    """
    counts = [int(count) for count in _RANK_COUNTS_PATTERN.findall(remove_quoted_parts(head))]
    if math.prod(counts) > MAX_RANKS:
        raise ProgramError(f"it is for {math.prod(counts)} ranks, expected at most {MAX_RANKS}")
    return math.prod(counts) if counts else None


def is_scheduled(head: str) -> bool:
    """Return whether HLO is the final result of the compiler, in which instructions are ordered.

    `head` is the HLO before the first computation.
    """
    return "is_scheduled=true" in remove_quoted_parts(head)


def check_complete(text: str) -> None:
    """Raise ProgramError if a computation or an instruction of the HLO is missing or occurs twice.

    Each computation must also have exactly one instruction that is its result, marked with ROOT.
    """
    called = (
        computation
        for part in set(_CALLED_COMPUTATION_PATTERN.findall(remove_quoted_parts(text)))
        for computation in _NAME_PATTERN.findall(part)
    )
    _check_names(_COMPUTATION_PATTERN.findall(text), called)
    for computation, instructions in read_module(text).computations.items():
        roots = sum(instruction.text.startswith("ROOT ") for instruction in instructions)
        if roots != 1:
            raise ProgramError(f"{computation!r} has {roots} ROOT instructions, expected 1")
        required_names = (
            name
            for instruction in instructions
            if instruction.op not in _OPS_WITHOUT_OPERANDS
            for name in instruction.operands
        )
        _check_names([instruction.name for instruction in instructions], required_names)


def _check_names(defined_names: Sequence[str], required_names: Iterable[str]) -> None:
    """Raise ProgramError if a required name is not defined, or if a name is defined twice.

    The names are those of computations or of instructions. Without this check, the collectives that
    remain in a damaged file would be counted without a message.
    """
    missing = sorted(set(required_names) - set(defined_names))
    if missing:
        raise ProgramError(f"it runs {missing[0]!r}, which is missing: expected the whole file")
    twice = [name for name, count in Counter(defined_names).items() if count > 1]
    if twice:
        raise ProgramError(f"it has {twice[0]!r} twice: expected the file as XLA wrote it")


@dataclass
class _Inventory:
    """The collectives of each computation of a program.

    The collectives of a computation are cached, because several instructions may call it.

    Attributes:
        module: The program.
        axes: Finds the groups and mesh axes of a collective.
        sources: Finds the source line of an instruction.
        loop_counter: Counts the turns of loops.
        chains: Maps the name of each computation to the ids of the asynchronous collectives that it
            starts.

    """

    module: Module
    axes: MeshAxes
    sources: SourceLines
    loop_counter: LoopCounter
    chains: Mapping[str, AbstractSet[str]]
    _uses_by_computation: dict[str, CollectiveUses] = field(default_factory=dict)

    def uses_in(self, computation: str) -> CollectiveUses:
        """Return the collectives that a single run of the computation `computation` runs.

        The collectives of called computations are included. Raises ProgramError if a collective
        runs over all ranks and their number is unknown.
        """
        if computation not in self._uses_by_computation:
            instructions = self.module.computations.get(computation, ())
            hiding_counts = count_hiding_operations(self.module, computation)
            by_name = {instruction.name: instruction for instruction in instructions}
            self._uses_by_computation[computation] = merge_equal_uses(
                self._with_source(by_name, instruction, use)
                for instruction in instructions
                for use in self._uses_of_instruction(computation, instruction, hiding_counts)
            )
        return self._uses_by_computation[computation]

    def _uses_of_instruction(
        self, computation: str, instruction: Instruction, hiding_counts: Mapping[str, int]
    ) -> Iterable[CollectiveUse]:
        """Return the collectives that a single run of an instruction in `computation` runs.

        `hiding_counts` maps the name of each instruction that starts a collective to the number of
        operations while the collective is in progress. A collective of a called computation without
        a source line or algorithm gets the source line or algorithm of `instruction`.
        """
        if instruction.op == "while":
            return self._uses_of_loop(computation, instruction)
        if instruction.op == "conditional":
            branches = _NAME_PATTERN.findall(
                " ".join(_BRANCHES_PATTERN.findall(instruction.text_without_quoted_parts))
            )
            # A single branch runs: a collective runs at most as often as in the branch with the
            # most runs.
            most = merge_equal_uses(
                (use for branch in branches for use in self.uses_in(branch)), max
            )
            return [replace(use, at_most=True) for use in most]
        if instruction.collective and is_started_elsewhere(instruction, computation, self.chains):
            return ()
        if instruction.collective:
            return (self._describe_collective(instruction, hiding_counts.get(instruction.name, 0)),)
        # Any other instruction runs the collectives of the computations that it always calls.
        source = self.sources.user_line_of(instruction.text)
        algorithm = algorithm_in_backend_config([instruction])
        # If the result of a fusion is only each rank's part of a sum, its all-reduce counts as a
        # reduce-scatter.
        is_scattered = instruction.op == "fusion" and any(
            map(self._is_reduce_scatter, instruction.called_computations)
        )
        return [
            replace(
                use,
                kind="reduce_scatter" if is_scattered and use.kind == "all_reduce" else use.kind,
                source=use.source or source,
                algorithm=use.algorithm or algorithm,
                hidden_by=hiding_counts.get(instruction.name, use.hidden_by),
            )
            for called in instruction.called_computations
            for use in self.uses_in(called)
        ]

    def _uses_of_loop(self, computation: str, loop: Instruction) -> list[CollectiveUse]:
        """Return the collectives that all turns of a loop together run.

        `loop` is the instruction in `computation` that runs the loop. If the number of turns
        depends on data, the collectives are counted in a single turn.
        """
        parts = loop_computations(loop)
        body = self.uses_in(parts.get("body", ""))
        condition = self.uses_in(parts.get("condition", ""))
        turns = self.loop_counter.count_turns(computation, loop) if body or condition else 0
        if turns is None:
            return [replace(use, per_iteration=True) for use in (*body, *condition)]
        runs = [(use, turns) for use in body] + [(use, turns + 1) for use in condition]
        return [replace(use, times=use.times * count) for use, count in runs if count]

    def _describe_collective(self, instruction: Instruction, hidden_by: int) -> CollectiveUse:
        """Return the collective that an instruction runs or starts, counted as a single run.

        `hidden_by` is the number of operations while the collective is in progress. Raises
        ProgramError if the collective runs over all ranks and their number is unknown.
        """
        ranks, groups, axes = self.axes.find_groups(instruction.text_without_quoted_parts)
        arrays = _result_arrays(instruction)
        result_bytes = sum(array_bytes for _, array_bytes in arrays)
        # The input of a reduce-scatter is larger than its result.
        factor = ranks if instruction.collective == "reduce-scatter" else 1
        applied = [
            part
            for computation in instruction.called_computations
            for part in self.module.computations.get(computation, ())
        ]
        reduce_op = applied[-1].op if applied else ""
        return CollectiveUse(
            kind=_KINDS_BY_HLO_NAME.get(instruction.collective, instruction.collective),
            dtype="+".join(sorted({dtype for dtype, _ in arrays})),
            payload_bytes=min(result_bytes * factor, MAX_PAYLOAD_BYTES),
            ranks=ranks,
            groups=groups,
            axes=axes,
            reduce_op=_REDUCE_OPS.get(reduce_op, reduce_op),
            hidden_by=hidden_by,
            algorithm=algorithm_in_backend_config([instruction]),
            source=self.sources.user_line_of(instruction.text),
        )

    def _with_source(
        self, instructions: Mapping[str, Instruction], instruction: Instruction, use: CollectiveUse
    ) -> CollectiveUse:
        """Return `use` with its own source line or else the line of the nearest operand.

        `instruction` is the instruction that runs the collective `use`. Its operands are searched,
        and then their operands. `instructions` maps the names of all instructions in the
        computation to the instructions.
        """
        names, source = [*instruction.operands], use.source
        while names and not source and len(names) < _MAX_SEARCHED_OPERANDS:
            operand = instructions.get(names.pop(0))
            if operand is not None:
                source = self.sources.user_line_of(operand.text)
                names += operand.operands
        return replace(use, source=source)

    def _is_reduce_scatter(self, computation: str) -> bool:
        """Return whether a fused computation returns only each rank's part of its all-reduce.

        `computation` is the name of the computation.
        """
        instructions = self.module.computations.get(computation, ())
        sums = [
            instruction for instruction in instructions if instruction.collective == "all-reduce"
        ]
        if len(sums) != 1 or not any(
            instruction.op == "dynamic-slice" for instruction in instructions
        ):
            return False
        ranks, *_ = self.axes.find_groups(sums[0].text_without_quoted_parts)
        return sum(instructions[-1].array_bytes) * ranks == sum(sums[0].array_bytes)


def _result_arrays(instruction: Instruction) -> list[tuple[str, int]]:
    """Return (dtype, number of bytes) of each array in the result of a collective.

    `instruction` runs or starts the collective. The shape of an instruction that starts a
    collective also lists the operands, which are left out.
    """
    arrays = [
        (
            _numpy_dtype_name(xla_name),
            math.prod(map(int, filter(None, extents.split(",")))) * int(bits or 8) // 8,
        )
        for xla_name, bits, extents in _ARRAY_PATTERN.findall(instruction.shape)
    ]
    count = len(instruction.operands)
    if instruction.op == "send":
        return arrays[:1]
    if instruction.op.endswith("-start") and (
        instruction.op != "all-reduce-start" or instruction.shape[:2] == "(("
    ):
        return arrays[count : 2 * count]
    return arrays


def _numpy_dtype_name(xla_name: str) -> str:
    """Return numpy's name for XLA's name of a dtype, such as bfloat16 for ``bf16``.

    An unknown name is returned unchanged.
    """
    match = _DTYPE_PATTERN.fullmatch(xla_name)
    if match is None:
        return xla_name.replace("pred", "bool")
    letters, bits, form = match.groups()
    return f"{_DTYPES[letters]}{bits}" + (f"_{form}" if form else "")
