"""The verdict of a session: whether the requested cases were measured, and what they share.

Sizes of one kind make a curve; all cases together may be slower though no single case shows it. The
verdicts of single cases stay as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.verdict import SessionVerdict, SizeGroup, Verdict
from busbw.model.words import Outcome, SessionOutcome, cut_short, plural, ratio_text
from busbw.stats.variance import t_quantile

from .case import Terms
from .curve import fit_curve, shift_of_curve
from .expected_times import families
from .policy import CURVE_FREEDOM, MOST_NOISY, Policy
from .rule import Shared

# More NOISY cases than these are counted.
_MOST_NAMED = 8


def fit_groups(
    verdicts: Sequence[Verdict], policy: Policy, *, interleaved: bool
) -> tuple[SizeGroup, ...]:
    """Fit curves to the sizes of each kind of case.

    If two stacks are `interleaved`, test each group for a shift of its curve, too.
    """
    timed = {v.case: v for v in verdicts if v.case is not None and v.now is not None}
    cases = families(timed)
    # Each group has a latency, a bandwidth and both together to test.
    level = policy.looks.curve_false_alarm_rate / (3 * max(1, len(cases)))
    # The quantile needs SciPy, whose import takes longer than judging without it.
    quantile = t_quantile(level, CURVE_FREEDOM) if interleaved else math.inf
    groups = []
    for family in cases:
        sizes = {case.payload_bytes: timed[case] for case in family}
        after = fit_curve({size: v.now.median_s for size, v in sizes.items() if v.now})
        before = fit_curve({size: v.baseline.median_s for size, v in sizes.items() if v.baseline})
        tested = tuple(sizes.values()) if interleaved else ()
        shifted = shift_of_curve(before, tested, quantile=quantile, floor=policy.looks.min_loss)
        groups.append(SizeGroup(case=family[0], now=after, shifted=shifted))
    return tuple(groups)


def slower_text(name: str, cases: int, shared: Shared) -> str:
    """Say how much slower all cases of the framework `name` are now; empty within the limit."""
    if shared.shift <= shared.limit:
        return ""
    return (
        f"{name}: all {plural(cases, 'case')} together take {math.exp(shared.shift):.3f} x the "
        f"expected time (limit {math.exp(shared.limit):.3f} x)"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionContext:
    """The facts about a session in addition to its cases."""

    terms: Terms
    # Cases are compared with baselines, not with an interleaved reference.
    has_baselines: bool = True
    # A measurement becomes the baseline where there is none.
    accepts_new: bool = False
    # An update accepts what `slower` and `drift` say.
    accepts_all: bool = False
    # Why the session has no verdict, in addition to what its cases show.
    reasons: tuple[str, ...] = ()
    # Texts that change nothing.
    notes: tuple[str, ...] = ()
    # What all cases, a latency or a bandwidth lost.
    slower: tuple[str, ...] = ()
    # Which levels rose since they were accepted.
    drift: str = ""
    # Cases deviate so many times as much as usual, as in so many of the last ten sessions.
    noise_ratio: float = 1.0
    noisy_sessions: int = 0
    # Cases that are NOISY only because a finding says what else may have made them slower.
    doubted: frozenset[Spec] = frozenset()


def judge_session(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], context: SessionContext
) -> SessionVerdict:
    """Return all failures that hold, or else NOTHING_COMPARED or PASS.

    FAILED is a session with a failed case. There is no verdict if no case gave a time, if a launch
    is missing, if the session is noisier than usual, if more than a tenth of its cases are NOISY
    and count, or for the reasons of `context`: such a session is not green, whatever its cases say.
    Without any time a session is PASS only if every case ran out of memory as its baseline expects.
    """
    slower = "; ".join(context.slower)
    if slower and context.has_baselines:
        slower += "; stack or machine: unknown"
    lost = {SessionOutcome.SLOWER: slower, SessionOutcome.DRIFT: context.drift}
    sentences = {
        **(lost if not context.accepts_all else {}),
        SessionOutcome.NO_VERDICT: "; ".join(_reasons(verdicts, measurements, context)),
    }
    session = session_verdict(sentences, verdicts, otherwise=_measured(verdicts, measurements))
    accepted = "; ".join(filter(None, lost.values())) if context.accepts_all else ""
    more = (
        noisy_text(verdicts),
        *context.notes,
        f"accepted: {accepted}" if accepted else "",
    )
    return replace(session, text="; ".join(filter(None, (session.text, *more))))


def session_verdict(
    sentences: Mapping[SessionOutcome, str],
    verdicts: Sequence[Verdict],
    *,
    otherwise: str,
    is_compared: bool = False,
) -> SessionVerdict:
    """Return the verdict of a session from the outcomes that hold.

    Args:
        sentences: The text of each outcome; an outcome with an empty text does not hold.
        verdicts: The verdicts of the cases; if one failed, FAILED holds, too.
        otherwise: The text if no other sentence holds.
        is_compared: Whether cases were compared with each other, as those of two releases are.

    """
    failed = [verdict for verdict in verdicts if verdict.failed]
    text = f"{len(failed)} of {plural(len(verdicts), 'case')} failed: {_by_outcome(failed)}"
    texts_by_outcome = {**sentences, SessionOutcome.FAILED: text if failed else ""}
    holds = tuple(outcome for outcome in SessionOutcome if texts_by_outcome.get(outcome))
    texts = [texts_by_outcome[outcome] for outcome in holds]
    texts += [otherwise] if set(holds) <= {SessionOutcome.FAILED} else []
    compared = is_compared or has_comparison(verdicts)
    passed = SessionOutcome.PASS if compared else SessionOutcome.NOTHING_COMPARED
    return SessionVerdict(outcomes=holds or (passed,), text="; ".join(texts))


_WITHOUT_COMPARISON = (
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.SKIPPED,
    Outcome.OUT_OF_MEMORY,
)


def has_comparison(verdicts: Sequence[Verdict]) -> bool:
    """Return whether a case was compared with a baseline or a reference."""
    return any(
        verdict.expected or verdict.outcome not in _WITHOUT_COMPARISON for verdict in verdicts
    )


def _by_outcome(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.outcome.value for verdict in verdicts)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _measured(verdicts: Sequence[Verdict], measurements: Sequence[Measurement]) -> str:
    timed = [measurement.launches for measurement in measurements if measurement.runs]
    if not timed:
        return f"{plural(len(verdicts), 'case')} out of memory, as expected"
    without = len(measurements) - len(timed)
    more = f", {without} without a time" if without else ""
    compared = sum(verdict.ratio is not None for verdict in verdicts)
    if compared < len(timed) and has_comparison(verdicts):
        more += f", {compared or 'none'} of them compared"
    least, most = min(timed), max(timed)
    launches = plural(least, "launch") if least == most else f"{least} to {most} launches"
    return f"{plural(len(timed), 'case')} measured in {launches} each{more}"


def _without_times(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], context: SessionContext
) -> Iterator[str]:
    """Yield why a session in which no launch gave a time has no verdict.

    It has a verdict if every case ran out of memory as its baseline expects, or if an update makes
    that the baseline.
    """
    if any(measurement.runs for measurement in measurements):
        return
    skipped = "; ".join(sorted({v.text for v in verdicts}))
    expected = (context.accepts_new or (v.expected and context.has_baselines) for v in verdicts)
    if not any(measurement.failures for measurement in measurements):
        yield "nothing was measured" + (skipped and f": {skipped}")
    elif not all(expected) or any(v.outcome is not Outcome.OUT_OF_MEMORY for v in verdicts):
        yield f"no case gave a time: {_by_outcome(verdicts)}"


def _reasons(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], context: SessionContext
) -> Iterator[str]:
    yield from _without_times(verdicts, measurements, context)
    failed = {verdict.case for verdict in verdicts if verdict.outcome is Outcome.FAILED}
    whole, planned = [m for m in measurements if m.case not in failed], context.terms.launches
    short = [m.case.name for m in whole if 0 < m.launches < planned]
    if short:
        count = plural(len(short), "case")
        yield f"{count} with fewer than {planned} launches; the first is {short[0]}"
    yield from context.reasons
    ratio, often = context.noise_ratio, context.noisy_sessions
    if ratio > 1 and not context.accepts_all:
        more = f", as in {often} of the last 10; --update-baselines accepts it" if often > 1 else ""
        yield (
            f"noisier than usual: cases deviate {ratio:.1f} x as much from their levels as in "
            f"earlier sessions{more}"
        )
    noisy = select_noisy(verdicts, context)
    judged = sum(verdict.ratio is not None for verdict in verdicts)
    if len(noisy) > MOST_NOISY * judged:
        many = f"{len(noisy)} of {plural(judged, 'case')}"
        yield f"{many} too noisy to judge; the first is {noisy[0].name}"


def select_noisy(verdicts: Sequence[Verdict], context: SessionContext) -> list[Verdict]:
    """Return the NOISY cases that count towards the tenth of the cases that may be NOISY.

    All count if two stacks are interleaved, since both have all disturbances. Against baselines a
    case always counts if its limit is too wide, or if it is doubted: neither can be judged. A case
    above its limit counts unless the device is shared: other work on it makes unchanged cases look
    slower. As soon as two cases are NOISY, cases within their limits count as well, unless the
    device is shared or the user set the limit.
    """
    policy, is_fixed = context.terms.policy, context.terms.fail_above is not None
    noisy = [verdict for verdict in verdicts if verdict.outcome is Outcome.NOISY]
    is_strict = len(noisy) > 1 and not (policy.is_shared or is_fixed)
    if is_strict or not context.has_baselines:
        return noisy
    # The user chose how wide a fixed limit is.
    widest = math.inf if is_fixed else 1.0 + policy.rule.max_useful_limit
    return [
        verdict
        for verdict in noisy
        if verdict.limit is None
        or verdict.limit > widest
        or verdict.spec in context.doubted
        or (_is_above(verdict) and not policy.is_shared)
    ]


def _is_above(verdict: Verdict) -> bool:
    """Return whether the time of a case exceeds its limit, confirmed or not."""
    return (verdict.ratio or 0.0) > (verdict.limit or math.inf)


def noisy_text(verdicts: Sequence[Verdict]) -> str:
    """Return the NOISY cases above the expected time, those above their limits first; "" for none.

    The last line of a session has this text: a case that looked slower must not be hidden.
    """
    slower = [v for v in verdicts if v.outcome is Outcome.NOISY and (v.ratio or 0.0) > 1.0]
    slower.sort(key=lambda verdict: (not _is_above(verdict), -(verdict.ratio or 0.0)))
    texts = [
        f"{verdict.name} {ratio_text(verdict.ratio or 0.0)} x "
        f"(limit {ratio_text(verdict.limit or 0.0)} x)"
        for verdict in slower
    ]
    return f"NOISY: {', '.join(cut_short(texts, _MOST_NAMED, 'case'))}" if texts else ""
