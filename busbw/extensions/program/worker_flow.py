"""Which asynchronous collectives are in progress, and how many operations run meanwhile.

An asynchronous collective is printed as several instructions: one starts it, some may continue it,
and one ends it, which waits for it. On a TPU each can be a fusion, whose collective has a chain id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from busbw.worker.backends.hlo.module import Instruction, Module

# Instructions that a collective cannot hide behind, because they compute nothing.
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

# Instructions that hand on their first operand as it is, each element of a tuple too.
_UNCHANGED = {"bitcast", "copy", "opt-barrier", "add-dependency"}

# Instructions that hand on a collective in progress.
_PASSES_ON = _UNCHANGED | {
    *("tuple", "get-tuple-element", "fusion", "while", "conditional", "call"),
}


class InProgress(NamedTuple):
    """A collective in progress: the name of its start, its kind, and the work done before it."""

    name: str
    kind: str
    before: int


class _Carried(NamedTuple):
    """The collectives in progress that a value and, for a tuple, each element hands on."""

    parts: tuple[InProgress, ...]
    elements: tuple[_Carried, ...] = ()


_NOTHING = _Carried(())


def is_continued(line: Instruction, computation: Sequence[Instruction]) -> bool:
    """Tell whether a collective is a part of one that another computation starts."""
    is_start = any(_STARTS in other.text for other in computation)
    return _CHAIN.search(line.text) is not None and not is_start


def hidden_by(module: Module, computation: str) -> Mapping[str, int]:
    """Return how many operations run while each collective of a computation is in progress.

    The keys are the names of the instructions that start a collective. Where another computation
    ends the collective, that computation counts as one operation, whatever else runs.
    """
    hidden: dict[str, int] = {}
    values: dict[str, _Carried] = {}
    work = 0
    for line in module.computations.get(computation, ()):
        carried = _carried_by(line, [values.get(name, _NOTHING) for name in line.operands])
        step, kind = _step_of(module, line)
        if step == "start":
            values[line.name] = _Carried((InProgress(line.name, kind, work + _works(line)),))
        elif step == "done":
            for part in carried.parts:
                if part.kind == kind:
                    hidden.setdefault(part.name, work - part.before)
        elif line.op in _PASSES_ON or step == "update":
            values[line.name] = carried
        work += _works(line)
    parts = (part for carried in values.values() for part in carried.parts)
    return {part.name: hidden.get(part.name, 1) for part in parts}


def _carried_by(line: Instruction, operands: Sequence[_Carried]) -> _Carried:
    """Return what a line would hand on; an element of a tuple hands on nothing of the others."""
    index = _INDEX.search(line.text) if line.op == "get-tuple-element" else None
    if index is not None and operands and int(index[1]) < len(operands[0].elements):
        return operands[0].elements[int(index[1])]
    if line.op in _UNCHANGED and operands:
        return operands[0]
    parts = tuple(dict.fromkeys(part for operand in operands for part in operand.parts))
    return _Carried(parts, tuple(operands) if line.op == "tuple" else ())


def _step_of(module: Module, line: Instruction) -> tuple[str, str]:
    """Return ``start``, ``done`` or ``update``, and which kind of collective; others for none."""
    if line.op == "fusion":
        parts = (
            part for name in line.called_computations for part in module.computations.get(name, ())
        )
        text = "".join(part.text for part in parts)
        chain = "".join(_CHAIN.findall(text)[:1])
        return ("start" if _STARTS in text else "done" if _ENDS in text else "fusion", chain)
    kind, _, step = line.op.rpartition("-")
    if step == "start" and line.is_waited_for_at_once:
        return "", kind
    return ("start", line.op) if line.op == "send" else (step, kind)


def _works(line: Instruction) -> bool:
    is_idle = line.op in _IDLE or line.op.endswith(("-start", "-done", "-update"))
    return not is_idle and not _IDLE_TARGETS.search(line.text)
