"""Checks of a measurement that need no reference, neither a baseline nor another stack.

The checks find failed launches, wrong values, too little memory, and bandwidths above the ceiling
of the hardware. A slowdown that was injected on purpose becomes a note.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from busbw import metrics
from busbw.hardware import ceiling_of, ceiling_of_all_links
from busbw.model.case import CaseSpec
from busbw.model.launch import Failure, Measurement, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import BandwidthCeiling, Verdict
from busbw.model.words import (
    FailureKind,
    Outcome,
    OutOfMemoryDetection,
    bandwidth_text,
    bytes_text,
)

from .policy import CEILING_MARGIN


def judge_failed_launches(
    spec: CaseSpec, measurement: Measurement, text_prefix: str = ""
) -> Verdict | None:
    """Return the verdict on a measurement that cannot be compared because launches failed.

    The verdict is

    - None if no launch failed, or if all launches ran out of memory, which the caller judges
    - SKIPPED if the compiler replaced the dtype in every launch
    - FAILED if there is no launch, if some launches but not all ran out of memory, or if a launch
      failed for another reason, such as a wrong value

    The text of the verdict begins with `text_prefix`, such as ``the reference: ``.
    """
    verdict = Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=text_prefix)
    failures, launches = measurement.failures, measurement.launch_count
    if launches == 0:
        return replace(verdict, text=f"{text_prefix}it was not measured")
    if {failure.kind for failure in failures} == {FailureKind.OTHER_DTYPE} and not measurement.runs:
        text = f"{text_prefix}{failures[0].message}"
        return replace(verdict, outcome=Outcome.SKIPPED, failed=False, text=text)
    hard = [failure for failure in failures if failure.kind is not FailureKind.OUT_OF_MEMORY]
    counted = hard or (failures if measurement.runs else ())
    if not counted:
        return None
    first = counted[0]
    message = first.first_line if hard else first.message
    text = f"{first.kind.text} in {len(counted)} of {launches} launches: {message}"
    return replace(verdict, text=f"{text_prefix}{text}", failure=first)


_DETECTION_TEXTS = {
    OutOfMemoryDetection.PREDICTED: "predicted before touching memory",
    OutOfMemoryDetection.RAISED: "raised by the framework",
    OutOfMemoryDetection.KILLED: "the kernel killed the worker",
}


def out_of_memory_text(failure: Failure) -> str:
    """Return how much memory a case needs, how much was free, and how the shortage was detected.

    `failure` is an out-of-memory failure of the case.
    """
    parts, detection = [], failure.detected or OutOfMemoryDetection.RAISED
    if failure.needed_bytes is not None:
        parts.append(f"needs {bytes_text(failure.needed_bytes)}")
    if failure.available_bytes is not None:
        parts.append(f"{bytes_text(failure.available_bytes)} available")
    if failure.available_bytes == 0 and failure.process_bytes:
        parts.append(f"as the worker's process takes {bytes_text(failure.process_bytes)} by itself")
    return f"{', '.join(parts) or failure.message} ({_DETECTION_TEXTS[detection]})"


def out_of_memory_verdict(
    spec: CaseSpec,
    failure: Failure,
    text_suffix: str,
    *,
    is_failed: bool,
    is_expected: bool = False,
) -> Verdict:
    """Return the verdict OUT_OF_MEMORY, whose text describes `failure` and ends with `text_suffix`.

    `is_failed` says whether the test of the case fails. `is_expected` says whether the baseline or
    the reference ran out of memory, too.
    """
    return Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=is_failed,
        text=out_of_memory_text(failure) + text_suffix,
        failure=failure,
        expected=is_expected,
    )


def would_fit_without_other_programs(failure: Failure) -> bool:
    """Return whether a case that ran out of memory would fit if no other program used memory.

    `failure` is the out-of-memory failure. Returns False if the shortage was not predicted before
    the case used memory, because the needed memory is unknown then.
    """
    return (
        failure.detected is OutOfMemoryDetection.PREDICTED
        and failure.needed_bytes is not None
        and failure.capacity_bytes is not None
        and failure.needed_bytes <= failure.capacity_bytes
    )


# The beginning of texts about the reference of two interleaved stacks.
REFERENCE_PREFIX = "the reference: "


def apply_ceiling(
    verdict: Verdict, key: EnvironmentKey, runs: Sequence[Run], *, is_paired: bool = False
) -> Verdict:
    """Return the verdict with the ceiling of its case, FAILED if the case is above the ceiling.

    The ceiling is the busbw that the hardware allows. The busbw of the best launch is compared with
    the ceiling, because the ceiling holds for every launch. The first of these rules that applies
    decides:

    1. If the busbw is more than 5 % (CEILING_MARGIN) above the busbw of the best possible algorithm
       (`BandwidthCeiling.most_bytes_per_s`), the case is FAILED, and its time is removed. But if
       the stated bandwidths of the chip are not trusted (`BandwidthCeiling.sure`), the case is
       FAILED only above the bandwidth of all links together, and otherwise gets a note.
    2. If the busbw is only above the ceiling of the algorithm that the compiler chose, the case
       gets a note: the hardware used another algorithm, or the network switch between the chips
       added up the data.
    3. Otherwise the outcome stays the same. The outcome also stays the same if the verdict has no
       time.

    Args:
        verdict: The verdict so far.
        key: The environment, whose mesh is the shape of the slice.
        runs: The runs of the case, which record the algorithm that the compiler chose.
        is_paired: Whether two stacks are interleaved. The case then also fails if the reference is
            above the ceiling, because such a reference is not comparable.

    """
    case = verdict.case
    if case is None:
        return verdict
    first = runs[0].proof.chosen if runs else {}
    chosen = first if all(run.proof.chosen == first for run in runs) else {}
    ceiling = ceiling_of(key, case, chosen)
    of_links = ceiling_of_all_links(key, case) if ceiling is None or not ceiling.sure else None
    bounds = [bound for bound in (of_links, ceiling) if bound is not None]
    margin = 1 + CEILING_MARGIN
    verdict = replace(verdict, ceiling=ceiling)
    sides = {"": verdict.now, REFERENCE_PREFIX: verdict.baseline if is_paired else None}
    rates = {
        prefix: metrics.busbw_gb_per_s(case, side.best_s) * metrics.BYTES_PER_GB
        for prefix, side in sides.items()
        if side is not None
    }
    for prefix, rate in rates.items():
        for bound in bounds:
            if rate > margin * bound.most_bytes_per_s:
                return _judge_above_ceiling(verdict, bound, rate, prefix)
    if ceiling is not None and rates.get("", 0.0) > margin * ceiling.bytes_per_s:
        least, most = bandwidth_text(ceiling.bytes_per_s), bandwidth_text(ceiling.most_bytes_per_s)
        limit = (
            f"what links allow without adding up in the switch ({least}): the switch adds up"
            if ceiling.in_switch
            else f"{least} ({ceiling.text}), though not above the {most} that some algorithm may "
            "reach: it used another algorithm"
        )
        begin = f"busbw {bandwidth_text(rates[''])} in the best launch is above"
        return _add_note(verdict, f"{begin} {limit}")
    return verdict


def _judge_above_ceiling(
    verdict: Verdict, ceiling: BandwidthCeiling, busbw_bytes_per_s: float, text_prefix: str
) -> Verdict:
    """Return the verdict FAILED, without a time, on a case whose busbw exceeds the ceiling.

    If the figures of the ceiling are not trusted, return the verdict with a note instead.

    Args:
        verdict: The verdict so far.
        ceiling: The ceiling that the busbw exceeds.
        busbw_bytes_per_s: The busbw of the best launch in bytes per second.
        text_prefix: The beginning of the text: `REFERENCE_PREFIX` for the busbw of a reference,
            empty for a candidate.

    """
    text = (
        f"{text_prefix}busbw {bandwidth_text(busbw_bytes_per_s)} in the best launch is above "
        f"{bandwidth_text(ceiling.most_bytes_per_s)}, the most that the hardware allows by any "
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
    """Return `verdict` with `note` added to its notes."""
    return replace(verdict, notes=(*verdict.notes, note))


def injection_notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the note on a case that was slowed down on purpose; empty for any other case.

    The note is a text such as ``injected delay:5%: measured +5.2 %``, with the median change of the
    time over all launches.
    """
    ratios = [run.injected_ratio for run in runs if run.injected_ratio is not None]
    if not ratios:
        return ()
    injected = next(run.injected for run in runs if run.injected)
    return (f"injected {injected}: measured {100 * (statistics.median(ratios) - 1):+.1f} %",)
