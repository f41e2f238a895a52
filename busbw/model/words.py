"""Enums, and functions that write payloads, durations, bandwidths and lists as text.

Values are in seconds and bytes.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence

KIB = 1024
MIB = 1024**2
GIB = 1024**3


class Device(enum.StrEnum):
    """The class of device on which a collective runs. Limits and rules depend on it."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


class FailureKind(enum.StrEnum):
    """Why a launch measured no time for a case.

    `OTHER_DTYPE`: the compiler uses a wider dtype than the requested dtype. `WRONG_WORLD`: the
    devices are not the devices for which the case was resolved. `PROGRAM_ERROR`: the user's own
    program raised an error, or is not a program that can be measured.
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
    def text(self) -> str:
        """The kind in words, such as ``out of memory``."""
        return self.value.lower().replace("_", " ")


class Clock(enum.StrEnum):
    """How the time of a collective is read. Times of different clocks are never compared.

    `host`: the slope of a chain's time over its length. `dispatch`: the time of a call with a
    single collective, as users experience it. `device`: the duration of the collective's events in
    the recording of a profiler.
    """

    HOST = "host"
    DISPATCH = "dispatch"
    DEVICE = "device"


class Placement(enum.StrEnum):
    """Where a collective writes its result: over its input, or to another buffer."""

    IN_PLACE = "in_place"
    OUT_OF_PLACE = "out_of_place"


class InjectionKind(enum.StrEnum):
    """The kind of loss that is caused on purpose, to test whether busbw finds it.

    `delay`: each collective has a busy loop on every rank. `memory`: the worker may use only a
    limited amount of memory.
    """

    DELAY = "delay"
    MEMORY = "memory"


class OutOfMemoryDetection(enum.StrEnum):
    """How busbw noticed that a case ran out of memory.

    `predicted`: the memory that the case needs is more than there is, so it was not started.
    `raised`: the framework raised an error. `killed`: the system killed the worker.
    """

    PREDICTED = "predicted"
    RAISED = "raised"
    KILLED = "killed"


class Outcome(enum.StrEnum):
    """The outcome of a case. Only extensions give CHANGED and COMPILE_ERROR."""

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
    """The outcome of a session, the most important first.

    FAILED: a case failed. MACHINE_SHIFT: a locked reference stack is slower than in its history, so
    the machine is slower. SLOWER: all cases of a framework together became slower than noise
    explains, though perhaps no single case fails. DRIFT: a level became slower over the sessions
    since it was accepted. NO_VERDICT: too little was measured, or the
    times are too noisy. NOTHING_COMPARED: the session was measured, but no case has a baseline or a
    reference.
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
        """Whether pytest's item for the whole session fails with this outcome."""
        return self not in (SessionOutcome.NOTHING_COMPARED, SessionOutcome.PASS)


def plural(count: int, noun: str) -> str:
    """Return the count with its noun, such as ``1 launch``, ``3 launches`` or ``2 epochs``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}" + ("es" if noun.endswith(("nch", "tch", "s", "x")) else "s")


def shorten_list(texts: Sequence[str], max_count: int, noun: str) -> list[str]:
    """Return the first `max_count` of `texts`, and a text that counts the rest if there are more.

    `noun` names an item of the list, such as ``case`` for ``and 3 cases more``.
    """
    more = len(texts) - max_count
    return [*texts[:max_count], *([f"and {plural(more, noun)} more"] if more > 0 else [])]


def payload_text(payload_bytes: int) -> str:
    """Write a payload: ``1K`` for 1024 bytes, ``1024M`` for 2^30, ``1536`` without a whole unit."""
    if payload_bytes and payload_bytes % MIB == 0:
        return f"{payload_bytes // MIB}M"
    if payload_bytes and payload_bytes % KIB == 0:
        return f"{payload_bytes // KIB}K"
    return str(payload_bytes)


def parse_payload_text(text: str) -> int:
    """Return the bytes that `payload_text` writes as `text`.

    Raises ValueError for another form, such as ``1024`` instead of ``1K``.
    """
    match = re.fullmatch("([0-9]{1,15})([KM]?)", text)
    payload_bytes = int(match[1]) * {"K": KIB, "M": MIB}.get(match[2], 1) if match else 0
    if not payload_bytes or payload_text(payload_bytes) != text:
        raise ValueError(f"expected a size such as 4K, got {text[:60]!r}")
    return payload_bytes


def bytes_text(count: int, decimals: int = 1) -> str:
    """Write a number of bytes in the unit that suits it, such as ``11.5 GiB`` or ``12 bytes``."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{count / size:.{decimals}f} {unit}"
    return f"{count} bytes"


def seconds_text(seconds: float, digits: int = 4) -> str:
    """Write a duration in s, ms or us with `digits` significant digits, such as ``812.4 us``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_rounded_text(seconds / size, digits)} {unit}"
    return f"{_rounded_text(seconds / 1e-6, digits)} us"


def _rounded_text(value: float, digits: int) -> str:
    """Write `value` with `digits` significant digits, without an exponent even for ``1000``."""
    return f"{float(f'{value:.{digits}g}'):g}"


def change_text(change: float) -> str:
    """Write a relative change in per cent without its sign, such as ``3.12 %`` for -0.0312."""
    return f"{100 * abs(change):.3g} %" if abs(change) < 0.1 else f"{100 * abs(change):.0f} %"


def ratio_text(ratio: float) -> str:
    """Write a ratio for a table, such as ``1.043``, ``1.28``, ``12.3`` or ``over 9999``."""
    if ratio >= 10_000:
        return "over 9999"
    return f"{ratio:.3f}" if ratio < 1.1 else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def rate_text(bytes_per_s: float) -> str:
    """Write a bandwidth in GB/s (10^9 bytes/s) with three significant digits: ``3.40 GB/s``."""
    rate = bytes_per_s / 1e9
    decimals = max(0, 2 - math.floor(math.log10(rate))) if rate > 0 else 0
    return f"{rate:.{decimals}f} GB/s"


# A longer list would not fit on a line of a terminal, so it is shortened.
_LIST_CHARACTERS = 110


def wrong_choice_text(text: str, choices: Sequence[str]) -> str:
    """Return a message which says that `text` is none of the words in `choices`."""
    return f"expected one of {choices_text(choices)}, got {text[:60]!r}"


def choices_text(choices: Sequence[str], where: str = "--help") -> str:
    """Return the accepted words as a list; if it is too long, the first words and a reference.

    The reference says that `where`, such as ``--help``, lists the other words.
    """
    text = ", ".join(choices)
    if len(text) <= _LIST_CHARACTERS:
        return text
    first = list(choices)
    while len(", ".join(first)) > _LIST_CHARACTERS / 2:
        first.pop()
    others = plural(len(choices) - len(first), "other")
    return f"{', '.join(first)} and {others}, which {where} lists"
