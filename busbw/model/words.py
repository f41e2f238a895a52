"""Enums of the vocabulary, and functions that write numbers and lists as text.

The functions take durations in seconds and sizes in bytes.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence

KIB = 1024
MIB = 1024**2
GIB = 1024**3


class DeviceClass(enum.StrEnum):
    """A class of devices on which a collective can run: CPU, GPU or TPU."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


class FailureKind(enum.StrEnum):
    """The kind of reason why a launch measured no time for a case.

    Attributes:
        UNAVAILABLE: The framework cannot run the case on this machine.
        OUT_OF_MEMORY: The case needs more memory than is free.
        KILLED: The worker was killed, or its host was lost.
        CRASHED: The worker ended without a result, or its reply is invalid.
        TIMEOUT: The worker gave no result in time.
        WRONG_RESULT: A value of the result is not the exact value.
        NOT_A_COLLECTIVE: The compiled program does not do the requested collective.
        OTHER_DTYPE: The compiler uses a wider dtype than the requested dtype.
        WRONG_WORLD: The devices are not the expected devices, or differ between processes.
        COMPILE_ERROR: The compiler refuses the program.
        PROGRAM_ERROR: The user's program raised an error, or cannot be measured.

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
    """The way in which the time of a collective is read.

    Times of different clocks are never compared.

    Attributes:
        HOST: The slope: how much longer a long chain takes than a short chain, per collective.
        DISPATCH: The time of a call with a single collective, as users experience it.
        DEVICE: The duration of the collective's events in a profiler's recording.

    """

    HOST = "host"
    DISPATCH = "dispatch"
    DEVICE = "device"


class Placement(enum.StrEnum):
    """The buffer to which a collective writes its result: its input, or another buffer."""

    IN_PLACE = "in_place"
    OUT_OF_PLACE = "out_of_place"


class OutOfMemoryDetection(enum.StrEnum):
    """The way in which busbw noticed that a case ran out of memory.

    Attributes:
        PREDICTED: The case needs more memory than is free, so the case was not started.
        RAISED: The framework raised an error.
        KILLED: The system killed the worker.

    """

    PREDICTED = "predicted"
    RAISED = "raised"
    KILLED = "killed"


class Outcome(enum.StrEnum):
    """The outcome of a case, as tables and results name it; the worst outcomes come first.

    Attributes:
        FAILED: The case gave no correct result, for example after a crash.
        COMPILE_ERROR: The compiler refuses the program (only from an extension).
        OUT_OF_MEMORY: The case needs more memory than is free.
        REGRESSED: The case is slower than its limit allows, as more launches confirmed.
        CHANGED: The program is compiled differently (only from an extension).
        INCOMPARABLE: The case was measured in another way than its baseline, or ran out of memory
            only because other programs use memory.
        NO_BASELINE: A time was measured, and no baseline exists.
        NOISY: The times vary too much for a decision.
        SKIPPED: The framework does not reach the device, or lacks the dtype.
        IMPROVED: The case is faster than noise explains, or fits into memory now.
        PASS: The case is not slower than its limit allows.

    """

    FAILED = "FAILED"
    COMPILE_ERROR = "COMPILE_ERROR"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    REGRESSED = "REGRESSED"
    CHANGED = "CHANGED"
    INCOMPARABLE = "INCOMPARABLE"
    NO_BASELINE = "NO_BASELINE"
    NOISY = "NOISY"
    SKIPPED = "SKIPPED"
    IMPROVED = "IMPROVED"
    PASS = "PASS"


class SessionOutcome(enum.StrEnum):
    """An outcome of a session; the members are in the order of importance.

    Attributes:
        FAILED: A case failed.
        MACHINE_SHIFT: A locked reference stack is slower than in its history, so the machine is
            slower.
        SLOWER: All cases of a framework together became slower than noise explains, though perhaps
            no single case fails.
        DRIFT: The cases together became slower over several sessions, though no single session
            shows the loss.
        NO_VERDICT: Too little was measured, or the times are too noisy.
        NOTHING_COMPARED: Times were measured, and no case has a baseline or a reference.
        PASS: No other outcome applies.

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
    """Return `count` and the singular or plural of `noun`: ``1 launch`` or ``3 launches``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}" + ("es" if noun.endswith(("nch", "tch", "s", "x")) else "s")


def shorten_list(texts: Sequence[str], max_count: int, noun: str) -> list[str]:
    """Return the first `max_count` of `texts` and, if there are more, ``and 3 cases more``.

    `noun` is the singular of what the texts name, such as ``case``.
    """
    more = len(texts) - max_count
    return [*texts[:max_count], *([f"and {plural(more, noun)} more"] if more > 0 else [])]


def payload_text(payload_bytes: int) -> str:
    """Return a payload as text: ``1K`` for 1024 bytes, ``1024M`` for 2^30.

    A payload that is no multiple of 1024 is a number without a unit, such as ``1500``.
    """
    for unit, size in (("M", MIB), ("K", KIB)):
        if payload_bytes and payload_bytes % size == 0:
            return f"{payload_bytes // size}{unit}"
    return str(payload_bytes)


# A size of MB would be ambiguous: 10^6 bytes or 2^20.
SIZE_GRAMMAR = "a whole number of bytes with K, M or G for 1024, 1024^2, 1024^3, and no B"
_BYTES_PER_UNIT = {"": 1, "K": KIB, "M": MIB, "G": GIB}
# A number of more digits would be larger than any memory.
_SIZE_PATTERN = re.compile(r"([0-9]{1,15})([KMG]?)", re.IGNORECASE | re.ASCII)


def parse_payload(text: str) -> int:
    """Return the bytes of a payload such as ``1K`` (1024), ``1G`` (2^30) or ``1536``.

    Raises ValueError, which says which texts are accepted, for any other text and for zero.
    """
    match = _SIZE_PATTERN.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text[:60]!r} is not a size; expected {SIZE_GRAMMAR}, such as 64K")
    return int(match[1]) * _BYTES_PER_UNIT[match[2].upper()]


def check_payload_text(text: str) -> None:
    """Raise ValueError unless `text` is a payload as `payload_text` writes it: ``1K``, not 1024."""
    if payload_text(parse_payload(text)) != text:
        raise ValueError(f"expected {payload_text(parse_payload(text))}, got {text[:60]!r}")


def bytes_text(count: int, decimals: int = 1) -> str:
    """Return `count` bytes as text in a suitable unit, such as ``11.5 GiB`` or ``12 bytes``.

    `decimals` is the number of decimals; a number of bytes has none.
    """
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{count / size:.{decimals}f} {unit}"
    return f"{count} bytes"


def seconds_text(seconds: float, digits: int = 4) -> str:
    """Return a duration as text in s, ms or us with `digits` significant digits: ``812.4 us``."""
    units = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
    unit, size = next((pair for pair in units if seconds >= pair[1]), units[-1])
    # With two digits 1000 is 1000, not 1e+03.
    return f"{float(f'{seconds / size:.{digits}g}'):g} {unit}"


def change_text(change: float) -> str:
    """Return a relative change in per cent without its sign, such as ``3.12 %`` for -0.0312."""
    return f"{100 * abs(change):.3g} %" if abs(change) < 0.1 else f"{100 * abs(change):.0f} %"


def ratio_text(ratio: float) -> str:
    """Return a ratio as text for a table: ``1.043``, ``1.28``, ``12.3`` or ``over 9999``."""
    if ratio >= 10_000:
        return "over 9999"
    return f"{ratio:.3f}" if ratio < 1.1 else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def bandwidth_text(bytes_per_s: float) -> str:
    """Return a bandwidth in GB/s (10^9 bytes/s) with three significant digits: ``3.40 GB/s``."""
    rate = bytes_per_s / 1e9
    decimals = max(0, 2 - math.floor(math.log10(rate))) if rate > 0 else 0
    return f"{rate:.{decimals}f} GB/s"


# An error message with a longer list would be hard to read.
_MAX_LISTED_CHOICES = 8


def wrong_choice_text(text: str, choices: Sequence[str]) -> str:
    """Return the message of the error that `text` is none of the accepted words, `choices`."""
    return f"expected one of {choices_text(choices)}, got {text[:60]!r}"


def choices_text(choices: Sequence[str]) -> str:
    """Return `choices`, the accepted words, as a comma list that is shortened if it is long.

    The end of a long list is replaced by the number of the words that are left out.
    """
    return ", ".join(shorten_list(choices, _MAX_LISTED_CHOICES, "word"))
