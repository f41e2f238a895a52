"""The enums, and the text of sizes and durations; values are in seconds and bytes."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence

KIB = 1024
MIB = 1024**2
GIB = 1024**3


class Device(enum.StrEnum):
    """The class of device that a collective runs on; limits and rules depend on it."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


class FailureKind(enum.StrEnum):
    """Why a request gave no Run. `OTHER_DTYPE`: the compiler takes a wider dtype instead.

    `PROGRAM_ERROR`: the user's own program raised, or gives what is none.
    """

    UNAVAILABLE = "UNAVAILABLE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    KILLED = "KILLED"
    CRASHED = "CRASHED"
    TIMEOUT = "TIMEOUT"
    WRONG_RESULT = "WRONG_RESULT"
    NOT_A_COLLECTIVE = "NOT_A_COLLECTIVE"
    OTHER_DTYPE = "OTHER_DTYPE"
    WRONG_WORLD = "WRONG_WORLD"
    COMPILE_ERROR = "COMPILE_ERROR"
    PROGRAM_ERROR = "PROGRAM_ERROR"

    @property
    def words(self) -> str:
        """The kind in words, such as ``out of memory``."""
        return self.value.lower().replace("_", " ")


class Clock(enum.StrEnum):
    """What a time was read from; times of different clocks are never compared.

    `host`: the slope of a chain's time over its length. `dispatch`: one call of one collective,
    as users feel it. `device`: the collective's own events in a profiler's trace.
    """

    HOST = "host"
    DISPATCH = "dispatch"
    DEVICE = "device"


class Placement(enum.StrEnum):
    """Where the result is written: over the input, or to another buffer."""

    IN_PLACE = "in_place"
    OUT_OF_PLACE = "out_of_place"


class Extra(enum.StrEnum):
    """What can be injected to test the gate.

    `delay`: a busy loop on every rank in each collective. `memory`: the worker has only so much.
    """

    DELAY = "delay"
    MEMORY = "memory"


class Detection(enum.StrEnum):
    """How running out of memory was found."""

    PREDICTED = "predicted"
    RAISED = "raised"
    KILLED = "killed"


class Outcome(enum.StrEnum):
    """The answer for one case. Extensions have CHANGED and COMPILE_ERROR."""

    PASS = "PASS"
    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    NOISY = "NOISY"
    NO_BASELINE = "NO_BASELINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    INCOMPARABLE = "INCOMPARABLE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    CHANGED = "CHANGED"
    COMPILE_ERROR = "COMPILE_ERROR"


class SessionOutcome(enum.StrEnum):
    """The answer for the whole session, of which the first that holds is the word.

    `busbw.judge` decides which. FAILED: a case failed. MACHINE_SHIFT: a reference stack left its
    own history. SLOWER: all sizes, latency or bandwidth lost more than is worth seeing, though no
    single case need show it. DRIFT: over the sessions since it was accepted, a level became slower.
    NOTHING_COMPARED: all went well, but no case has a baseline or a reference.
    """

    FAILED = "FAILED"
    MACHINE_SHIFT = "MACHINE_SHIFT"
    SLOWER = "SLOWER"
    DRIFT = "DRIFT"
    NO_VERDICT = "NO_VERDICT"
    NOTHING_COMPARED = "NOTHING_COMPARED"
    PASS = "PASS"

    @property
    def is_failure(self) -> bool:
        """Whether the session's test item fails."""
        return self not in (SessionOutcome.NOTHING_COMPARED, SessionOutcome.PASS)


def plural(count: int, noun: str) -> str:
    """Return such as ``1 launch``, ``3 launches`` and ``2 epochs``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}" + ("es" if noun.endswith(("nch", "tch", "s", "x")) else "s")


def cut_short(texts: Sequence[str], most: int, noun: str) -> list[str]:
    """Return the first `most` of `texts`, and how many more there are, such as of cases."""
    more = len(texts) - most
    return [*texts[:most], *([f"and {plural(more, noun)} more"] if more > 0 else [])]


def payload_text(payload_bytes: int) -> str:
    """Write a payload: ``1K`` for 1024 bytes, ``1024M`` for 2^30, other sizes in bytes."""
    if payload_bytes and payload_bytes % MIB == 0:
        return f"{payload_bytes // MIB}M"
    if payload_bytes and payload_bytes % KIB == 0:
        return f"{payload_bytes // KIB}K"
    return str(payload_bytes)


def payload_of(text: str) -> int:
    """Return the bytes that `payload_text` writes as `text`. Raises ValueError for another text."""
    match = re.fullmatch("([0-9]{1,15})([KM]?)", text)
    payload_bytes = int(match[1]) * {"K": KIB, "M": MIB}.get(match[2], 1) if match else 0
    if not payload_bytes or payload_text(payload_bytes) != text:
        raise ValueError(f"expected a size such as 4K, got {text[:60]!r}")
    return payload_bytes


def bytes_text(count: int, decimals: int = 1) -> str:
    """Write a number of bytes in the binary unit that reads best, such as ``11.5 GiB``."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{count / size:.{decimals}f} {unit}"
    return f"{count} bytes"


def seconds_text(seconds: float, digits: int = 4) -> str:
    """Write a duration in the unit that reads best, to some digits, such as ``812.4 us``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_rounded(seconds / size, digits)} {unit}"
    return f"{_rounded(seconds / 1e-6, digits)} us"


def _rounded(value: float, digits: int) -> str:
    """Round to `digits` significant digits, without an exponent where 999.6 becomes 1000."""
    return f"{float(f'{value:.{digits}g}'):g}"


def change_text(change: float) -> str:
    """Write a relative change without its sign, with three digits below 10 %: ``3.1 %``."""
    return f"{100 * abs(change):.3g} %" if abs(change) < 0.1 else f"{100 * abs(change):.0f} %"


def by_text(change: float) -> str:
    """Write by how much something grew or fell: ``by 3.1 %``, from 100 % on ``to 2.1 x``."""
    return f"by {change_text(change)}" if change < 1 else f"to {1 + change:.2g} x"


def ratio_text(ratio: float) -> str:
    """Write two digits after the point, or three below 1.1, or one from 10 on, up to 9999."""
    if ratio >= 10_000:
        return "over 9999"
    return f"{ratio:.3f}" if ratio < 1.1 else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def rate_text(bytes_per_s: float) -> str:
    """Write a rate in GB/s (10^9 bytes/s) with three significant digits, such as ``3.40 GB/s``."""
    rate = bytes_per_s / 1e9
    decimals = max(0, 2 - math.floor(math.log10(rate))) if rate > 0 else 0
    return f"{rate:.{decimals}f} GB/s"


# Beyond it, a list is cut short.
_LIST_CHARACTERS = 110


def refusal(text: str, accepted: Sequence[str]) -> str:
    return f"expected one of {listed(accepted)}, got {text[:60]!r}"


def listed(accepted: Sequence[str], where: str = "--help") -> str:
    """Return all words, or the first ones that fit on a line, and `where` all are listed."""
    text = ", ".join(accepted)
    if len(text) <= _LIST_CHARACTERS:
        return text
    first = list(accepted)
    while len(", ".join(first)) > _LIST_CHARACTERS / 2:
        first.pop()
    others = plural(len(accepted) - len(first), "other")
    return f"{', '.join(first)} and {others}, which {where} lists"
