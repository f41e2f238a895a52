"""Payload sizes, algbw and busbw: each formula once.

Pure arithmetic on values of `busbw.model`; knows no measurement and no limit.
"""

from __future__ import annotations

import re

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.words import payload_text

GB = 1e9

# A size of MB would be ambiguous: 10^6 bytes or 2^20.
SIZE_GRAMMAR = "a whole number of bytes with K, M or G for 1024, 1024^2, 1024^3, and no B"
PAYLOAD_GRAMMAR = (
    "a comma list of sizes and ranges; 1K:1024M doubles from size to size, 8:128M:4 grows by the "
    f"factor 4. A size is {SIZE_GRAMMAR}"
)

_FACTOR = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
# Of neighbours in a range.
_MOST_FACTOR = 1024
# More digits than the size of any memory has.
_SIZE = re.compile(r"([0-9]{1,15})([KMG]?)", re.IGNORECASE)


def parse_payload(text: str) -> int:
    """Bytes of a size such as ``1K`` (1024), ``1024M`` (2^30) or ``1536``.

    Raises ValueError, with what is accepted, for anything else and for zero.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text[:60]!r} is not a size; expected {SIZE_GRAMMAR}, such as 64K")
    return int(match[1]) * _FACTOR[match[2].upper()]


def parse_payloads(text: str) -> tuple[int, ...]:
    """Payload sizes in bytes, ascending and without repeats, from ``1K:1024M`` or a comma list.

    ``begin:end`` doubles from begin and ends with the last size that is not above end;
    ``begin:end:4`` grows by a factor of four, as ``-f 4`` does in nccl-tests.
    Raises ValueError, with what is accepted, for anything else.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        sizes.update(_payload_range(part) if ":" in part else (parse_payload(part),))
    return tuple(sorted(sizes))


def _payload_range(text: str) -> list[int]:
    begin, last, *factors = text.split(":")
    factor = factors[0].strip() if factors else "2"
    if len(factors) > 1 or not factor.isdecimal() or not 2 <= int(factor) <= _MOST_FACTOR:
        raise ValueError(
            f"{text[:60]!r} is not a range; expected begin:end, such as 1K:1024M, which doubles, "
            f"or begin:end:factor, such as 8:128M:4, with a factor from 2 to {_MOST_FACTOR}; other "
            "sizes are a comma list, such as 1K,8K,64K"
        )
    size, end = parse_payload(begin), parse_payload(last)
    if size > end:
        raise ValueError(
            f"{text[:60]!r} begins above its end ({payload_text(size)} > {payload_text(end)})"
        )
    sizes = []
    while size <= end:
        sizes.append(size)
        size *= int(factor)
    return sizes


def algbw_gb_per_s(payload_bytes: int, seconds: float) -> float:
    """Algorithm bandwidth S/t in GB/s (10^9 bytes/s).

    `payload_bytes` is S, the larger of a rank's input and output (for all-reduce its buffer);
    `seconds` is t, the time of one collective.
    """
    return payload_bytes / seconds / GB


def bus_factor_of(collective: str, ranks: int) -> float:
    """Return busbw / algbw of a collective over `ranks`; each collective derives its own."""
    return COLLECTIVES[collective].bus_factor(ranks)


def busbw_gb_per_s(case: Case, seconds: float) -> float:
    """Bus bandwidth in GB/s: algbw times `bus_factor_of`; comparable with a link's speed."""
    return algbw_gb_per_s(case.payload_bytes, seconds) * bus_factor_of(
        case.collective, case.group_size
    )
