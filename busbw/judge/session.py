"""The verdict of a session: whether what was asked for was measured, and what cases have in common.

Sizes of one kind make a curve; what all cases share may be slower though none shows it. Says
nothing of single cases, and changes none of their verdicts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.model.case import Case
from busbw.model.launch import Measurement
from busbw.model.verdict import Answer, SessionVerdict, SizeGroup, Verdict
from busbw.model.words import (
    Outcome,
    SessionOutcome,
    cut_short,
    plural,
)
from busbw.stats.variance import t_quantile

from .curve import SizeShift, fit, shift_of_curve
from .policy import CURVE_FREEDOM, Policy
from .rule import Shared
from .undecided import Counting, noisy_texts, too_noisy_text, verdict_name

# As many failed cases are named in the answer for the stack.
_MOST_NAMED = 3


def groups_of_cases(
    verdicts: Sequence[Verdict], policy: Policy, *, in_turn: bool
) -> tuple[SizeGroup, ...]:
    families: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.case is not None and verdict.now is not None:
            alike = verdict.case.key.family, verdict.case.protocol
            families.setdefault(alike, []).append(verdict)
    groups = len(families) if in_turn else 0
    return tuple(
        _group(family[0].case, family, policy, groups)
        for family in families.values()
        if family[0].case
    )


def _group(case: Case, verdicts: Sequence[Verdict], policy: Policy, groups: int) -> SizeGroup:
    """Make a group, which is tested for a shift of the curve with all `groups`, none if 0."""
    now = fit({v.spec.payload_bytes: v.now.median_s for v in verdicts if v.now})
    before = fit({v.spec.payload_bytes: v.baseline.median_s for v in verdicts if v.baseline})
    sizes = [
        SizeShift(
            payload_bytes=v.spec.payload_bytes,
            log_ratio=math.log(v.ratio),
            standard_error=v.ratio_error,
            significant=v.outcome is Outcome.REGRESSED,
        )
        for v in verdicts
        if v.ratio is not None and v.ratio_error is not None
    ]
    shifted = ""
    if groups:
        level, floor = policy.looks.false_alarms_of_curves / (3 * groups), policy.looks.floor
        quantile = t_quantile(level, CURVE_FREEDOM)
        shifted = shift_of_curve(before, sizes, quantile=quantile, floor=floor)
    return SizeGroup(case=case, before=before, now=now, shifted=shifted)


def slower_text(name: str, cases: int, shared: Shared) -> str:
    """Say how much slower all cases are now; empty within the limit."""
    if shared.off <= shared.limit:
        return ""
    return (
        f"{name}: all {plural(cases, 'case')} together take {math.exp(shared.off):.3f} x the "
        f"expected time (limit {math.exp(shared.limit):.3f} x)"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What is known of a session in addition to its cases.

    `asked_to_skip` names an option by which the user asked that benchmarks should not run.
    `missing` are baselines of selected cases that could not be measured, `fallen_back` clocks and
    algorithms that are not those of the baseline, `lost` says why measuring ended early;
    `suspected` are cases that look slower without a confirmation. `slower` says what all sizes,
    latency or bandwidth lost, `drifted` which levels rose since they were accepted; `accepted`: an
    update takes both. `asides` are said and change nothing. Cases deviate `noisier` times as
    much as usual, as in `noisy_sessions` of the last ten; `counting` says which NOISY cases count.
    `machine` is what a locked reference says of the machine, None without one, and `stack_changes`
    are what this stack has other than it. `expecting`: cases are compared with baselines.
    `accepting`: a measurement becomes the baseline where there is none.
    """

    launches: int
    expecting: bool = True
    accepting: bool = False
    asked_to_skip: str = ""
    missing: tuple[str, ...] = ()
    fallen_back: tuple[str, ...] = ()
    lost: str = ""
    suspected: tuple[str, ...] = ()
    asides: tuple[str, ...] = ()
    slower: tuple[str, ...] = ()
    drifted: str = ""
    noisier: float = 1.0
    noisy_sessions: int = 0
    counting: Counting = field(default_factory=Counting)
    accepted: bool = False
    machine: Answer | None = None
    stack_changes: tuple[str, ...] = ()


def judge_session(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> SessionVerdict:
    """Return all failures that hold, or else NOTHING_COMPARED or FINE.

    FAILED is a session with a failed case. There is no verdict if no case gave a time, if a launch
    or a baseline's case is missing, if a clock or an algorithm fell back, if it is noisier than
    usual or more than a tenth of its cases are NOISY and count, or if the user asked to skip: such
    a session is not green, whatever its cases say. Without any time a session is FINE only if every
    case ran out of memory as its baseline expects.
    """
    reasons, machine = "; ".join(_reasons(verdicts, measurements, about)), about.machine
    slower = "; ".join(about.slower)
    if slower and about.expecting:
        slower += "; stack or machine: unknown"
    lost = {SessionOutcome.SLOWER: slower, SessionOutcome.DRIFT: about.drifted}
    sentences = {
        SessionOutcome.MACHINE_SHIFT: machine.text if machine and machine.is_slower else "",
        **(lost if not about.accepted else {}),
        SessionOutcome.NO_VERDICT: reasons,
    }
    session = session_verdict(sentences, verdicts, otherwise=_measured(verdicts, measurements))
    stack = _stack_answer(verdicts, about) if machine is not None and not reasons else None
    changed = ", ".join(about.stack_changes) or "the same versions"
    accepted = "; ".join(filter(None, lost.values())) if about.accepted else ""
    more = (
        *noisy_texts(verdicts),
        *about.asides,
        f"the stack ({changed}): {stack.text}" if stack else "",
        f"the machine: {machine.text}" if machine else "",
        f"accepted: {accepted}" if accepted else "",
    )
    text = "; ".join(filter(None, (session.text, *more)))
    return replace(session, text=text, stack=stack, machine=machine)


def session_verdict(
    sentences: Mapping[SessionOutcome, str], verdicts: Sequence[Verdict], *, otherwise: str
) -> SessionVerdict:
    """Return the verdict of what holds, each with its sentence, and FAILED if a case failed.

    If no other sentence holds, the text is `otherwise`, which says what was measured.
    """
    texts_by_outcome = {**sentences, SessionOutcome.FAILED: _failed_text(verdicts)}
    holds = tuple(outcome for outcome in SessionOutcome if texts_by_outcome.get(outcome))
    texts = [texts_by_outcome[outcome] for outcome in holds]
    texts += [otherwise] if set(holds) <= {SessionOutcome.FAILED} else []
    passed = SessionOutcome.FINE if is_compared(verdicts) else SessionOutcome.NOTHING_COMPARED
    return SessionVerdict(outcomes=holds or (passed,), text="; ".join(texts))


_WITHOUT_COMPARISON = (
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.SKIPPED,
    Outcome.OUT_OF_MEMORY,
)


def is_compared(verdicts: Sequence[Verdict]) -> bool:
    """Return whether a case was compared with a baseline, a reference or another compiler."""
    return len({verdict.spec.compiler for verdict in verdicts}) > 1 or any(
        verdict.expected or verdict.outcome not in _WITHOUT_COMPARISON for verdict in verdicts
    )


def _failed_text(verdicts: Sequence[Verdict]) -> str:
    failed = [verdict for verdict in verdicts if verdict.failed]
    text = f"{len(failed)} of {plural(len(verdicts), 'case')} failed: {_by_outcome(failed)}"
    return text if failed else ""


def _by_outcome(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.outcome.value for verdict in verdicts)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _stack_answer(verdicts: Sequence[Verdict], about: Circumstances) -> Answer:
    failed = sorted((v for v in verdicts if v.failed), key=lambda v: v.ratio or 0.0, reverse=True)
    texts = [
        f"{v.outcome.value} {verdict_name(v)}"
        + (f" {v.ratio:.3f} x the expected time" if v.ratio else "")
        for v in failed
    ]
    parts = [*cut_short(texts, _MOST_NAMED, "case"), *about.slower]
    slower = bool(about.slower) or any(v.outcome is Outcome.REGRESSED for v in failed)
    return Answer(text="; ".join(parts) or "nothing slower", is_slower=slower)


def _measured(verdicts: Sequence[Verdict], measurements: Sequence[Measurement]) -> str:
    timed = [measurement.launches for measurement in measurements if measurement.runs]
    if not timed:
        return f"{plural(len(verdicts), 'case')} out of memory, as expected"
    without = len(measurements) - len(timed)
    more = f", {without} without a time" if without else ""
    compared = sum(verdict.ratio is not None for verdict in verdicts)
    if compared < len(timed) and is_compared(verdicts):
        more += f", {compared or 'none'} of them compared"
    least, most = min(timed), max(timed)
    launches = plural(least, "launch") if least == most else f"{least} to {most} launches"
    return f"{plural(len(timed), 'case')} measured in {launches} each{more}"


def _without_times(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> Iterator[str]:
    """Why a session in which no launch gave a time has no verdict.

    It has one if everything ran out of memory as the baselines expect, or as they shall from now
    on.
    """
    if any(measurement.runs for measurement in measurements):
        return
    skipped = "; ".join(sorted({v.text for v in verdicts}))
    expected = (about.accepting or (v.expected and about.expecting) for v in verdicts)
    if not any(measurement.failures for measurement in measurements):
        yield "nothing was measured" + (skipped and f": {skipped}")
    elif not all(expected) or any(v.outcome is not Outcome.OUT_OF_MEMORY for v in verdicts):
        yield f"no case gave a time: {_by_outcome(verdicts)}"


def _reasons(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> Iterator[str]:
    yield from _without_times(verdicts, measurements, about)
    failed = {verdict.case for verdict in verdicts if verdict.outcome is Outcome.FAILED}
    whole = [m for m in measurements if m.case not in failed]
    short = [m.case.name for m in whole if 0 < m.launches < about.launches]
    if short:
        count = plural(len(short), "case")
        yield f"{count} with fewer than {about.launches} launches; the first is {short[0]}"
    if about.missing:
        yield f"cases that have a baseline were not measured: {'; '.join(about.missing)}"
    yield from about.fallen_back
    if about.suspected:
        yield (
            "seemed slower, but --time-budget ran out before it was confirmed: "
            f"{', '.join(about.suspected)}"
        )
    if about.noisier > 1 and not about.accepted:
        often = about.noisy_sessions
        more = f", as in {often} of the last 10; --update-baselines accepts it" if often > 1 else ""
        yield (
            f"noisier than usual: cases deviate {about.noisier:.1f} x as much from their levels as "
            f"in earlier sessions{more}"
        )
    yield from filter(None, (too_noisy_text(verdicts, about.counting), about.lost))
    if about.asked_to_skip:
        option = about.asked_to_skip
        yield f"{option} asks that benchmarks be skipped; a skipped session is not green"
