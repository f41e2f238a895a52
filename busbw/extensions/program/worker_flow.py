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

import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, NamedTuple

from busbw.worker.backends.hlo.module import Instruction, Module

# Instructions that are not counted as operations, because they compute nothing.
_UNCOUNTED_OPS = {
    *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "copy"),
    *("partition-id", "replica-id", "opt-barrier", "iota", "broadcast", "send", "recv"),
}
_UNCOUNTED_CALL_TARGETS_PATTERN = re.compile(
    r'custom_call_target="(?:PrepareAsyncCall|AllocateBuffer|ConcatBitcast|AsyncCollective)'
)
_CHAIN_ID_PATTERN = re.compile(r'\bchain_id="(\d+)"')
_NUMBER_PATTERN = re.compile(r"\b(?:index=|parameter\()(\d{1,9})\b")
_STARTS, _ENDS = '"AsyncCollectiveStart"', '"AsyncCollectiveDone"'

# Instructions whose result is their first operand, unchanged in every element of a tuple.
_IDENTITY_OPS = {"bitcast", "copy", "opt-barrier", "add-dependency"}

# Instructions whose result may contain the handle of a collective in progress.
_CARRYING_OPS = _IDENTITY_OPS | {
    *("tuple", "get-tuple-element", "fusion", "while", "conditional", "call"),
}


class _CarriedCollectives(NamedTuple):
    """The collectives in progress to which a value of HLO refers.

    Attributes:
        starts: The names of the instructions that started the collectives.
        elements: If the value is a tuple, the collectives of each of its elements; otherwise empty.

    """

    starts: tuple[str, ...]
    elements: tuple[_CarriedCollectives, ...] = ()


_NO_COLLECTIVES = _CarriedCollectives(())


def chain_ids_of_starts(module: Module) -> Mapping[str, AbstractSet[str]]:
    """Return the chain ids of asynchronous collectives by the computation that starts them.

    Each instruction of such a collective, from its start to its end, has the same ``chain_id``.
    Computations that start no such collective are left out.
    """
    texts = {
        name: "".join(instruction.text for instruction in computation)
        for name, computation in module.computations.items()
    }
    return {
        name: {*_CHAIN_ID_PATTERN.findall(text)} for name, text in texts.items() if _STARTS in text
    }


def is_started_elsewhere(
    instruction: Instruction, computation: str, chains: Mapping[str, AbstractSet[str]]
) -> bool:
    """Return whether `instruction` continues a collective that starts in another computation.

    The result is False if no computation starts the collective: a user, too, can give a collective
    an attribute `chain_id`.

    Args:
        instruction: An instruction that is a collective.
        computation: The name of the computation that contains the instruction.
        chains: Maps the name of each computation to the chain ids of the collectives that the
            computation starts.

    """
    chain = _CHAIN_ID_PATTERN.search(instruction.text)
    is_started = chain is not None and any(chain[1] in started for started in chains.values())
    return is_started and computation not in chains


def count_hiding_operations(module: Module, computation: str) -> Mapping[str, int]:
    """Return how many operations of a computation run while each of its collectives is in progress.

    The keys are the names of the instructions that start the collectives. If another computation
    waits for the end of a collective, the value is 1.
    """
    hiding_counts: dict[str, int] = {}
    # The kind of each collective that is in progress, and the number of operations up to its start.
    in_progress: dict[str, tuple[str, int]] = {}
    values: dict[str, _CarriedCollectives] = {}
    operation_count = 0
    for instruction in module.computations.get(computation, ()):
        name, step, kind = instruction.name, *_part_and_kind(module, instruction)
        operands = [values.get(operand, _NO_COLLECTIVES) for operand in instruction.operands]
        carried = _collectives_carried_by(instruction, operands)
        if step == "done":
            for start in carried.starts:
                if start in in_progress and in_progress[start][0] == kind:
                    hiding_counts[start] = operation_count - in_progress.pop(start)[1]
        is_idle = instruction.op in _UNCOUNTED_OPS or instruction.op.endswith(
            ("-start", "-done", "-update")
        )
        operation_count += not is_idle and not _UNCOUNTED_CALL_TARGETS_PATTERN.search(
            instruction.text
        )
        if step == "start":
            in_progress[name], values[name] = (kind, operation_count), _CarriedCollectives((name,))
        elif step == "update" or instruction.op in _CARRYING_OPS:
            values[name] = carried
    return hiding_counts | dict.fromkeys(in_progress, 1)


def _collectives_carried_by(
    instruction: Instruction, operands: Sequence[_CarriedCollectives]
) -> _CarriedCollectives:
    """Return the collectives in progress to which the result of an instruction refers.

    `operands` are the collectives to which each operand of the instruction refers. An instruction
    that reads a tuple element takes over only the collectives of this element.
    """
    index = (
        _NUMBER_PATTERN.search(instruction.text) if instruction.op == "get-tuple-element" else None
    )
    if index is not None and operands and int(index[1]) < len(operands[0].elements):
        return operands[0].elements[int(index[1])]
    if instruction.op in _IDENTITY_OPS and operands:
        return operands[0]
    starts = tuple(dict.fromkeys(start for operand in operands for start in operand.starts))
    return _CarriedCollectives(starts, tuple(operands) if instruction.op == "tuple" else ())


def _part_and_kind(module: Module, instruction: Instruction) -> tuple[str, str]:
    """Return the part of an asynchronous collective that an instruction is, and the kind.

    The part is ``start``, ``update`` or ``done``. Any other text means that the instruction is not
    part of an asynchronous collective. The kind is the opcode of the collective, such as
    ``all-gather``, or the chain id of a fusion.
    """
    if instruction.op == "fusion":
        text = "".join(
            part.text
            for name in instruction.called_computations
            for part in module.computations.get(name, ())
        )
        chain = "".join(_CHAIN_ID_PATTERN.findall(text)[:1])
        return ("start" if _STARTS in text else "done" if _ENDS in text else "fusion", chain)
    kind, _, step = instruction.op.rpartition("-")
    if step == "start" and instruction.is_synchronous:
        return "", kind
    return ("start", instruction.op) if instruction.op == "send" else (step, kind)


_KNOWN_TURNS_PATTERN = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d{1,15})\b')
_LOOP_COMPUTATIONS_PATTERN = re.compile(r"\b(condition|body)=%?([\w.-]+)")
_CONSTANT_PATTERN = re.compile(r"\bconstant\((-?\d{1,19}|true|false)\)")
_DIRECTION_PATTERN = re.compile(r"\bdirection=(\w+)")

# The most instructions that are evaluated to count the turns of a loop, and the first integer that
# is too large for 64 bits.
_MAX_EVALUATIONS, _INT64_LIMIT = 300_000, 2**63

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
    "sign": lambda a: (a > 0) - (a < 0),
    "select": lambda condition, a, b: a if condition else b,
    # Of negative numbers Python's results differ: compilers round quotients towards zero, and the
    # bits that a shift moves in depend on the width of the dtype.
    "divide": lambda a, b: a // b if a >= 0 < b else _raise_unknown_value(a),
    "remainder": lambda a, b: a % b if a >= 0 < b else _raise_unknown_value(a),
    "shift-right-logical": lambda a, b: a >> b if a >= 0 <= b else _raise_unknown_value(a),
    **dict.fromkeys(("copy", "bitcast", "convert", "reshape", "opt-barrier"), lambda same: same),
    **dict.fromkeys(("copy-start", "copy-done"), lambda same: same),
}


def loop_computations(loop: Instruction) -> dict[str, str]:
    """Return the names of a loop's computations by their roles, ``condition`` and ``body``."""
    return dict(_LOOP_COMPUTATIONS_PATTERN.findall(loop.text_without_quoted_parts))


class LoopCounter:
    """A counter of the turns that the loops of a program make, read from the program's HLO."""

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
        self._evaluation_count = 0

    def count_turns(self, computation: str, loop: Instruction) -> int | None:
        """Return the number of turns of `loop`; None if the number depends on data.

        `loop` is the instruction in `computation` that runs the loop.
        """
        count = _KNOWN_TURNS_PATTERN.search(loop.text)
        if count is not None:
            return int(count[1])
        self._evaluation_count = 0
        try:
            initial_element_of = self._evaluate(computation, loop.operands[0], _raise_unknown_value)
            return self._count_by_simulation(initial_element_of, **loop_computations(loop))
        # Simulating a loop that depends on data fails: a name, an operand, an element or a number
        # is missing.
        except (LookupError, RecursionError, TypeError):
            return None

    def _count_by_simulation(self, initial_element_of: Any, condition: str, body: str) -> int:
        """Return the number of turns of a loop, by simulating the scalars that its condition needs.

        The values that a loop changes are the elements of a tuple. Raises LookupError or TypeError
        if a needed element depends on data.

        Args:
            initial_element_of: Returns the element with a given index before the first turn.
            condition: The name of the computation that decides whether another turn follows.
            body: The name of the computation that a turn runs.

        """

        @functools.cache
        def element(turn: int, index: int) -> int:
            """Return the element `index` of the loop's tuple before the turn number `turn`."""
            elements = self._root_value(body, loop_tuple(turn - 1)) if turn else initial_element_of
            return (operator.index(elements(index)) + _INT64_LIMIT) % (
                2 * _INT64_LIMIT
            ) - _INT64_LIMIT

        def loop_tuple(turn: int) -> Callable[[int], Any]:
            """Return the `parameter_of` whose only parameter is the tuple before turn `turn`."""
            return lambda number: partial(element, turn)

        turns = 0
        while self._root_value(condition, loop_tuple(turns)):
            turns += 1
        return turns

    def _root_value(self, computation: str, parameter_of: Callable[[int], Any]) -> Any:
        """Return the result of the computation with the name `computation`.

        `parameter_of` returns the value of a parameter of the computation by its number.
        """
        return self._evaluate(computation, self._roots[computation], parameter_of)

    def _evaluate(self, computation: str, name: str, parameter_of: Callable[[int], Any]) -> Any:
        """Return the value of the instruction `name` in `computation`.

        The value of a tuple is a function that returns an element by its index. `parameter_of`
        returns the value of a parameter of the computation by its number. Raises LookupError or
        TypeError if the value depends on data or takes too many steps.
        """
        instruction = self._instructions[computation][name]
        self._evaluation_count += 1
        if self._evaluation_count > _MAX_EVALUATIONS:
            raise LookupError(name)

        def operand(number: int) -> Any:
            """Return the value of the operand with the index `number`."""
            return self._evaluate(computation, instruction.operands[number], parameter_of)

        match instruction.op:
            case "constant":
                word = _CONSTANT_PATTERN.findall(instruction.text)[0]
                return int({"true": "1", "false": "0"}.get(word, word))
            case "parameter":
                return parameter_of(int(_NUMBER_PATTERN.findall(instruction.text)[0]))
            case "get-tuple-element":
                return operand(0)(int(_NUMBER_PATTERN.findall(instruction.text)[0]))
            case "tuple":
                return operand
            case "fusion" | "call":
                return self._root_value(instruction.called_computations[0], operand)
        names = (
            _DIRECTION_PATTERN.findall(instruction.text)
            if instruction.op == "compare"
            else [instruction.op]
        )
        return _FUNCTIONS_BY_OP[names[0]](*map(operand, range(len(instruction.operands))))


def _raise_unknown_value(number: int) -> int:
    """Raise LookupError: the value is not known from the text of the program.

    `number` is the number of the unknown parameter, or an operand whose result is unknown.
    """
    raise LookupError(number)
