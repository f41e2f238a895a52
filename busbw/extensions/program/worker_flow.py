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


class _CarriedCollectives(NamedTuple):
    """The collectives in progress that a value of HLO refers to, by the names of their starts.

    If the value is a tuple, `elements` are the collectives of each of its elements.
    """

    starts: tuple[str, ...]
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
    # The kind of each collective that is in progress, and the number of operations up to its start.
    in_progress: dict[str, tuple[str, int]] = {}
    values: dict[str, _CarriedCollectives] = {}
    work = 0
    for instruction in module.computations.get(computation, ()):
        name, step, kind = instruction.name, *_step_and_kind(module, instruction)
        operands = [values.get(operand, _NOTHING) for operand in instruction.operands]
        carried = _collectives_carried_by(instruction, operands)
        if step == "done":
            for start in carried.starts:
                if start in in_progress and in_progress[start][0] == kind:
                    hidden[start] = work - in_progress.pop(start)[1]
        work += _does_work(instruction)
        if step == "start":
            in_progress[name], values[name] = (kind, work), _CarriedCollectives((name,))
        elif step == "update" or instruction.op in _PASSES_ON:
            values[name] = carried
    return hidden | dict.fromkeys(in_progress, 1)


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
    starts = tuple(dict.fromkeys(start for operand in operands for start in operand.starts))
    return _CarriedCollectives(starts, tuple(operands) if instruction.op == "tuple" else ())


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
