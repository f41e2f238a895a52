"""Whether a measurement can be judged at all, and what is said of it whatever it is compared with.

A launch that died or was wrong, memory that did not suffice, or a rate above what the hardware
allows is an error, not a record. What was injected is a note.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw import metrics
from busbw.hardware.ceiling import bound_of, ceiling_of
from busbw.model.case import Spec
from busbw.model.counters import Counted
from busbw.model.launch import Failure, Measurement, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import Ceiling, Verdict
from busbw.model.words import (
    FailureKind,
    FoundBy,
    Outcome,
    bytes_text,
    rate_text,
)

from .policy import ABOVE_HARDWARE, STOPPED_EXPLAINS


def broken(spec: Spec, measurement: Measurement, whose: str = "") -> Verdict | None:
    """FAILED for a dead or wrong launch, and for out of memory in some launches only.

    SKIPPED for a case that no launch measured because its program is of another dtype.
    `whose` is a prefix of the text, such as ``the reference: ``.
    """

    def verdict(
        text: str, outcome: Outcome = Outcome.FAILED, failure: Failure | None = None
    ) -> Verdict:
        failed, text = outcome is Outcome.FAILED, f"{whose}{text}"
        return Verdict(spec=spec, outcome=outcome, failed=failed, text=text, failure=failure)

    failures, launches = measurement.failures, measurement.launches
    if launches == 0:
        return verdict("it was not measured")
    if {failure.kind for failure in failures} == {FailureKind.OTHER_DTYPE} and not measurement.runs:
        return verdict(failures[0].message, Outcome.SKIPPED)
    hard = [failure for failure in failures if failure.kind is not FailureKind.OUT_OF_MEMORY]
    counted = hard or (failures if measurement.runs else ())
    if not counted:
        return None
    first = counted[0]
    message = first.first_line if hard else first.message
    text = f"{first.kind.words} in {len(counted)} of {launches} launches: {message}"
    return verdict(text, failure=first)


_FOUND = {
    FoundBy.PREDICTED: "predicted before touching memory",
    FoundBy.RAISED: "raised by the framework",
    FoundBy.KILLED: "the kernel killed the worker",
}


def memory_text(failure: Failure) -> str:
    parts = []
    if failure.needed_bytes is not None:
        parts.append(f"needs {bytes_text(failure.needed_bytes)}")
    if failure.available_bytes is not None:
        parts.append(f"{bytes_text(failure.available_bytes)} available")
    if failure.available_bytes == 0 and failure.process_bytes:
        parts.append(f"as the worker's process takes {bytes_text(failure.process_bytes)} by itself")
    return f"{', '.join(parts) or failure.message} ({_FOUND[failure.found or FoundBy.RAISED]})"


def memory_verdict(
    spec: Spec, failure: Failure, more: str, *, failed: bool, expected: bool = False
) -> Verdict:
    return Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=failed,
        text=memory_text(failure) + more,
        failure=failure,
        expected=expected,
    )


def only_at_the_moment(failure: Failure) -> bool:
    """Return whether it was predicted only because memory is in use at the moment."""
    return (
        failure.found is FoundBy.PREDICTED
        and failure.needed_bytes is not None
        and failure.capacity_bytes is not None
        and failure.needed_bytes <= failure.capacity_bytes
    )


# The prefix of texts about the other side of a pair.
WHOSE = "the reference: "


def with_ceiling(
    verdict: Verdict, key: EnvironmentKey, runs: Sequence[Run], *, paired: bool = False
) -> Verdict:
    """`verdict` with the ceiling of its case on `key`, whose mesh is the shape of the slice.

    The best launch is compared with it, not the median: the bound holds for every launch, and every
    one would go into a baseline. Above what any algorithm can reach the case is FAILED, whatever
    it was, and has no time; if the figures are not sure that is a note, and so is a rate that only
    another algorithm or the switch can reach. Where no ceiling is known, or none that is sure, it
    is FAILED above what all links can give in any shape. If `paired`, a reference above it fails
    the case, too: nothing can be compared with it. What has no time keeps its outcome.
    """
    case = verdict.case
    if case is None:
        return verdict
    first = runs[0].proof.chosen if runs else {}
    chosen = first if all(run.proof.chosen == first for run in runs) else {}
    ceiling = ceiling_of(key, case, chosen)
    bounds = [bound_of(key, case) if ceiling is None or not ceiling.sure else None, ceiling]
    held = replace(verdict, ceiling=ceiling)
    sides = {"": verdict.now, **({WHOSE: verdict.baseline} if paired else {})}
    rates = {
        whose: metrics.busbw_gb_per_s(case, side.best_s) * metrics.GB
        for whose, side in sides.items()
        if side is not None
    }
    for whose, rate in rates.items():
        for bound in bounds:
            if bound is not None and _above(rate, bound.most_bytes_per_s):
                return _impossible(held, bound, rate, whose)
    rate = rates.get("", 0.0)
    if ceiling is not None and _above(rate, ceiling.bytes_per_s):
        return _noted(held, _above_one_way(ceiling, rate))
    return held


def _above(rate: float, bound: float) -> bool:
    return rate > (1 + ABOVE_HARDWARE) * bound


def _impossible(verdict: Verdict, ceiling: Ceiling, rate: float, whose: str) -> Verdict:
    """Fail a case above what is possible, without its number; the text has what was measured."""
    text = (
        f"{whose}busbw {rate_text(rate)} in the best launch is above "
        f"{rate_text(ceiling.most_bytes_per_s)}, the most that the hardware allows by any "
        f"algorithm ({ceiling.text}{', adding up in the switch' if ceiling.in_switch else ''})"
    )
    if not ceiling.sure:
        return _noted(verdict, f"{text}: an error of measurement, or the chip's figures are wrong")
    return Verdict(
        spec=verdict.spec,
        outcome=Outcome.FAILED,
        failed=True,
        text=f"{text}: an error of measurement, not a record",
        case=verdict.case,
        published=verdict.published,
        ceiling=verdict.ceiling,
        notes=verdict.notes,
    )


def _above_one_way(ceiling: Ceiling, rate: float) -> str:
    begin = f"busbw {rate_text(rate)} in the best launch is above"
    if ceiling.in_switch:
        return (
            f"{begin} what links allow without adding up in the switch "
            f"({rate_text(ceiling.bytes_per_s)}): the switch adds up"
        )
    return (
        f"{begin} {rate_text(ceiling.bytes_per_s)} ({ceiling.text}), though not above the "
        f"{rate_text(ceiling.most_bytes_per_s)} that some algorithm may reach: "
        "it used another algorithm"
    )


def _noted(verdict: Verdict, note: str) -> Verdict:
    return replace(verdict, notes=(*verdict.notes, note))


def with_counted(
    verdict: Verdict, counted: Counted, *, sampling_s: float = 0.0, paired: bool = False
) -> Verdict:
    """Return `verdict` with what devices and the kernel counted meanwhile.

    A slow case is NOISY where a device was throttled, or where a CPU quota stopped it for long
    enough to explain what it lost in the `sampling_s` seconds of its samples (0: not known). Two
    interleaved stacks are throttled alike, unless one of them is the reason.
    """
    noted = replace(verdict, notes=(*verdict.notes, *counted.texts))
    if verdict.outcome is not Outcome.REGRESSED or not counted.throttling or paired:
        return noted
    lost_s = (1 - 1 / verdict.ratio) * sampling_s if verdict.ratio else 0.0
    if not counted.is_device_throttled and counted.stopped_s < STOPPED_EXPLAINS * lost_s:
        return noted
    text = f"{verdict.text}; {', '.join(counted.throttling)}"
    return replace(noted, outcome=Outcome.NOISY, failed=False, text=text)


def with_injections(
    verdicts: Mapping[Spec, Verdict], measurements: Mapping[Spec, Measurement]
) -> dict[Spec, Verdict]:
    notes = {spec: _case_note(measurement.runs) for spec, measurement in measurements.items()}
    return {
        spec: _noted(verdict, notes[spec]) if notes.get(spec) else verdict
        for spec, verdict in verdicts.items()
    }


def _case_note(runs: Sequence[Run]) -> str:
    """Such as ``injected delay:5%: measured +5.2 %``, the median over the launches."""
    ratios = [run.injected_ratio for run in runs if run.injected_ratio is not None]
    if not ratios:
        return ""
    injected = next(run.injected for run in runs if run.injected)
    return f"injected {injected}: measured {100 * (statistics.median(ratios) - 1):+.1f} %"
