"""How often a loop runs, from its condition and its counter, where the compiler does not say it.

The scalars that the condition needs are followed through copies, tuples and fusions, and the loop
is run on them alone. What depends on data has no such count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .hlo import Instruction, Module

_KNOWN = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d{1,15})\b')
_CONDITION, _BODY = re.compile(r"condition=%?([\w.-]+)"), re.compile(r"body=%?([\w.-]+)")
_LITERAL = re.compile(r"\bconstant\((-?\d{1,19}|true|false)\)")
_INDEX, _NUMBER = re.compile(r"\bindex=(\d{1,9})\b"), re.compile(r"\bparameter\((\d{1,9})\)")
_DIRECTION = re.compile(r"\bdirection=(\w+)")

# A loop that turns more often than this, or whose scalars take more steps, is not followed.
_MOST_TURNS, _MOST_DEPTH, _MOST_STEPS = 20_000, 60, 300_000

_PASSES_ON = {"copy", "bitcast", "convert", "reshape", "copy-start", "copy-done", "opt-barrier"}
_COMPARED: Mapping[str, Callable[[int, int], int]] = {
    "LT": lambda a, b: int(a < b),
    "LE": lambda a, b: int(a <= b),
    "GT": lambda a, b: int(a > b),
    "GE": lambda a, b: int(a >= b),
    "EQ": lambda a, b: int(a == b),
    "NE": lambda a, b: int(a != b),
}
_COMPUTED: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}


class _UnknownError(Exception):
    """A scalar that depends on data, or on what is not followed."""


class Trips:
    """The loops of one module. `computations` are looked up by name once."""

    def __init__(self, module: Module) -> None:
        self._lines: dict[str, dict[str, Instruction]] = {}
        self._module = module
        self._steps = 0

    def of(self, computation: str, loop: Instruction) -> int | None:
        """How often the `loop`, an instruction of `computation`, runs; None where data say it."""
        known = _KNOWN.search(loop.text)
        if known is not None:
            return int(known[1])
        condition, body = _CONDITION.search(loop.text), _BODY.search(loop.text)
        if condition is None or body is None or not loop.operands:
            return None
        try:
            return self._run(computation, loop.operands[0], condition[1], body[1])
        except (_UnknownError, RecursionError, OverflowError):
            return None

    def _run(self, computation: str, begin: str, condition: str, body: str) -> int:
        self._steps = 0
        first = self._value(computation, begin, _outside, 0)
        state: dict[int, int] = {}
        turns = 0

        def at(index: int) -> int:
            """All that a turn needs is asked for in the first one: nothing here has branches."""
            if index not in state:
                if turns:
                    raise _UnknownError
                state[index] = _scalar(_element(first, index))
            return state[index]

        while _scalar(self._root(condition, lambda _: at, 0)):
            root = self._root(body, lambda _: at, 0)
            new: dict[int, int] = {}
            while len(new) < len(state):
                new |= {one: _scalar(_element(root, one)) for one in [*state] if one not in new}
            state |= new
            turns += 1
            if turns > _MOST_TURNS:
                raise _UnknownError
        return turns

    def _root(self, name: str, held: Callable[[int], object], depth: int) -> object:
        """Return the lazily computed result of a computation that is called with `held`."""
        lines = self._of(name)
        for one in lines.values():
            if one.text.startswith("ROOT "):
                return self._value(name, one.name.lstrip("%"), held, depth)
        raise _UnknownError

    def _of(self, computation: str) -> dict[str, Instruction]:
        if computation not in self._lines:
            lines = self._module.computations.get(computation, ())
            self._lines[computation] = {one.name.lstrip("%"): one for one in lines}
        return self._lines[computation]

    def _value(
        self, computation: str, name: str, held: Callable[[int], object], depth: int
    ) -> object:
        """Return an int, or for a tuple a function of the index."""
        one = self._of(computation).get(name)
        self._steps += 1
        if one is None or depth > _MOST_DEPTH or self._steps > _MOST_STEPS:
            raise _UnknownError
        op, names = one.op, one.operands

        def operand(number: int) -> object:
            if number >= len(names):
                raise _UnknownError
            return self._value(computation, names[number], held, depth + 1)

        if op == "parameter":
            return held(int(_found(_NUMBER, one.text)))
        if op == "tuple":
            return operand
        if op in _PASSES_ON:
            return operand(0)
        if op == "get-tuple-element":
            return _element(operand(0), int(_found(_INDEX, one.text)))
        if op in ("fusion", "call") and one.called:
            return self._root(one.called[0], operand, depth + 1)
        return _computed(one, operand)


def _computed(one: Instruction, operand: Callable[[int], object]) -> int:
    if one.op == "constant":
        word = _found(_LITERAL, one.text)
        return int(word) if word[-1].isdigit() else int(word == "true")
    compute = _COMPUTED.get(one.op)
    if one.op == "compare":
        compute = _COMPARED.get(_found(_DIRECTION, one.text))
    if compute is None:
        raise _UnknownError
    return compute(_scalar(operand(0)), _scalar(operand(1)))


def _outside(number: int) -> object:
    """Raise _UnknownError: the value of a program's argument is not in its text."""
    raise _UnknownError


def _element(value: object, index: int) -> object:
    if not callable(value):
        raise _UnknownError
    return value(index)


def _scalar(value: object) -> int:
    if not isinstance(value, int) or abs(value) >= 2**63:
        raise _UnknownError
    return value


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None:
        raise _UnknownError
    return found[1]
