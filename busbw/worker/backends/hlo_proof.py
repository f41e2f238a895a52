"""Proves from the optimized HLO of a program that the program runs the collective of a case.

Each turn of the program's loop must contain exactly the expected collectives, with the expected
size and over the expected ranks. The program must contain no other collective. Unless copies are
allowed, no other instruction in the loop may write a part of the payload.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import (
    DTYPES,
    AbstractCollective,
    replica_groups_of,
    source_target_pairs_of,
)
from busbw.model.case import Case
from busbw.model.launch import Proof
from busbw.model.words import Clock, DeviceClass, FailureKind, Placement

from .base import MeasuringError, not_a_collective
from .hlo import HLO_COLLECTIVES, Instruction, Module, algorithm_in_backend_config, read_module

# The number of characters that a message shows of an instruction, and of its result or its groups.
_INSTRUCTION_CHARACTERS, _PART_CHARACTERS = 300, 100
_ELEMENT_TYPE_PATTERN = re.compile(r"([a-z]+\d+)\[")

# Operations that start a computation. The program waits later for the result.
_STARTS_OF_COMPUTATIONS = {"call-start", "async-start", "custom-call-start", "fusion-start"}
_ASYNCHRONOUS_STARTS = {*_STARTS_OF_COMPUTATIONS, *(f"{kind}-start" for kind in HLO_COLLECTIVES)}

# Operations that do not write to memory themselves. The computations that they call are examined.
_OPS_WITHOUT_WRITES = {
    "parameter",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "constant",
    "while",
    "call",
    "opt-barrier",
    "after-all",
    "partition-id",
}


@dataclass(frozen=True)
class ExpectedLoop:
    """The expected content of the loop in the compiled program of a case.

    Attributes:
        collectives_per_turn: The number of collectives in each turn of the loop.
        device: The class of device for which the program is compiled.
        has_injection: Whether the program does injected work, such as a delay.

    """

    case: Case
    collectives_per_turn: int
    device: DeviceClass
    has_injection: bool = False

    @property
    def collective(self) -> AbstractCollective:
        """The collective of the case."""
        return COLLECTIVES[self.case.collective]

    @property
    def result_bytes(self) -> int:
        """The expected size in bytes of the result of a collective on a rank."""
        return self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)

    @property
    def block_bytes(self) -> int:
        """The size in bytes of a block, the smallest part of the payload that a rank sends."""
        return max(
            1, self.case.payload_bytes // self.collective.payload_block_count(self.case.group_size)
        )

    @property
    def source_target_pairs(self) -> set[tuple[int, ...]]:
        """The expected pairs of ranks (source, target) of a collective such as permute.

        In such a collective each rank sends to a single rank. Empty for other collectives.
        """
        positions = self.collective.source_target_pairs(self.case.group_size)
        return {(group[a], group[b]) for group in self.case.rank_groups for a, b in positions}

    @property
    def forbids_copies(self) -> bool:
        """Whether the loop must not copy the payload.

        Copies are allowed if XLA's program of the collective always has copies on this class of
        device, or if the program does injected work. Copies are also allowed if a sample is a
        single call, because a user's call makes these copies, too.
        """
        return (
            self.collective.is_copy_free_on_cpus
            and not self.has_injection
            and self.case.clock is not Clock.DISPATCH
            and (self.device is DeviceClass.CPU or self.collective.is_copy_free_on_accelerators)
        )

    @property
    def description(self) -> str:
        """The expected collectives as a phrase for error messages.

        Such as ``4 all-reduce of 4096 bytes (float32) over 4 ranks in each turn of the loop``.
        """
        where = "" if self.case.clock is Clock.DISPATCH else " in each turn of the loop"
        size = f"{self.result_bytes} bytes ({self.case.dtype})"
        return (
            f"{self.collectives_per_turn} {self.collective.hlo_name} of {size} "
            f"over {self.case.group_size} ranks{where}"
        )


@dataclass(frozen=True)
class ProvedLoop:
    """The content of the loop in a program that was proved to run the expected collectives.

    Attributes:
        collectives: The collectives in a turn of the loop.
        payload_writers: The other instructions in the loop that write an array at least as large as
            a block of the payload.
        payload_writers_per_call: Such instructions outside of the loop, which run once in a call.
        is_asynchronous: Whether the loop starts a computation, and waits for its result later.

    """

    collectives: tuple[Instruction, ...]
    payload_writers: tuple[Instruction, ...]
    payload_writers_per_call: tuple[Instruction, ...]
    is_asynchronous: bool = False


def prove(hlo_text: str, expected_loop: ExpectedLoop) -> Proof:
    """Check that a program runs the expected collectives, and return the proof.

    `hlo_text` is the optimized HLO of the program. Raises MeasuringError as `prove_loop` does.
    """
    loop = prove_loop(hlo_text, expected_loop)
    return Proof(
        collectives=dict(Counter(instruction.collective for instruction in loop.collectives)),
        payload_copies=len(loop.payload_writers),
        copies_per_call=len(loop.payload_writers_per_call),
        algorithm=expected_loop.case.strategy,
        chosen=algorithm_in_backend_config(loop.collectives),
        array_bytes=expected_loop.result_bytes,
        groups=expected_loop.case.rank_groups,
    )


def prove_loop(hlo_text: str, expected_loop: ExpectedLoop) -> ProvedLoop:
    """Check that a program runs the expected collectives, and return the content of its loop.

    Args:
        hlo_text: the optimized HLO of the program.
        expected_loop: the expected content of the loop.

    Raises:
        MeasuringError: NOT_A_COLLECTIVE if the number, the kind, the size or the ranks of the
            collectives are wrong, or if the payload is copied between collectives although
            `expected_loop` forbids this. The message has the wrong instruction, if there is one.
            OTHER_DTYPE if each collective has elements of float32 in place of the case's dtype.

    """
    module = read_module(hlo_text)
    is_looped = expected_loop.case.clock is not Clock.DISPATCH
    bodies = module.outer_loop_body_names() if is_looped else (module.entry,)
    instructions = [line for name in bodies for line in module.unconditional_instructions(name)]
    collectives = [instruction for instruction in instructions if instruction.collective]
    _check_collective_count(module, collectives, expected_loop)
    # Only XLA's compiler for the CPU replaces a dtype.
    uses_float32 = expected_loop.device is DeviceClass.CPU and all(
        _uses_float32(instruction, expected_loop) for instruction in collectives
    )
    for instruction in collectives:
        _check_collective(instruction, expected_loop, uses_float32=uses_float32)
    if uses_float32:
        raise MeasuringError(
            FailureKind.OTHER_DTYPE,
            f"XLA's CPU compiler computes this {expected_loop.case.dtype} "
            f"{expected_loop.collective.hlo_name} in float32",
        )
    writers = [
        writer for name in bodies for writer in _payload_writers(module, name, expected_loop)
    ]
    # A TPU may move a small payload to another of its memories while the collective runs.
    copies = [
        instruction
        for instruction in writers
        if not instruction.moves_between_memories
        and not _is_required_input_copy(instruction, collectives, expected_loop)
    ]
    if copies and expected_loop.forbids_copies:
        raise not_a_collective(f"the payload is copied between collectives: {_excerpt(copies[0])}")
    return ProvedLoop(
        collectives=tuple(collectives),
        payload_writers=tuple(writers),
        payload_writers_per_call=(
            tuple(_payload_writers(module, module.entry, expected_loop)) if is_looped else ()
        ),
        is_asynchronous=any(
            instruction.op in _ASYNCHRONOUS_STARTS and not instruction.is_synchronous
            for instruction in instructions
        ),
    )


def _check_collective_count(
    module: Module, collectives: list[Instruction], expected_loop: ExpectedLoop
) -> None:
    """Raise MeasuringError NOT_A_COLLECTIVE for a wrong number or kind of collectives.

    `module` is the whole program, which must have no collective outside of the loop. `collectives`
    are the collectives in the loop.
    """
    everywhere = module.collectives()
    right = [
        instruction
        for instruction in collectives
        if instruction.collective == expected_loop.collective.hlo_name
    ]
    if len(right) == len(collectives) == len(everywhere) == expected_loop.collectives_per_turn:
        return
    unexpected = next((instruction for instruction in everywhere if instruction not in right), None)
    kinds = dict(Counter(instruction.collective for instruction in everywhere))
    counts = f"{kinds or 'none'}, {len(right)} of them there"
    example = f", such as {_excerpt(unexpected)}" if unexpected is not None else ""
    raise not_a_collective(f"expected {expected_loop.description}, XLA compiled {counts}{example}")


def _uses_float32(instruction: Instruction, expected_loop: ExpectedLoop) -> bool:
    """Return whether a collective has the expected number of elements, but of float32.

    Always False if an element of the case's dtype is as large as a float32.
    """
    narrow, wide = DTYPES[expected_loop.case.dtype].size_bytes, DTYPES["float32"].size_bytes
    is_float32 = set(_ELEMENT_TYPE_PATTERN.findall(_result_name_and_shape(instruction))) == {"f32"}
    has_count = instruction.result_bytes * narrow == expected_loop.result_bytes * wide
    return narrow < wide and is_float32 and has_count


def _check_collective(
    instruction: Instruction, expected_loop: ExpectedLoop, *, uses_float32: bool
) -> None:
    """Raise MeasuringError NOT_A_COLLECTIVE if a collective has a wrong size or wrong ranks.

    With `uses_float32` the size in bytes is not checked, because all collectives of the program
    have elements of float32.
    """
    case = expected_loop.case
    if instruction.result_bytes != expected_loop.result_bytes and not uses_float32:
        raise not_a_collective(
            f"expected {expected_loop.description}, XLA compiled {_excerpt(instruction)}"
        )
    if expected_loop.source_target_pairs:
        is_right = (
            set(source_target_pairs_of(instruction.text) or ()) == expected_loop.source_target_pairs
        )
    else:
        groups = replica_groups_of(instruction.text, case.ranks)
        is_right = groups is not None and set(groups) == set(case.rank_groups)
    if not is_right:
        braced = ",".join("{" + ",".join(map(str, group)) + "}" for group in case.rank_groups)
        raise not_a_collective(
            f"expected {expected_loop.description} in groups {braced[:_PART_CHARACTERS]}, "
            f"XLA compiled {_excerpt(instruction)}"
        )


def _result_name_and_shape(instruction: Instruction) -> str:
    """Return the beginning of an instruction's line: the name and the shape of the result."""
    return instruction.text.partition(f" {instruction.op}(")[0]


def _excerpt(instruction: Instruction) -> str:
    """Return a text that describes an instruction in an error message, in two lines.

    The first line has the result and the operation, the second line the beginning of the
    instruction's text.
    """
    result = _result_name_and_shape(instruction)[:_PART_CHARACTERS]
    return f"{result} {instruction.op}(...):\n{instruction.text[:_INSTRUCTION_CHARACTERS]}"


def _payload_writers(
    module: Module, computation_name: str, expected_loop: ExpectedLoop
) -> list[Instruction]:
    """Return the instructions of a computation that copy or compute a part of the payload.

    Such an instruction is not a collective, and writes an array at least as large as a block of the
    payload. `computation_name` is the name of the computation in `module`.
    """
    return [
        instruction
        for instruction in module.unconditional_instructions(computation_name, includes_fused=False)
        if not instruction.collective
        and instruction.op not in _OPS_WITHOUT_WRITES
        and not (instruction.op in _STARTS_OF_COMPUTATIONS and instruction.called_computations)
        and not instruction.op.endswith(("-done", "-update"))
        and "AllocateBuffer" not in instruction.text
        and max(instruction.array_bytes, default=0) >= expected_loop.block_bytes
    ]


def _is_required_input_copy(
    instruction: Instruction, collectives: list[Instruction], expected_loop: ExpectedLoop
) -> bool:
    """Return whether an instruction is a copy of an input that XLA for GPUs cannot leave out.

    XLA makes such a copy if a collective can only run in place, but must not overwrite its input.
    `collectives` are the collectives in the loop.
    """
    return (
        expected_loop.device is DeviceClass.GPU
        and expected_loop.collective.is_in_place_on_gpus
        and expected_loop.case.placement == Placement.OUT_OF_PLACE.value
        and instruction.op == "copy"
        and any(line.operands == (instruction.name,) for line in collectives)
    )
