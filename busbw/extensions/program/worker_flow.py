"""Count the operations that run while an asynchronous collective is in progress.

An asynchronous collective is several instructions of HLO: the first starts the collective, others
may continue it, and the last waits for its end. On a TPU each of these instructions can be a fusion
with the chain id of the collective.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from busbw.worker.backends.hlo.module import Instruction, Module

# Instructions that are not counted as operations, because they compute nothing.
_IDLE = {
    *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "copy"),
    *("partition-id", "replica-id", "opt-barrier", "iota", "broadcast", "send", "recv"),
}
_IDLE_TARGETS = re.compile(
    r'custom_call_target="(?:PrepareAsyncCall|AllocateBuffer|ConcatBitcast|AsyncCollective)'
)
_CHAIN = re.compile(r'\bchain_id="(\d+)"')
_INDEX = re.compile(r"\bindex=(\d{1,9})\b")
_STARTS, _ENDS = '"AsyncCollectiveStart"', '"AsyncCollectiveDone"'

# Instructions whose result is their first operand, unchanged in every element of a tuple.
_UNCHANGED = {"bitcast", "copy", "opt-barrier", "add-dependency"}

# Instructions whose result may contain the handle of a collective in progress.
_PASSES_ON = _UNCHANGED | {
    *("tuple", "get-tuple-element", "fusion", "while", "conditional", "call"),
}


class CollectiveInProgress(NamedTuple):
    """A collective that was started and is not waited for yet.

    `start_name` is the name of the instruction that starts it, and `kind` is its opcode or chain
    id. `operations_before` is the number of operations in the computation up to its start.
    """

    start_name: str
    kind: str
    operations_before: int


class _CarriedCollectives(NamedTuple):
    """The collectives in progress that a value of HLO refers to.

    If the value is a tuple, `elements` are the collectives of each of its elements.
    """

    collectives: tuple[CollectiveInProgress, ...]
    elements: tuple[_CarriedCollectives, ...] = ()


_NOTHING = _CarriedCollectives(())


def is_started_elsewhere(instruction: Instruction, computation: Sequence[Instruction]) -> bool:
    """Return whether a collective continues a collective that another computation starts.

    `computation` is the list of instructions to which `instruction` belongs.
    """
    is_start = any(_STARTS in other.text for other in computation)
    return _CHAIN.search(instruction.text) is not None and not is_start


def count_hiding_operations(module: Module, computation: str) -> Mapping[str, int]:
    """Return how many operations run while each collective of a computation is in progress.

    The keys are the names of the instructions that start a collective. A collective that another
    computation waits for counts as 1 operation.
    """
    hidden: dict[str, int] = {}
    values: dict[str, _CarriedCollectives] = {}
    work = 0
    for instruction in module.computations.get(computation, ()):
        carried = _collectives_carried_by(
            instruction, [values.get(name, _NOTHING) for name in instruction.operands]
        )
        step, kind = _step_and_kind(module, instruction)
        if step == "start":
            values[instruction.name] = _CarriedCollectives(
                (CollectiveInProgress(instruction.name, kind, work + _does_work(instruction)),)
            )
        elif step == "done":
            for collective in carried.collectives:
                if collective.kind == kind:
                    hidden.setdefault(collective.start_name, work - collective.operations_before)
        elif instruction.op in _PASSES_ON or step == "update":
            values[instruction.name] = carried
        work += _does_work(instruction)
    in_progress = (part for carried in values.values() for part in carried.collectives)
    return {
        collective.start_name: hidden.get(collective.start_name, 1) for collective in in_progress
    }


def _collectives_carried_by(
    instruction: Instruction, operands: Sequence[_CarriedCollectives]
) -> _CarriedCollectives:
    """Return the collectives in progress that an instruction takes over from its `operands`.

    An instruction that reads a tuple element takes over only the collectives of this element.
    """
    index = _INDEX.search(instruction.text) if instruction.op == "get-tuple-element" else None
    if index is not None and operands and int(index[1]) < len(operands[0].elements):
        return operands[0].elements[int(index[1])]
    if instruction.op in _UNCHANGED and operands:
        return operands[0]
    collectives = tuple(dict.fromkeys(part for operand in operands for part in operand.collectives))
    return _CarriedCollectives(collectives, tuple(operands) if instruction.op == "tuple" else ())


def _step_and_kind(module: Module, instruction: Instruction) -> tuple[str, str]:
    """Return the step of a collective that an instruction is, and the kind of the collective.

    The step is ``start``, ``update`` or ``done``. Any other step means that the instruction is not
    part of an asynchronous collective. The kind is an opcode such as ``all-gather``, or a chain id
    for a fusion.
    """
    if instruction.op == "fusion":
        text = "".join(
            part.text
            for name in instruction.called_computations
            for part in module.computations.get(name, ())
        )
        chain = "".join(_CHAIN.findall(text)[:1])
        return ("start" if _STARTS in text else "done" if _ENDS in text else "fusion", chain)
    kind, _, step = instruction.op.rpartition("-")
    if step == "start" and instruction.is_synchronous:
        return "", kind
    return ("start", instruction.op) if instruction.op == "send" else (step, kind)


def _does_work(instruction: Instruction) -> bool:
    is_idle = instruction.op in _IDLE or instruction.op.endswith(("-start", "-done", "-update"))
    return not is_idle and not _IDLE_TARGETS.search(instruction.text)
