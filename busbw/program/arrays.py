"""The arrays that an instruction gives: their dtypes and bytes."""

from __future__ import annotations

import re

from .hlo import Instruction

# Beyond any rank's memory, and beyond what a step of any length runs.
MOST = 10**15

_ARRAY = re.compile(r"\b(pred|token|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_COMMENT = re.compile(r"/\*.*?\*/")
_WORDS = {"bf": "bfloat", "f": "float", "s": "int", "u": "uint", "c": "complex"}
_NUMBERED = re.compile(r"(bf|f|s|u|c)(\d+)(\w*)")


def arrays_of(line: Instruction) -> list[tuple[str, int]]:
    """Return (dtype, bytes) of each array that a collective gives.

    Those that a start takes, which its shape has too, are left out.
    """
    shape = _COMMENT.sub("", line.shape)
    elements = _elements(shape)
    if line.op == "send":
        shape = elements[0] if elements else shape
    elif line.op.endswith("-start") and (line.collective != "all-reduce" or shape.startswith("((")):
        shape = elements[1] if len(elements) > 1 else shape
    return [
        (_dtype(name), _size(extents) * int(bits or 8) // 8)
        for name, bits, extents in _ARRAY.findall(shape)
        if name != "token"
    ]


def _size(extents: str) -> int:
    found = 1
    for word in filter(None, extents.split(",")):
        found = min(found * min(int(word[:16]), MOST), MOST)
    return found


def _elements(shape: str) -> list[str]:
    """Return the text of each element of a tuple, and nothing for another shape."""
    if not shape.startswith("("):
        return []
    found, depth, begin = [], 0, 1
    for at, letter in enumerate(shape):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if (letter == "," and depth == 1) or (letter == ")" and depth == 0):
            found.append(shape[begin:at])
            begin = at + 1
    return found


def _dtype(name: str) -> str:
    """Return ``bf16`` as bfloat16 and ``f8e4m3fn`` as float8_e4m3fn; others as XLA has them."""
    if name == "pred":
        return "bool"
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return name
    return f"{_WORDS[found[1]]}{found[2]}" + (f"_{found[3]}" if found[3] else "")
