"""Running out of memory in a framework's own words: recognised, and its figures read.

Text in, values out; standard library only. The words are those of JAX, XLA on TPU and GPU,
and TensorFlow.
"""

from __future__ import annotations

import math
import re

from busbw.model import FailureKind

from .base import MeasuringError

_WORDS = re.compile(
    r"RESOURCE_EXHAUSTED|ResourceExhausted|[Oo]ut of memory|OOM when allocating|bad_alloc"
)
_NEEDED = (
    re.compile(r"allocat(?:e|ing) (?P<size>\d+) ?bytes"),
    re.compile(r"allocate (?P<size>[\d.]+)(?P<unit>[KMGT])i?B"),
    re.compile(r"total memory required[^(]*\((?P<size>[\d.]+)(?P<unit>[KMGT])\)"),
    re.compile(r"reserve (?P<size>[\d.]+)(?P<unit>[KMGT])"),
    re.compile(r"Used (?P<size>[\d.]+)(?P<unit>[KMGT]) of"),
)
_AVAILABLE = (
    re.compile(r"exceeds available \w+ \((?P<size>[\d.]+)(?P<unit>[KMGT])\)"),
    re.compile(r"Used [\d.]+[KMGT] of (?P<size>[\d.]+)(?P<unit>[KMGT])"),
    re.compile(r"There (?:are|is) (?P<size>[\d.]+)(?P<unit>[KMGT]) free"),
)
_TENSOR = re.compile(r"shape ?\[(?P<shape>[\d,]+)\] and type (?P<type>\w+)")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TYPE_BYTES = {"float": 4, "int32": 4, "half": 2, "bfloat16": 2, "double": 8}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a framework's error says that memory ran out, by its type or its words.

    JAX reports some as INTERNAL, so the words count.
    """
    text = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or bool(_WORDS.search(text))


def out_of_memory(error: BaseException) -> MeasuringError:
    """The error as ours: its first line, and the bytes needed and available, where it says."""
    text = str(error).strip()
    return MeasuringError(
        FailureKind.OUT_OF_MEMORY,
        text.splitlines()[0] if text else type(error).__name__,
        needed_bytes=_first(_NEEDED, text) or _tensor_bytes(text),
        available_bytes=_first(_AVAILABLE, text),
    )


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(text)
        if match:
            unit = match.groupdict().get("unit")
            return int(float(match["size"]) * (_UNITS[unit] if unit else 1))
    return None


def _tensor_bytes(text: str) -> int | None:
    """The size of the tensor that TensorFlow could not allocate."""
    match = _TENSOR.search(text)
    if match is None or match["type"] not in _TYPE_BYTES:
        return None
    return (
        math.prod(int(extent) for extent in match["shape"].split(",")) * _TYPE_BYTES[match["type"]]
    )
