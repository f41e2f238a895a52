"""The formulas of algbw and busbw, and the ranges of payloads in options, such as ``1K:1024M``."""

from __future__ import annotations

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.words import SIZE_GRAMMAR, parse_payload, payload_text

BYTES_PER_GB = 1e9

PAYLOAD_GRAMMAR = (
    "a comma list of sizes and ranges; 1K:1024M doubles from size to size, 8:128M:4 grows by the "
    f"factor 4. A size is {SIZE_GRAMMAR}"
)

# A larger factor between neighbours of a range is probably a mistake.
_MAX_FACTOR = 1024


def parse_payloads(text: str) -> tuple[int, ...]:
    """Return the payloads in a comma list of payloads and ranges, such as ``1K,4K:64K:4``.

    The payloads are in bytes, ascending, each once. A range ``begin:end``, such as ``1K:1024M``,
    doubles from `begin` on and ends with the last payload that is not above `end`. A range
    ``begin:end:4`` grows by a factor of four, as with ``-f 4`` of nccl-tests. Raises ValueError for
    any other text; the message says which texts are accepted.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        sizes.update(_payload_range(part) if ":" in part else (parse_payload(part),))
    return tuple(sorted(sizes))


def _payload_range(text: str) -> list[int]:
    """Return the payloads in bytes of a range such as ``1K:1024M`` or ``8:128M:4``.

    Raises ValueError for any other text.
    """
    begin, last, *factors = text.split(":")
    factor = factors[0].strip() if factors else "2"
    if len(factors) > 1 or not factor.isdecimal() or not 2 <= int(factor) <= _MAX_FACTOR:
        raise ValueError(
            f"{text[:60]!r} is not a range; expected begin:end, such as 1K:1024M, which doubles, "
            f"or begin:end:factor, such as 8:128M:4, with a factor from 2 to {_MAX_FACTOR}; other "
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
    """Return the algbw, payload divided by time, in GB/s (10^9 bytes/s).

    `payload_bytes` is the larger of a rank's input and output buffer, and `seconds` is the time of
    a collective.
    """
    return payload_bytes / seconds / BYTES_PER_GB


def bus_factor_of(collective: str, ranks: int) -> float:
    """Return busbw / algbw of a collective over n = `ranks` ranks: 2(n-1)/n for all-reduce."""
    return COLLECTIVES[collective].bus_factor(ranks)


def busbw_gb_per_s(case: Case, seconds: float) -> float:
    """Return the busbw of `case` in GB/s (10^9 bytes/s), if a collective takes `seconds`.

    busbw is algbw times `bus_factor_of`, and can be compared with the bandwidth of the links.
    """
    return algbw_gb_per_s(case.payload_bytes, seconds) * bus_factor_of(
        case.collective, case.group_size
    )
