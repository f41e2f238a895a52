"""The verdict of a session: whether what was asked for was measured, and what cases have in common.

Sizes of one kind make a curve; what all cases share may be slower though none shows it. Says
nothing of single cases, and changes none of their verdicts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw import stats
from busbw.model import (
    Answer,
    Case,
    CaseVerdict,
    Measurement,
    Outcome,
    SessionOutcome,
    SessionVerdict,
    Summary,
    Verdict,
    payload_text,
    plural,
)

from .curve import Curve, SizeShift, fit
from .policy import CURVE_FREEDOM, MOST_NOISY, Policy
from .regression_shape import LocatedRegression, curve_shift, locate
from .rule import Shared

# Losses that differ by less are told in one figure.
_ALIKE = 1.5
# As many failed cases are named in the answer for the stack.
_MOST_NAMED = 3


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
    verdicts: Sequence[Verdict], policy: Policy, *, in_turn: bool = False
) -> tuple[SizeGroup, ...]:
    """The groups of those verdicts that have a time, in their order; of two stacks `in_turn`."""
    found: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.case is not None and verdict.now is not None:
            alike = verdict.case.key.family, verdict.case.protocol
            found.setdefault(alike, []).append(verdict)
    return tuple(
        _group(alike, policy, groups=len(found) if in_turn else None) for alike in found.values()
    )


def _group(verdicts: Sequence[Verdict], policy: Policy, *, groups: int | None) -> SizeGroup:
    """One of `groups` that are tested for a shift of the curve; None: none is."""
    now = fit(_points({v.spec.payload_bytes: v.now for v in verdicts}))
    before = fit(_points({v.spec.payload_bytes: v.baseline for v in verdicts}))
    compared = [v for v in verdicts if v.ratio is not None and v.ratio_error is not None]
    sizes = _sizes(compared)
    tail = [v.spec.payload_bytes for v in compared if v.tail_ratio is not None]
    case = verdicts[0].case
    assert case is not None
    return SizeGroup(
        case=case,
        before=before,
        now=now,
        located=locate(before, sizes, tail=tail) if sizes else None,
        shifted=curve_shift(
            before,
            sizes,
            quantile=stats.t_quantile(
                policy.looks.false_alarms_of_curves / (3 * groups), CURVE_FREEDOM
            ),
            floor=policy.looks.floor,
        )
        if sizes and groups is not None
        else None,
    )


def _points(summaries: Mapping[int, Summary | None]) -> dict[int, float]:
    return {
        payload: summary.median_s for payload, summary in summaries.items() if summary is not None
    }


def _sizes(verdicts: Sequence[Verdict]) -> list[SizeShift]:
    return [
        SizeShift(
            payload_bytes=v.spec.payload_bytes,
            log_ratio=math.log(v.ratio or 1.0),
            standard_error=v.ratio_error or 0.0,
            significant=v.outcome is Outcome.REGRESSED,
        )
        for v in verdicts
    ]


def slower_text(name: str, cases: int, shared: Shared) -> str:
    """A sentence if all `cases` of `name` are slower together, else ""."""
    if not shared.is_slower:
        return ""
    return (
        f"{name}: all {plural(cases, 'case')} together take {math.exp(shared.off):.3f} x the "
        f"time (limit {math.exp(shared.limit):.3f} x)"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What is known of a session in addition to its cases.

    `asked_to_skip` names an option by which the user asked that benchmarks should not run.
    `missing` are baselines of selected cases that could not be measured, `fallen_back` clocks and
    algorithms that are not those of the baseline; `suspected` are cases that look slower without
    a confirmation. `slower` says what all sizes, latency or bandwidth lost, `drifted` which levels
    rose since they were accepted; `accepted`: an update takes both. Sizes next to each other differ
    `noisier` times as much as usual; a NOISY case with a limit below `blind` was judged all the
    same. `machine` is what a locked reference says of the machine, None without one, and
    `stack_changes` are what tonight's stack has other than it. `expecting`: cases are compared with
    baselines. `accepting`: a measurement becomes the baseline where there is none.
    """

    launches: int
    expecting: bool = True
    accepting: bool = False
    asked_to_skip: str = ""
    missing: tuple[str, ...] = ()
    fallen_back: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    slower: tuple[str, ...] = ()
    drifted: str = ""
    noisier: float = 1.0
    blind: float = 1.0
    accepted: bool = False
    machine: Answer | None = None
    stack_changes: tuple[str, ...] = ()


def judge_session(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> SessionVerdict:
    """FINE, or the first of: NO_VERDICT, DRIFT, SLOWER, MACHINE_SHIFT, with every reason for it.

    There is no verdict if no case gave a time, if a launch or a baseline's case is missing, if a
    clock or an algorithm fell back, if more than a tenth of the cases judged are noisy, or if the
    user asked to skip: such a session is not green, whatever its cases say. Without any time a
    session is FINE only if every case ran out of memory as its baseline expects.
    """
    reasons = tuple(_reasons(verdicts, measurements, about))
    if reasons:
        text = "; ".join(reasons)
        return session_verdict(SessionOutcome.NO_VERDICT, text, verdicts, machine=about.machine)
    if about.machine is not None:
        return _answered(verdicts, measurements, about, about.machine)
    slower = "; ".join(about.slower)
    if slower and about.expecting:
        slower += "; stack or machine: unknown"
    text = "; ".join(part for part in (about.drifted, slower) if part)
    if text and not about.accepted:
        outcome = SessionOutcome.DRIFT if about.drifted else SessionOutcome.SLOWER
        return session_verdict(outcome, text, verdicts)
    parts = [_measured(verdicts, measurements), detectable_text(verdicts)]
    parts += [f"accepted: {text}"] if text else []
    return session_verdict(SessionOutcome.FINE, "; ".join(filter(None, parts)), verdicts)


def _answered(
    verdicts: Sequence[Verdict],
    measurements: Sequence[Measurement],
    about: Circumstances,
    machine: Answer,
) -> SessionVerdict:
    """The verdict where a locked reference tells stack and machine apart: it answers both."""
    stack = _stack_answer(verdicts, about)
    if about.slower:
        outcome = SessionOutcome.SLOWER
    else:
        outcome = SessionOutcome.MACHINE_SHIFT if machine.is_slower else SessionOutcome.FINE
    changed = ", ".join(about.stack_changes) or "the same versions"
    parts = (
        *((_measured(verdicts, measurements),) if not about.slower else ()),
        f"the stack ({changed}): {stack.text}",
        f"the machine: {machine.text}",
    )
    return session_verdict(outcome, "; ".join(parts), verdicts, stack=stack, machine=machine)


def _stack_answer(verdicts: Sequence[Verdict], about: Circumstances) -> Answer:
    """What tonight's stack does that the reference does not, or that nothing is slower."""
    failed = sorted((v for v in verdicts if v.failed), key=lambda v: v.ratio or 0.0, reverse=True)
    parts = [_failed_case(one) for one in failed[:_MOST_NAMED]]
    more = len(failed) - len(parts)
    parts += [f"and {plural(more, 'case')} more"] if more else []
    parts += about.slower
    slower = bool(about.slower) or any(v.outcome is Outcome.REGRESSED for v in failed)
    if not parts:
        parts = ["nothing slower", *filter(None, [detectable_text(verdicts)])]
    return Answer(text="; ".join(parts), is_slower=slower)


def _failed_case(verdict: Verdict) -> str:
    name = verdict.case.name if verdict.case else verdict.spec.id
    ratio = f" {verdict.ratio:.3f} x the time" if verdict.ratio else ""
    return f"{verdict.outcome.value} {name}{ratio}"


def detectable_text(verdicts: Sequence[Verdict]) -> str:
    """What loss would have been flagged with 95 % probability; empty where nothing was compared."""
    found = sorted((v.spec.payload_bytes, v.detectable) for v in verdicts if v.detectable)
    if not found:
        return ""
    least, most = min(one for _, one in found), max(one for _, one in found)
    if most - 1 < _ALIKE * (least - 1):
        return f"a loss of {_loss_text(most)} would have been flagged"
    worst = {
        size: (
            max(one for other, one in found if other < size),
            max(one for other, one in found if other >= size),
        )
        for size in sorted({size for size, _ in found})[1:]
    }
    if not worst:
        return f"a loss of {_loss_text(most)} would have been flagged"
    # Of all sizes that could part them, the one by which the least is said of each.
    size = min(worst, key=lambda one: sum(worst[one][other >= one] for other, _ in found))
    below, above = worst[size]
    return (
        f"a loss of {_loss_text(above)} from {payload_text(size)} up and of {_loss_text(below)} "
        "below would have been flagged"
    )


def _loss_text(ratio: float) -> str:
    """Rounded up, to half a per cent below ten."""
    step = 0.5 if ratio < 1.1 else 1.0
    return f"{step * math.ceil(100 * (ratio - 1) / step - 1e-9):g} %"


def session_verdict(
    outcome: SessionOutcome,
    text: str,
    verdicts: Sequence[CaseVerdict],
    *,
    stack: Answer | None = None,
    machine: Answer | None = None,
) -> SessionVerdict:
    """The verdict with `text` and how many cases failed, which comes first if it is FINE."""
    failed = _failed_text(verdicts)
    parts = (failed, text) if outcome is SessionOutcome.FINE else (text, failed)
    return SessionVerdict(
        outcome=outcome,
        text="; ".join(part for part in parts if part),
        stack=stack,
        machine=machine,
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
    if about.noisier > 1:
        yield (
            f"noisier than usual: sizes next to each other differ {about.noisier:.1f} x as much as "
            "in earlier sessions, and limits are wider by that"
        )
    noisy = [
        v
        for v in verdicts
        if v.outcome is Outcome.NOISY and (v.limit is None or v.limit > about.blind)
    ]
    judged = sum(v.ratio is not None for v in verdicts)
    if len(noisy) > MOST_NOISY * judged:
        first = noisy[0].case.name if noisy[0].case else noisy[0].spec.id
        yield f"{len(noisy)} of {plural(judged, 'case')} too noisy to judge, first {first}"
    if about.asked_to_skip:
        option = about.asked_to_skip
        yield f"{option} asks that benchmarks be skipped; a skipped session is not green"
