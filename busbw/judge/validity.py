"""Checks and notes that apply to a measurement whatever it is compared with.

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
from busbw.model.launch import Failure, Measurement, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import Ceiling, Verdict
from busbw.model.words import (
    Detection,
    FailureKind,
    Outcome,
    bytes_text,
    rate_text,
)

from .policy import ABOVE_HARDWARE


def find_failed_launches(spec: Spec, measurement: Measurement, prefix: str = "") -> Verdict | None:
    """Return the verdict of a measurement that cannot be judged, or None.

    It is FAILED if a launch died or gave a wrong value, or if some launches ran out of memory
    and others did not; SKIPPED if no launch measured the case because its program is of another
    dtype. The text begins with `prefix`, such as ``the reference: ``.
    """
    verdict = Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=prefix)
    failures, launches = measurement.failures, measurement.launches
    if launches == 0:
        return replace(verdict, text=f"{prefix}it was not measured")
    if {failure.kind for failure in failures} == {FailureKind.OTHER_DTYPE} and not measurement.runs:
        text = f"{prefix}{failures[0].message}"
        return replace(verdict, outcome=Outcome.SKIPPED, failed=False, text=text)
    hard = [failure for failure in failures if failure.kind is not FailureKind.OUT_OF_MEMORY]
    counted = hard or (failures if measurement.runs else ())
    if not counted:
        return None
    first = counted[0]
    message = first.first_line if hard else first.message
    text = f"{first.kind.words} in {len(counted)} of {launches} launches: {message}"
    return replace(verdict, text=f"{prefix}{text}", failure=first)


_DETECTED = {
    Detection.PREDICTED: "predicted before touching memory",
    Detection.RAISED: "raised by the framework",
    Detection.KILLED: "the kernel killed the worker",
}


def memory_text(failure: Failure) -> str:
    """Return how much memory a case needs and had, and how that was detected."""
    parts = []
    if failure.needed_bytes is not None:
        parts.append(f"needs {bytes_text(failure.needed_bytes)}")
    if failure.available_bytes is not None:
        parts.append(f"{bytes_text(failure.available_bytes)} available")
    if failure.available_bytes == 0 and failure.process_bytes:
        parts.append(f"as the worker's process takes {bytes_text(failure.process_bytes)} by itself")
    return (
        f"{', '.join(parts) or failure.message} ({_DETECTED[failure.detected or Detection.RAISED]})"
    )


def memory_verdict(
    spec: Spec, failure: Failure, more: str, *, failed: bool, expected: bool = False
) -> Verdict:
    """Return OUT_OF_MEMORY with the text of `failure` and `more`."""
    return Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=failed,
        text=memory_text(failure) + more,
        failure=failure,
        expected=expected,
    )


def is_temporary(failure: Failure) -> bool:
    """Return whether out of memory was predicted only because other programs use memory now."""
    return (
        failure.detected is Detection.PREDICTED
        and failure.needed_bytes is not None
        and failure.capacity_bytes is not None
        and failure.needed_bytes <= failure.capacity_bytes
    )


# The prefix of texts about the reference of a pair.
REFERENCE = "the reference: "


def apply_ceiling(
    verdict: Verdict, key: EnvironmentKey, runs: Sequence[Run], *, paired: bool = False
) -> Verdict:
    """Add the ceiling of the case to its verdict, and fail a case above it.

    The best launch is compared with the ceiling, not the median: the bound holds for every launch,
    and every launch would go into a baseline. A case above what any algorithm can reach is FAILED,
    whatever it was, and has no time. It gets a note instead if the chip's figures are not sure, or
    if another algorithm or the switch can reach the rate. Without a ceiling that is sure, a case is
    FAILED above what all links can give in any shape. A verdict without a time keeps its outcome.

    Args:
        verdict: The verdict so far.
        key: The environment, whose mesh is the shape of the slice.
        runs: The runs of the case, which say what algorithm was chosen.
        paired: Fail the case if the reference is above the ceiling, too: nothing can be compared
            with it.

    """
    case = verdict.case
    if case is None:
        return verdict
    first = runs[0].proof.chosen if runs else {}
    chosen = first if all(run.proof.chosen == first for run in runs) else {}
    ceiling = ceiling_of(key, case, chosen)
    of_links = bound_of(key, case) if ceiling is None or not ceiling.sure else None
    bounds = [bound for bound in (of_links, ceiling) if bound is not None]
    margin = 1 + ABOVE_HARDWARE
    verdict = replace(verdict, ceiling=ceiling)
    sides = {"": verdict.now, REFERENCE: verdict.baseline if paired else None}
    rates = {
        prefix: metrics.busbw_gb_per_s(case, side.best_s) * metrics.GB
        for prefix, side in sides.items()
        if side is not None
    }
    for prefix, rate in rates.items():
        for bound in bounds:
            if rate > margin * bound.most_bytes_per_s:
                return _impossible(verdict, bound, rate, prefix)
    if ceiling is not None and rates.get("", 0.0) > margin * ceiling.bytes_per_s:
        least, most = rate_text(ceiling.bytes_per_s), rate_text(ceiling.most_bytes_per_s)
        limit = (
            f"what links allow without adding up in the switch ({least}): the switch adds up"
            if ceiling.in_switch
            else f"{least} ({ceiling.text}), though not above the {most} that some algorithm may "
            "reach: it used another algorithm"
        )
        begin = f"busbw {rate_text(rates[''])} in the best launch is above"
        return _add_note(verdict, f"{begin} {limit}")
    return verdict


def _impossible(verdict: Verdict, ceiling: Ceiling, rate: float, prefix: str) -> Verdict:
    """Fail a case above what is possible, without its number; the text has what was measured."""
    text = (
        f"{prefix}busbw {rate_text(rate)} in the best launch is above "
        f"{rate_text(ceiling.most_bytes_per_s)}, the most that the hardware allows by any "
        f"algorithm ({ceiling.text}{', adding up in the switch' if ceiling.in_switch else ''})"
    )
    if not ceiling.sure:
        return _add_note(
            verdict, f"{text}: an error of measurement, or the chip's figures are wrong"
        )
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


def _add_note(verdict: Verdict, note: str) -> Verdict:
    return replace(verdict, notes=(*verdict.notes, note))


def note_injections(
    verdicts: Mapping[Spec, Verdict], measurements: Mapping[Spec, Measurement]
) -> dict[Spec, Verdict]:
    """Add a note to the verdict of each case that was slowed down on purpose.

    Such as ``injected delay:5%: measured +5.2 %``, the median over launches.
    """
    noted = dict(verdicts)
    for spec, measurement in measurements.items():
        ratios = [run.injected_ratio for run in measurement.runs if run.injected_ratio is not None]
        if ratios and spec in noted:
            injected = next(run.injected for run in measurement.runs if run.injected)
            change = 100 * (statistics.median(ratios) - 1)
            note = f"injected {injected}: measured {change:+.1f} %"
            noted[spec] = _add_note(noted[spec], note)
    return noted
