"""Recognizes the messages with which JAX, XLA and TensorFlow report that memory ran out.

The numbers of bytes in such a message tell the user how much memory was needed and available.
"""

from __future__ import annotations

import math
import re

from busbw.model.words import FailureKind

from .base import MeasuringError, first_line

_OUT_OF_MEMORY_PATTERN = re.compile(
    r"RESOURCE_EXHAUSTED|ResourceExhausted|[Oo]ut of memory|OOM when allocating|bad_alloc"
)
# The parts of messages that name the needed memory, and the available memory. The first match
# counts. A size without a unit is in bytes.
_NEEDED_BYTES_PATTERNS = (
    re.compile(r"allocat(?:e|ing) (?P<size>\d+) ?bytes"),
    re.compile(r"allocate (?P<size>[\d.]+)(?P<unit>[KMGT])i?B"),
    re.compile(r"total memory required[^(]*\((?P<size>[\d.]+)(?P<unit>[KMGT])\)"),
    re.compile(r"reserve (?P<size>[\d.]+)(?P<unit>[KMGT])"),
    re.compile(r"Used (?P<size>[\d.]+)(?P<unit>[KMGT]) of"),
)
_AVAILABLE_BYTES_PATTERNS = (
    re.compile(r"exceeds available \w+ \((?P<size>[\d.]+)(?P<unit>[KMGT])\)"),
    re.compile(r"Used [\d.]+[KMGT] of (?P<size>[\d.]+)(?P<unit>[KMGT])"),
    re.compile(r"There (?:are|is) (?P<size>[\d.]+)(?P<unit>[KMGT]) free"),
)
# The part of a message that names the shape and the type of the tensor that needed memory.
_TENSOR_PATTERN = re.compile(r"shape ?\[(?P<shape>[\d,]+)\] and type (?P<type>\w+)")
_UNITS = {None: 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TYPE_BYTES = {"float": 4, "int32": 4, "half": 2, "bfloat16": 2, "double": 8}


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the type or the message of an error means that memory ran out.

    The status code of the error is not enough, because JAX reports some of these errors as
    INTERNAL.
    """
    text = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or bool(_OUT_OF_MEMORY_PATTERN.search(text))


def out_of_memory_error(error: BaseException) -> MeasuringError:
    """Return a MeasuringError OUT_OF_MEMORY for a framework's error.

    The numbers of needed and of available bytes are read from the message of `error`, and are None
    if the message does not have them.
    """
    text = str(error)
    return MeasuringError(
        FailureKind.OUT_OF_MEMORY,
        first_line(error),
        needed_bytes=_find_bytes(_NEEDED_BYTES_PATTERNS, text) or _find_tensor_bytes(text),
        available_bytes=_find_bytes(_AVAILABLE_BYTES_PATTERNS, text),
    )


def _find_bytes(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    """Return the size in bytes that the first matching pattern reads from `text`.

    A pattern has the groups ``size`` and, unless the size is in bytes, ``unit``. Returns None if no
    pattern matches.
    """
    match = next(filter(None, (pattern.search(text) for pattern in patterns)), None)
    if match is None:
        return None
    return int(float(match["size"]) * _UNITS[match.groupdict().get("unit")])


def _find_tensor_bytes(text: str) -> int | None:
    """Return the size in bytes of the tensor whose shape and type are in `text`.

    None if `text` has no shape, or if the type is unknown.
    """
    match = _TENSOR_PATTERN.search(text)
    if match is None or match["type"] not in _TYPE_BYTES:
        return None
    return math.prod(map(int, match["shape"].split(","))) * _TYPE_BYTES[match["type"]]
