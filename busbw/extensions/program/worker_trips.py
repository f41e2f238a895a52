"""Count the turns of a loop, from its condition and counter, if the compiler does not note them.

The scalars that the condition needs are followed through copies, tuples and fusions, and the loop
is simulated with these scalars alone. A loop whose condition depends on data cannot be counted.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from busbw.worker.backends.hlo.module import Instruction, Module

_COUNT = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d{1,15})\b')
_PARTS = re.compile(r"\b(condition|body)=%?([\w.-]+)")
_CONSTANT = re.compile(r"\bconstant\((-?\d{1,19}|true|false)\)")
_NUMBER = re.compile(r"\b(?:index=|parameter\()(\d{1,9})\b")
_DIRECTION = re.compile(r"\bdirection=(\w+)")

# The most instructions that are evaluated to count the turns of a loop, and the first integer that
# is too large for 64 bits.
_MOST_STEPS, _HALF = 300_000, 2**63

_COMPUTE: Mapping[str, Callable[..., Any]] = {
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
    "sign": lambda a: (a > 0) - (a < 0),
    "select": lambda condition, a, b: a if condition else b,
    # Of negative numbers Python's results differ: compilers round quotients towards zero, and the
    # bits that a shift moves in depend on the width of the dtype.
    "divide": lambda a, b: a // b if a >= 0 < b else _raise_unknown(a),
    "remainder": lambda a, b: a % b if a >= 0 < b else _raise_unknown(a),
    "shift-right-logical": lambda a, b: a >> b if a >= 0 <= b else _raise_unknown(a),
    **dict.fromkeys(("copy", "bitcast", "convert", "reshape", "opt-barrier"), lambda same: same),
    **dict.fromkeys(("copy-start", "copy-done"), lambda same: same),
}


def loop_computations(loop: Instruction) -> dict[str, str]:
    """Return the names of the computations of a loop: its ``condition`` and its ``body``."""
    return dict(_PARTS.findall(loop.unquoted_text))


class LoopCounter:
    """Counts the turns of loops; all loops are in the same module."""

    def __init__(self, module: Module) -> None:
        computations = module.computations.items()
        self._instructions = {
            name: {instruction.name: instruction for instruction in instructions}
            for name, instructions in computations
        }
        self._roots = {
            name: instruction.name
            for name, instructions in computations
            for instruction in instructions
            if instruction.text.startswith("ROOT ")
        }
        self._steps = 0

    def count_turns(self, computation: str, loop: Instruction) -> int | None:
        """Return the number of turns of a loop in a computation; None if it depends on data."""
        count = _COUNT.search(loop.text)
        if count is not None:
            return int(count[1])
        self._steps = 0
        try:
            first_element_of = self._evaluate(computation, loop.operands[0], _raise_unknown)
            return self._count_by_simulation(first_element_of, **loop_computations(loop))
        # Simulating a loop that depends on data fails: a name, an operand, an element or a number
        # is missing.
        except (LookupError, RecursionError, TypeError):
            return None

    def _count_by_simulation(self, first_element_of: Any, condition: str, body: str) -> int:
        """Return the number of turns of a loop, by simulating the scalars that its condition needs.

        `first_element_of` returns an element of the loop's tuple before the first turn, by its
        index. Raises LookupError or TypeError if a needed element depends on data.
        """

        @functools.cache
        def element(turn: int, index: int) -> int:
            """Return a scalar of the loop's tuple before the turn with the number `turn`."""
            elements = self._root_value(body, loop_tuple(turn - 1)) if turn else first_element_of
            return (operator.index(elements(index)) + _HALF) % (2 * _HALF) - _HALF

        def loop_tuple(turn: int) -> Callable[[int], Any]:
            return lambda number: partial(element, turn)

        turns = 0
        while self._root_value(condition, loop_tuple(turns)):
            turns += 1
        return turns

    def _root_value(self, computation: str, parameter_of: Callable[[int], Any]) -> Any:
        """Return the result of a computation; `parameter_of` returns a parameter by its number."""
        return self._evaluate(computation, self._roots[computation], parameter_of)

    def _evaluate(self, computation: str, name: str, parameter_of: Callable[[int], Any]) -> Any:
        """Return the value of the instruction `name`.

        The value of a tuple is a function that returns an element by its index. `parameter_of`
        returns a parameter of the computation by its number. Raises LookupError or TypeError if the
        value depends on data or takes too many steps.
        """
        instruction = self._instructions[computation][name]
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise LookupError(name)

        def operand(number: int) -> Any:
            return self._evaluate(computation, instruction.operands[number], parameter_of)

        match instruction.op:
            case "constant":
                word = _CONSTANT.findall(instruction.text)[0]
                return int({"true": "1", "false": "0"}.get(word, word))
            case "parameter":
                return parameter_of(int(_NUMBER.findall(instruction.text)[0]))
            case "get-tuple-element":
                return operand(0)(int(_NUMBER.findall(instruction.text)[0]))
            case "tuple":
                return operand
            case "fusion" | "call":
                return self._root_value(instruction.called_computations[0], operand)
        names = (
            _DIRECTION.findall(instruction.text)
            if instruction.op == "compare"
            else [instruction.op]
        )
        return _COMPUTE[names[0]](*map(operand, range(len(instruction.operands))))


def _raise_unknown(number: int) -> int:
    """Raise LookupError, because the value of an argument of the program is not in its text."""
    raise LookupError(number)
