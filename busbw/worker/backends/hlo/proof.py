"""Prove from the text of a compiled program that it is the collective of a case.

Each iteration of the loop holds exactly the expected collectives, of the payload's bytes and over
the expected ranks. No collective is anywhere else, and nothing else reads or writes the payload.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, AbstractCollective, groups_of, pairs_of
from busbw.model.case import Case
from busbw.model.launch import Proof
from busbw.model.words import Clock, Device, FailureKind, Placement

from ..base import MeasuringError, not_a_collective
from .module import COLLECTIVES as KINDS
from .module import Instruction, Module, algorithm_of, read

# How many characters of an instruction a message shows, and how many of a part of it.
_INSTRUCTION_CHARACTERS, _PART_CHARACTERS = 300, 100
_ELEMENT = re.compile(r"([a-z]+\d+)\[")

# Operations that begin a computation whose result is waited for later.
_WRAPPERS = {"call-start", "async-start", "custom-call-start", "fusion-start"}
_STARTS = {*_WRAPPERS, *(f"{kind}-start" for kind in KINDS)}

# Operations that write nothing themselves. The computations that they call are examined.
_WRITES_NOTHING = {
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
    """What an iteration of the program's loop must hold.

    `strict`: there must be no other copy of the payload. `copied_first`: a copy of the input may
    belong to the collective. `may_widen`: the compiler may compute in float32 instead, and then
    there is no time of the case.
    """

    case: Case
    per_round: int
    strict: bool
    copied_first: bool = False
    may_widen: bool = False

    @property
    def collective(self) -> AbstractCollective:
        """The collective of the case."""
        return COLLECTIVES[self.case.collective]

    @property
    def result_bytes(self) -> int:
        """The bytes of a collective's result on one rank."""
        return self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)

    @property
    def block_bytes(self) -> int:
        """The bytes of the smallest part of the payload."""
        return max(1, self.case.payload_bytes // self.collective.parts(self.case.group_size))

    @property
    def pairs(self) -> set[tuple[int, ...]]:
        """The (source, target) ranks of a collective that sends to single ranks, else none."""
        positions = self.collective.pairs(self.case.group_size)
        return {(group[a], group[b]) for group in self.case.groups for a, b in positions}

    @property
    def text(self) -> str:
        """A phrase such as ``4 all-reduce of 4096 bytes (float32) over 4 ranks``."""
        where = "" if self.case.clock is Clock.DISPATCH else " in each round of the loop"
        size = f"{self.result_bytes} bytes ({self.case.dtype})"
        return (
            f"{self.per_round} {self.collective.hlo} of {size} "
            f"over {self.case.group_size} ranks{where}"
        )


def expect(
    case: Case, per_round: int, *, device: Device, has_injection: bool = False
) -> ExpectedLoop:
    """Return what the program of a case must hold.

    Copies of the payload are allowed beside injected work, and in a single call: its time has them
    as users have them.
    """
    collective = COLLECTIVES[case.collective]
    strict = (
        collective.copy_free
        and not has_injection
        and case.clock is not Clock.DISPATCH
        and (device is Device.CPU or collective.copy_free_on_accelerators)
    )
    return ExpectedLoop(
        case=case,
        per_round=per_round,
        strict=strict,
        copied_first=device is Device.GPU
        and collective.in_place_on_gpus
        and case.placement == Placement.OUT_OF_PLACE.value,
        may_widen=device is Device.CPU,
    )


@dataclass(frozen=True)
class ProvedLoop:
    """What an iteration of a proved program's loop holds.

    `around` are instructions other than `collectives` that write a part of the payload, and
    `around_loop` those of a call, outside of the loop. `starts`: the collective is started, and
    waited for later.
    """

    collectives: tuple[Instruction, ...]
    around: tuple[Instruction, ...]
    around_loop: tuple[Instruction, ...]
    starts: bool = False


def prove(text: str, expected: ExpectedLoop) -> Proof:
    """Return what a program holds. Raises MeasuringError as `prove_loop` does."""
    loop = prove_loop(text, expected)
    return Proof(
        collectives=dict(Counter(instruction.collective for instruction in loop.collectives)),
        payload_copies=len(loop.around),
        copies_per_call=len(loop.around_loop),
        algorithm=expected.case.strategy,
        chosen=algorithm_of(loop.collectives),
        array_bytes=expected.result_bytes,
        groups=expected.case.groups,
    )


def prove_loop(text: str, expected: ExpectedLoop) -> ProvedLoop:
    """Return the instructions of a program's loop.

    Raises:
        MeasuringError: NOT_A_COLLECTIVE with the text of the wrong instruction, and OTHER_DTYPE if
            the only difference is that each collective is of as many elements of float32.

    """
    module = read(text)
    is_looped = expected.case.clock is not Clock.DISPATCH
    bodies = module.loop_bodies() if is_looped else (module.entry,)
    reached = [instruction for name in bodies for instruction in module.reached(name)]
    collectives = [instruction for instruction in reached if instruction.collective]
    _check_number(module, collectives, expected)
    is_widened = expected.may_widen and all(
        _is_widened(instruction, expected) for instruction in collectives
    )
    for instruction in collectives:
        _check_collective(instruction, expected, is_widened=is_widened)
    if is_widened:
        kind = f"{expected.case.dtype} {expected.collective.hlo}"
        message = f"XLA's CPU compiler computes this {kind} in float32"
        raise MeasuringError(FailureKind.OTHER_DTYPE, message)
    around = [instruction for name in bodies for instruction in _writers(module, name, expected)]
    # A TPU may hold a small payload in its own memory while the collective runs.
    copies = [
        instruction
        for instruction in around
        if not instruction.moves_between_memories
        and not (expected.copied_first and _is_copied_for(instruction, collectives))
    ]
    if copies and expected.strict:
        raise not_a_collective(f"the payload is copied between collectives: {_excerpt(copies[0])}")
    return ProvedLoop(
        collectives=tuple(collectives),
        around=tuple(around),
        around_loop=tuple(_writers(module, module.entry, expected)) if is_looped else (),
        starts=any(
            instruction.op in _STARTS and not instruction.is_waited_for_at_once
            for instruction in reached
        ),
    )


def _check_number(module: Module, collectives: list[Instruction], expected: ExpectedLoop) -> None:
    everywhere = module.collectives()
    right = [
        instruction
        for instruction in collectives
        if instruction.collective == expected.collective.hlo
    ]
    if len(right) == len(collectives) == len(everywhere) == expected.per_round:
        return
    odd = next((instruction for instruction in everywhere if instruction not in right), None)
    kinds = dict(Counter(instruction.collective for instruction in everywhere))
    counts = f"{kinds or 'none'}, {len(right)} of them there"
    example = f", such as {_excerpt(odd)}" if odd is not None else ""
    raise not_a_collective(f"expected {expected.text}, XLA compiled {counts}{example}")


def _is_widened(instruction: Instruction, expected: ExpectedLoop) -> bool:
    """Return whether a collective has as many elements of float32 as the case has narrower ones."""
    narrow, wide = DTYPES[expected.case.dtype].size_bytes, DTYPES["float32"].size_bytes
    is_float32 = set(_ELEMENT.findall(_result(instruction))) == {"f32"}
    has_count = instruction.result_bytes * narrow == expected.result_bytes * wide
    return narrow < wide and is_float32 and has_count


def _check_collective(
    instruction: Instruction, expected: ExpectedLoop, *, is_widened: bool
) -> None:
    case = expected.case
    if instruction.result_bytes != expected.result_bytes and not is_widened:
        raise not_a_collective(f"expected {expected.text}, XLA compiled {_excerpt(instruction)}")
    if expected.pairs:
        is_right = set(pairs_of(instruction.text) or ()) == expected.pairs
    else:
        groups = groups_of(instruction.text, case.ranks)
        is_right = groups is not None and set(groups) == set(case.groups)
    if not is_right:
        braced = ",".join("{" + ",".join(map(str, group)) + "}" for group in case.groups)
        raise not_a_collective(
            f"expected {expected.text} in groups {braced[:_PART_CHARACTERS]}, "
            f"XLA compiled {_excerpt(instruction)}"
        )


def _result(instruction: Instruction) -> str:
    """Return the name and the shape of an instruction's result."""
    return instruction.text.partition(f" {instruction.op}(")[0]


def _excerpt(instruction: Instruction) -> str:
    result = _result(instruction)[:_PART_CHARACTERS]
    return f"{result} {instruction.op}(...):\n{instruction.text[:_INSTRUCTION_CHARACTERS]}"


def _writers(module: Module, name: str, expected: ExpectedLoop) -> list[Instruction]:
    """Return the instructions, but collectives, that write an array as large as a block."""
    return [
        instruction
        for instruction in module.reached(name, fused=False)
        if not instruction.collective
        and instruction.op not in _WRITES_NOTHING
        and not (instruction.op in _WRAPPERS and instruction.called)
        and not instruction.op.endswith(("-done", "-update"))
        and "AllocateBuffer" not in instruction.text
        and max(instruction.array_bytes, default=0) >= expected.block_bytes
    ]


def _is_copied_for(copy: Instruction, collectives: list[Instruction]) -> bool:
    """Return whether an instruction copies the input of a collective."""
    return copy.op == "copy" and any(line.operands == (copy.name,) for line in collectives)
