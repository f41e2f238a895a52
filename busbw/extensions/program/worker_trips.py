"""How often a loop runs, from its condition and its counter, where the compiler does not note it.

The scalars that the condition needs are followed through copies, tuples and fusions, and the loop
is run on them alone. A loop that depends on data has no such count.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from busbw.worker.backends.hlo.module import Instruction, Module

_COUNT = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d{1,15})\b')
_PARTS = re.compile(r"\b(condition|body)=%?([\w.-]+)")
_CONSTANT = re.compile(r"\bconstant\((-?\d{1,19}|true|false)\)")
_NUMBER = re.compile(r"\b(?:index=|parameter\()(\d{1,9})\b")
_DIRECTION = re.compile(r"\bdirection=(\w+)")

# A loop whose counter takes more steps of evaluation is not followed; integers have 64 bits.
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
    # Compilers round towards zero and shift by the width of the dtype: negative numbers differ.
    "divide": lambda a, b: a // b if a >= 0 < b else _refuse(a),
    "remainder": lambda a, b: a % b if a >= 0 < b else _refuse(a),
    "shift-right-logical": lambda a, b: a >> b if a >= 0 <= b else _refuse(a),
    **dict.fromkeys(("copy", "bitcast", "convert", "reshape", "opt-barrier"), lambda same: same),
    **dict.fromkeys(("copy-start", "copy-done"), lambda same: same),
}


def loop_parts(loop: Instruction) -> dict[str, str]:
    """Return the names of the computations of a loop: its ``condition`` and its ``body``."""
    return dict(_PARTS.findall(loop.unquoted_text))


class Trips:
    """The loops of one module."""

    def __init__(self, module: Module) -> None:
        computations = module.computations.items()
        self._lines = {name: {line.name: line for line in lines} for name, lines in computations}
        self._roots = {
            name: line.name for name, lines in computations for line in lines if line.is_root
        }
        self._steps = 0

    def count(self, computation: str, loop: Instruction) -> int | None:
        """Return how often a loop of a computation runs, None where that depends on data."""
        count = _COUNT.search(loop.text)
        if count is not None:
            return int(count[1])
        self._steps = 0
        try:
            first = self._value(computation, loop.operands[0], _refuse)
            return self._simulate(first, **loop_parts(loop))
        # What cannot be followed lacks a name, an operand, an element or a number.
        except (LookupError, RecursionError, TypeError):
            return None

    def _simulate(self, first: Any, condition: str, body: str) -> int:
        state: dict[int, int] = {}
        turns = 0

        def element(index: int) -> int:
            """Return an element of the loop's tuple; the first turn needs all that any needs."""
            return state.setdefault(index, operator.index(first(index)))

        while self._root(condition, lambda number: element):
            result = self._root(body, lambda number: element)
            following: dict[int, int] = {}
            while len(following) < len(state):
                for index in state.keys() - following.keys():
                    value = operator.index(result(index))
                    following[index] = (value + _HALF) % (2 * _HALF) - _HALF
            state |= following
            turns += 1
        return turns

    def _root(self, computation: str, inputs: Callable[[int], Any]) -> Any:
        return self._value(computation, self._roots[computation], inputs)

    def _value(self, computation: str, name: str, inputs: Callable[[int], Any]) -> Any:
        """Return a scalar, or for a tuple a function of the index. Raises LookupError."""
        line = self._lines[computation][name]
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise LookupError(name)

        def operand(number: int) -> Any:
            return self._value(computation, line.operands[number], inputs)

        match line.op:
            case "constant":
                word = _CONSTANT.findall(line.text)[0]
                return int({"true": "1", "false": "0"}.get(word, word))
            case "parameter":
                return inputs(int(_NUMBER.findall(line.text)[0]))
            case "get-tuple-element":
                return operand(0)(int(_NUMBER.findall(line.text)[0]))
            case "tuple":
                return operand
            case "fusion" | "call":
                return self._root(line.called_computations[0], operand)
        names = _DIRECTION.findall(line.text) if line.op == "compare" else [line.op]
        return _COMPUTE[names[0]](*map(operand, range(len(line.operands))))


def _refuse(number: int) -> int:
    """Raise LookupError: the value of a program's argument is not in its text."""
    raise LookupError(number)
