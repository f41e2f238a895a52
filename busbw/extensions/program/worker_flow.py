"""Count the operations during asynchronous collectives, and the turns of loops, in optimized HLO.

An asynchronous collective consists of several instructions of HLO: the first instruction starts the
collective, further instructions may continue the collective, and the last instruction waits for its
end. On a TPU each of these instructions can be a fusion (several operations in one instruction)
with the chain id, a number that the compiler gives the collective.

If the compiler does not note how many turns a loop makes, the turns are counted from the loop's
condition and counter. The scalars that the condition needs are followed through copies, tuples and
fusions, and the loop is simulated with these scalars alone. A loop whose condition depends on data
cannot be counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from busbw.worker.backends.hlo import Instruction, Module

# Instructions that are not counted as operations, because they compute nothing.
_UNCOUNTED_OPS = {
    *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "copy"),
    *("partition-id", "replica-id", "opt-barrier", "iota", "broadcast", "send", "recv"),
}
_UNCOUNTED_CALL_TARGETS_PATTERN = re.compile(
    r'custom_call_target="(?:PrepareAsyncCall|AllocateBuffer|ConcatBitcast|AsyncCollective)'
)
_CHAIN_ID_PATTERN = re.compile(r'\bchain_id="(\d+)"')
# A comment in a shape, such as /*index=5*/, is no index.
_NUMBER_PATTERN = re.compile(r"(?<!\*)\b(?:index=|parameter\()(\d{1,9})\b")
_START_MARK, _END_MARK = '"AsyncCollectiveStart"', '"AsyncCollectiveDone"'


def is_continuation(instruction: Instruction, text: str) -> bool:
    """Return whether `instruction` continues a collective that another instruction starts.

    `instruction` is a collective, and `text` is the HLO of the computation that contains it. A TPU
    runs an asynchronous collective in several fusions. Each of these fusions contains the
    collective, but only the first fusion contains a mark of the start.
    """
    return _START_MARK not in text and _CHAIN_ID_PATTERN.search(instruction.text) is not None


def count_hiding_operations(
    instructions: Iterable[Instruction], texts: Mapping[str, str]
) -> Mapping[str, int]:
    """Count the operations that run while a collective of a computation is in progress.

    Args:
        instructions: The instructions of the computation.
        texts: Maps the names of all computations to their HLO.

    Returns:
        The number of operations between the start and the end of each asynchronous collective, by
        the name of the instruction that starts the collective. The number is 1 if the computation
        does not contain the end, for example because the collective ends in another turn of a loop.

    """
    hiding_counts: dict[str, int] = {}
    # The instruction that starts a collective, and the number of operations up to this instruction,
    # by the chain id of the collective or else by the name of the instruction.
    started: dict[str, tuple[str, int]] = {}
    operation_count = 0
    for instruction in instructions:
        called = instruction.called_computations if instruction.op == "fusion" else ()
        text = "".join(texts.get(name, "") for name in called)
        chain_id = "".join(_CHAIN_ID_PATTERN.findall(text)[:1])
        if _END_MARK in text or instruction.op.endswith("-done"):
            start = started.pop(chain_id or instruction.operands[0], None)
            if start is not None:
                hiding_counts[start[0]] = operation_count - start[1]
        operation_count += not (
            instruction.op in _UNCOUNTED_OPS
            or instruction.op.endswith(("-start", "-done", "-update"))
            or _UNCOUNTED_CALL_TARGETS_PATTERN.search(instruction.text)
        )
        if _START_MARK in text or instruction.op == "send" or instruction.op.endswith("-start"):
            hiding_counts[instruction.name] = 1
            started[chain_id or instruction.name] = (instruction.name, operation_count)
    return hiding_counts


_KNOWN_TURNS_PATTERN = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d{1,15})\b')
_CONSTANT_PATTERN = re.compile(r"\bconstant\((-?\d{1,19}|true|false)\)")
_DIRECTION_PATTERN = re.compile(r"\bdirection=(\w+)")

# The most instructions that are evaluated to count the turns of a loop.
_MAX_EVALUATIONS = 300_000

# Instructions whose result has the value of their operand.
_COPYING_OPS = {"copy", "copy-start", "copy-done", "bitcast", "convert", "reshape", "opt-barrier"}

_FUNCTIONS_BY_OP: Mapping[str, Callable[..., Any]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
    "and": operator.and_,
    "or": operator.or_,
    "negate": operator.neg,
    "select": lambda condition, a, b: a if condition else b,
    # Quotients are rounded towards zero.
    "divide": lambda a, b: int(a / b),
    # The bits that are moved into a negative number depend on the width of the dtype.
    "shift-right-logical": lambda a, b: a >> b if a >= 0 else None,
}


class TurnCounter:
    """A counter of the turns that each loop in the program `module` makes."""

    def __init__(self, module: Module) -> None:
        # The result of a computation, which is marked with ROOT, also has the name ROOT.
        self._instructions = {
            computation: {
                name: instruction
                for instruction in instructions
                for name in (instruction.name, instruction.text.partition(" ")[0])
            }
            for computation, instructions in module.computations.items()
        }

    def count_turns(self, computation: str, loop: Instruction) -> int | None:
        """Return the number of turns of `loop`; None if the number depends on data.

        `loop` is the instruction in `computation` that runs the loop. If the HLO of the instruction
        does not state the number, the loop is simulated with the scalars that its condition needs.
        """
        count = _KNOWN_TURNS_PATTERN.search(loop.text)
        if count is not None:
            return int(count[1])
        self._evaluation_numbers = itertools.count()
        # Simulating a loop that depends on data fails: a name, a parameter, an operand, an element
        # or a number is missing.
        with contextlib.suppress(
            ArithmeticError, LookupError, RecursionError, TypeError, ValueError
        ):
            roles = loop.computations_by_role
            # The only parameter of both computations is a tuple, whose elements a turn changes.
            element_of = self._evaluate(computation, loop.operands[0], ().__getitem__)
            for turns in itertools.count():
                if not self._evaluate(roles["condition"][0], "ROOT", [element_of].__getitem__):
                    return turns
                element_of = cache(
                    self._evaluate(roles["body"][0], "ROOT", [element_of].__getitem__)
                )
        return None

    def _evaluate(self, computation: str, name: str, parameter_of: Callable[[int], Any]) -> Any:
        """Return the value of the instruction `name` in `computation`, an integer of 64 bits.

        For a tuple, the value is a function that returns an element by its index. `parameter_of`
        returns the value of a parameter of the computation by the number of the parameter. Raises
        LookupError or TypeError if the value depends on data, or if finding it takes more than
        _MAX_EVALUATIONS steps.
        """
        if next(self._evaluation_numbers) > _MAX_EVALUATIONS:
            raise LookupError(name)
        instruction = self._instructions[computation][name]

        def operand(number: int) -> Any:
            """Return the value of the operand with the index `number`."""
            return self._evaluate(computation, instruction.operands[number], parameter_of)

        if instruction.op in _COPYING_OPS:
            return operand(0)
        match instruction.op:
            case "constant":
                return int(json.loads(_CONSTANT_PATTERN.findall(instruction.text)[0]))
            case "parameter":
                return parameter_of(int(_NUMBER_PATTERN.findall(instruction.text)[0]))
            case "get-tuple-element":
                return operand(0)(int(_NUMBER_PATTERN.findall(instruction.text)[0]))
            case "tuple":
                return operand
            case "fusion" | "call":
                return self._evaluate(instruction.called_computations[0], "ROOT", operand)
        names = *_DIRECTION_PATTERN.findall(instruction.text_without_quoted_parts), instruction.op
        value = _FUNCTIONS_BY_OP[names[0]](*map(operand, range(len(instruction.operands))))
        return ctypes.c_int64(value).value
