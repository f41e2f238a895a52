"""The verdict of a session: whether what was asked for was measured, and what cases have in common.

Sizes of one kind make a curve; cases that moved with the anchor mean that the machine runs at
another speed. Says nothing of single cases, and changes none of their verdicts.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw import stats
from busbw.model import (
    Case,
    CaseVerdict,
    Measurement,
    Outcome,
    SessionOutcome,
    SessionVerdict,
    Summary,
    Verdict,
    plural,
)

from .curve import Curve, SizeShift, fit
from .policy import MOST_NOISY, Policy
from .regression_shape import LocatedRegression, curve_shift, locate

# The standard errors of few launches are uncertain themselves: this many degrees of freedom.
_FREEDOM = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeGroup:
    """One framework, collective and strategy over its sizes.

    `before` and `now` are None where no curve can be fitted, `located` where nothing got slower;
    `shifted` is a shift that no single size shows.
    """

    case: Case
    before: Curve | None
    now: Curve | None
    located: LocatedRegression | None
    shifted: LocatedRegression | None


def groups_of_cases(
    verdicts: Sequence[Verdict], policy: Policy, *, paired: bool
) -> tuple[SizeGroup, ...]:
    """The groups of those verdicts that have a time, in their order."""
    found: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.case is not None and verdict.now is not None:
            alike = verdict.case.key.family, verdict.case.protocol
            found.setdefault(alike, []).append(verdict)
    level = policy.false_alarms / max(1, 2 * len(found))
    quantile = stats.t_quantile(level, _FREEDOM)
    return tuple(_group(alike, policy, quantile, paired=paired) for alike in found.values())


def _group(
    verdicts: Sequence[Verdict], policy: Policy, quantile: float, *, paired: bool
) -> SizeGroup:
    now = fit(_points({v.spec.payload_bytes: v.now for v in verdicts}))
    before = fit(_points({v.spec.payload_bytes: v.baseline for v in verdicts}))
    compared = [v for v in verdicts if v.ratio is not None and v.ratio_error is not None]
    sizes = _sizes(compared, paired=paired)
    tail = [v.spec.payload_bytes for v in compared if v.tail_ratio is not None]
    floor = policy.looks.floor if paired else max(tier.floor for tier in policy.tiers)
    certain = not any(v.provisional for v in compared)
    case = verdicts[0].case
    assert case is not None
    return SizeGroup(
        case=case,
        before=before,
        now=now,
        located=locate(before, sizes, tail=tail) if sizes else None,
        shifted=curve_shift(before, sizes, quantile=quantile, floor=floor)
        if sizes and certain
        else None,
    )


def _points(summaries: Mapping[int, Summary | None]) -> dict[int, float]:
    return {
        payload: summary.median_s for payload, summary in summaries.items() if summary is not None
    }


def _sizes(verdicts: Sequence[Verdict], *, paired: bool) -> list[SizeShift]:
    """Sizes of one session share its noise, unless two stacks were measured in turn."""
    shared = 1.0 if paired else math.sqrt(len(verdicts))
    return [
        SizeShift(
            payload_bytes=v.spec.payload_bytes,
            log_ratio=math.log(v.ratio or 1.0),
            standard_error=(v.ratio_error or 0.0) * shared,
            significant=v.outcome is Outcome.REGRESSED,
        )
        for v in verdicts
    ]


# Fewer cases than this are no majority of anything.
_LEAST_CASES = 3

# A case moved with the anchor if it moved in the same direction by half as much, in log time.
_WITH_IT = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """How far a case and its anchor moved since the baseline, in log time."""

    log_ratio: float
    anchor_log_ratio: float


def moved(
    times_s: Sequence[float],
    anchors_s: Sequence[float],
    before_s: Sequence[float],
    before_anchors_s: Sequence[float],
) -> Moved:
    """From launch times and anchors, now and before, at least one of each."""
    return Moved(
        log_ratio=math.log(statistics.median(times_s) / statistics.median(before_s)),
        anchor_log_ratio=math.log(
            statistics.median(anchors_s) / statistics.median(before_anchors_s)
        ),
    )


def environment_shift(cases: Sequence[Moved], policy: Policy) -> str:
    """A sentence if most cases and the anchor moved together, else ""."""
    if len(cases) < _LEAST_CASES:
        return ""
    anchor = statistics.median(one.anchor_log_ratio for one in cases)
    if abs(anchor) <= math.log1p(policy.anchor_shift):
        return ""
    along = [one for one in cases if one.log_ratio * anchor > _WITH_IT * anchor * anchor]
    if 2 * len(along) <= len(cases):
        return ""
    word = "slower" if anchor > 0 else "faster"
    return (
        f"the machine is {word} than with the baselines: the anchor, which has no collective, "
        f"takes {math.exp(anchor):.2f} x the time, and with it moved {len(along)} of "
        f"{len(cases)} cases"
    )


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What changed, such as ``jax 0.10.1 -> 0.10.2``, of what was known before."""
    names = [name for name in now if name in before] + [name for name in before if name not in now]
    return [
        f"{name} {before[name]} -> {now.get(name, 'none')}"
        for name in names
        if before[name] != now.get(name)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What is known of a session in addition to its cases.

    `asked_to_skip` names an option by which the user asked that benchmarks should not run.
    `missing` are baselines of selected cases that could not be measured, `fallen_back` clocks and
    algorithms that are not those of the baseline; `suspected` are cases that look slower without
    a confirmation; `shifted` says how the machine's speed changed, `curve` what moved without any
    single size showing it. `expecting`: cases are compared with baselines. `accepting`: a
    measurement becomes the baseline where there is none.
    """

    launches: int
    expecting: bool = True
    accepting: bool = False
    asked_to_skip: str = ""
    missing: tuple[str, ...] = ()
    fallen_back: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    shifted: str = ""
    curve: tuple[str, ...] = ()


def judge_session(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> SessionVerdict:
    """FINE, or the first of: NO_VERDICT, ENV_SHIFT, CURVE_SHIFT, with every reason for it.

    There is no verdict if no case gave a time, if a launch or a baseline's case is missing, if a
    clock or an algorithm fell back, if more than a tenth of the cases are noisy, or if the user
    asked to skip: such a session is not green, whatever its cases say. Without any time a session
    is FINE only if every case ran out of memory as its baseline expects.
    """
    reasons = tuple(_reasons(verdicts, measurements, about))
    if reasons:
        return session_verdict(SessionOutcome.NO_VERDICT, "; ".join(reasons), verdicts)
    if about.shifted:
        return session_verdict(SessionOutcome.ENV_SHIFT, about.shifted, verdicts)
    if about.curve:
        return session_verdict(SessionOutcome.CURVE_SHIFT, "; ".join(about.curve), verdicts)
    return session_verdict(SessionOutcome.FINE, _measured(verdicts, measurements), verdicts)


def session_verdict(
    outcome: SessionOutcome, text: str, verdicts: Sequence[CaseVerdict]
) -> SessionVerdict:
    """The verdict with `text` and how many cases failed, which comes first if it is FINE."""
    failed = _failed_text(verdicts)
    parts = (failed, text) if outcome is SessionOutcome.FINE else (text, failed)
    return SessionVerdict(
        outcome=outcome,
        text="; ".join(part for part in parts if part),
        failed_cases=sum(verdict.failed for verdict in verdicts),
    )


def _failed_text(verdicts: Sequence[CaseVerdict]) -> str:
    """How many cases failed, by outcome; empty where none did."""
    failed = Counter(verdict.outcome.value for verdict in verdicts if verdict.failed)
    if not failed:
        return ""
    each = ", ".join(f"{count} {name}" for name, count in failed.items())
    return f"{failed.total()} of {plural(len(verdicts), 'case')} failed: {each}"


def _measured(verdicts: Sequence[Verdict], measurements: Sequence[Measurement]) -> str:
    """How many cases gave times, in how many launches, and how many gave none."""
    timed = [measurement for measurement in measurements if measurement.runs]
    if not timed:
        return f"{plural(len(verdicts), 'case')} out of memory, as expected"
    without = len(measurements) - len(timed)
    more = f", {without} without a time" if without else ""
    return f"{plural(len(timed), 'case')} measured in {_launches(timed)} each{more}"


def _launches(measurements: Sequence[Measurement]) -> str:
    counts = {measurement.launches for measurement in measurements}
    if len(counts) == 1:
        return plural(min(counts), "launch")
    return f"{min(counts)} to {max(counts)} launches"


def _without_times(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> Iterator[str]:
    """Why a session in which no launch gave a time has no verdict.

    It has one if everything ran out of memory as the baselines expect, or as they shall from now
    on.
    """
    if any(measurement.runs for measurement in measurements):
        return
    if not any(measurement.failures for measurement in measurements):
        skipped = sorted({v.text for v in verdicts})
        yield "nothing was measured" + (f": {'; '.join(skipped)}" if skipped else "")
        return
    expected = (about.accepting or (v.expected and about.expecting) for v in verdicts)
    if not all(expected) or any(v.outcome is not Outcome.OUT_OF_MEMORY for v in verdicts):
        each = Counter(v.outcome.value for v in verdicts)
        counted = ", ".join(f"{count} {name}" for name, count in each.items())
        yield f"no case gave a time: {counted}"


def _reasons(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> Iterator[str]:
    yield from _without_times(verdicts, measurements, about)
    short = [m.case.name for m in measurements if 0 < m.launches < about.launches]
    if short:
        count = plural(len(short), "case")
        yield f"{count} with fewer than {about.launches} launches, first {short[0]}"
    if about.missing:
        yield f"there are baselines that were not measured: {'; '.join(about.missing)}"
    yield from about.fallen_back
    if about.suspected:
        yield f"suspected and not seen again in the time: {', '.join(about.suspected)}"
    noisy = [v for v in verdicts if v.outcome is Outcome.NOISY]
    if len(noisy) > MOST_NOISY * len(verdicts):
        first = noisy[0].case.name if noisy[0].case else noisy[0].spec.id
        yield f"{len(noisy)} of {plural(len(verdicts), 'case')} too noisy to judge, first {first}"
    if about.asked_to_skip:
        option = about.asked_to_skip
        yield f"{option} asks that benchmarks be skipped; a skipped session is not green"
