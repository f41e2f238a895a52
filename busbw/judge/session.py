"""Judge a session: whether all cases were measured, and whether a framework is slower as a whole.

All cases of a framework together may be slower even if no single case is REGRESSED. The verdicts
on single cases do not change here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import CaseSpec
from busbw.model.launch import Measurement
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome, plural, ratio_text, shorten_list

from .case import JudgingSettings
from .policy import MAX_NOISY_CASE_SHARE, SESSIONS_IN_NOISE_REPORT
from .rule import SharedPart

# A text names at most this many NOISY cases, and only counts further cases.
_MAX_NAMED_CASES = 8


def slower_framework_text(framework: str, case_count: int, shared_part: SharedPart) -> str:
    """Return a text that says how much slower all cases of a framework together are.

    `case_count` is the number of cases of the framework, and `shared_part` the framework's shared
    part today.
    """
    ratio, limit = math.exp(shared_part.shift_log_ratio), math.exp(shared_part.max_shift_log_ratio)
    return (
        f"{framework}: all {plural(case_count, 'case')} together take {ratio:.3f} x the expected "
        f"time (limit {limit:.3f} x)"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionVerdictInput:
    """The input of a session's verdict, besides the verdicts and measurements of the cases.

    Attributes:
        settings: The policy and the user's options by which the cases are judged.
        has_baselines: Whether cases are compared with baselines, and not with an interleaved
            reference.
        accepts_new_cases: Whether an update stores the measurements of cases without a baseline.
        accepts_all_times: Whether an update stores all times, and so accepts a loss that all cases
            share.
        no_verdict_reasons: Reasons why the session has no verdict, besides the reasons that its
            cases show.
        notes: Texts that are added to the text of the session, and do not change its outcome.
        slower_framework_texts: A text for each framework whose cases together are slower.
        drift_text: The losses of whole frameworks that only several sessions together show; empty
            without such a loss.
        noise_ratio: How far the cases deviate from their levels, divided by the usual distance; 1
            if the session is not too noisy for a verdict.
        recent_noisy_session_count: How many of the last ten sessions, this session included, were
            noisy.
        doubted_cases: Slower cases that are NOISY, because a finding of an extension names another
            possible cause.

    """

    settings: JudgingSettings
    has_baselines: bool = True
    accepts_new_cases: bool = False
    accepts_all_times: bool = False
    no_verdict_reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    slower_framework_texts: tuple[str, ...] = ()
    drift_text: str = ""
    noise_ratio: float = 1.0
    recent_noisy_session_count: int = 0
    doubted_cases: frozenset[CaseSpec] = frozenset()


def judge_session(
    verdicts: Sequence[Verdict],
    measurements: Sequence[Measurement],
    session_input: SessionVerdictInput,
) -> SessionVerdict:
    """Return the verdict on a session: all bad outcomes that apply, or NOTHING_COMPARED or PASS.

    A session with a failed case is FAILED. A session is SLOWER or DRIFT if `session_input` has
    texts on such losses, and if no update accepts the losses. A session has NO_VERDICT, and fails
    even if no case fails, for each of these reasons:

    - No case has a time. This is no reason if every case ran out of memory as the baselines expect,
      or if an update stores the cases that ran out of memory.
    - A case has fewer launches than planned.
    - The session is noisier than usual.
    - More than a tenth of the judged cases are NOISY, counted by `select_counted_noisy_verdicts`.
    - `session_input` contains another reason.
    """
    slower = "; ".join(session_input.slower_framework_texts)
    slower += "; stack or machine: unknown" if slower else ""
    lost = {SessionOutcome.SLOWER: slower, SessionOutcome.DRIFT: session_input.drift_text}
    text_by_outcome = {
        **(lost if not session_input.accepts_all_times else {}),
        SessionOutcome.NO_VERDICT: "; ".join(
            _no_verdict_reasons(verdicts, measurements, session_input)
        ),
    }
    session = build_session_verdict(
        text_by_outcome, verdicts, default_text=_measured_cases_text(verdicts, measurements)
    )
    accepted = "; ".join(filter(None, lost.values())) if session_input.accepts_all_times else ""
    more = (
        noisy_cases_text(verdicts),
        *session_input.notes,
        f"accepted: {accepted}" if accepted else "",
    )
    return replace(session, text="; ".join(filter(None, (session.text, *more))))


def build_session_verdict(
    text_by_outcome: Mapping[SessionOutcome, str],
    verdicts: Sequence[Verdict],
    *,
    default_text: str,
    is_compared: bool = False,
) -> SessionVerdict:
    """Build the verdict on a session: all outcomes that apply, the most important outcome first.

    If no outcome applies, the outcome is PASS, or NOTHING_COMPARED if no case was compared.

    Args:
        text_by_outcome: The text of each outcome. An outcome with an empty text does not apply.
        verdicts: The verdicts on the cases. If a case failed, FAILED applies, too.
        default_text: A sentence on the session, such as the number of measured cases. If no outcome
            applies, this sentence is the whole text. If only FAILED applies, this sentence is
            appended to the text of FAILED.
        is_compared: Whether cases were compared with each other, such as the programs of several
            compilers. Then the outcome can be PASS without a baseline.

    """
    failed = [verdict for verdict in verdicts if verdict.failed]
    text = f"{len(failed)} of {plural(len(verdicts), 'case')} failed: {outcome_counts_text(failed)}"
    texts_by_outcome = {**text_by_outcome, SessionOutcome.FAILED: text if failed else ""}
    outcomes = tuple(outcome for outcome in SessionOutcome if texts_by_outcome.get(outcome))
    texts = [texts_by_outcome[outcome] for outcome in outcomes]
    texts += [default_text] if set(outcomes) <= {SessionOutcome.FAILED} else []
    compared = is_compared or has_comparison(verdicts)
    passed = SessionOutcome.PASS if compared else SessionOutcome.NOTHING_COMPARED
    return SessionVerdict(outcomes=outcomes or (passed,), text="; ".join(texts))


_OUTCOMES_WITHOUT_COMPARISON = (
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.SKIPPED,
    Outcome.OUT_OF_MEMORY,
)


def has_comparison(verdicts: Sequence[Verdict]) -> bool:
    """Return whether at least one case was compared with a baseline or a reference stack.

    A case that ran out of memory as expected counts as compared.
    """
    return any(
        verdict.expected or verdict.outcome not in _OUTCOMES_WITHOUT_COMPARISON
        for verdict in verdicts
    )


def outcome_counts_text(verdicts: Iterable[Verdict]) -> str:
    """Return a text with the number of verdicts of each outcome: ``2 REGRESSED, 1 FAILED``."""
    counts = Counter(verdict.outcome.value for verdict in verdicts)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _measured_cases_text(verdicts: Sequence[Verdict], measurements: Sequence[Measurement]) -> str:
    """Return a text that says how many cases were measured, and in how many launches."""
    timed = [measurement.launch_count for measurement in measurements if measurement.runs]
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


def _reasons_for_missing_times(
    verdicts: Sequence[Verdict],
    measurements: Sequence[Measurement],
    session_input: SessionVerdictInput,
) -> Iterator[str]:
    """Yield the reason why a session has no verdict if none of its cases has a time.

    Nothing is yielded if a case has a time. Nothing is yielded either if every case ran out of
    memory, provided that an update stores new cases, or that the baseline of every case expects
    this.
    """
    if any(measurement.runs for measurement in measurements):
        return
    skipped = "; ".join(sorted({v.text for v in verdicts}))
    expected = (
        session_input.accepts_new_cases or (v.expected and session_input.has_baselines)
        for v in verdicts
    )
    if not any(measurement.failures for measurement in measurements):
        yield "nothing was measured" + (skipped and f": {skipped}")
    elif not all(expected) or any(v.outcome is not Outcome.OUT_OF_MEMORY for v in verdicts):
        yield f"no case gave a time: {outcome_counts_text(verdicts)}"


def _no_verdict_reasons(
    verdicts: Sequence[Verdict],
    measurements: Sequence[Measurement],
    session_input: SessionVerdictInput,
) -> Iterator[str]:
    """Yield each reason why the session has no verdict, as a text; nothing without a reason."""
    yield from _reasons_for_missing_times(verdicts, measurements, session_input)
    failed = {verdict.case for verdict in verdicts if verdict.outcome is Outcome.FAILED}
    whole = [m for m in measurements if m.case not in failed]
    planned = session_input.settings.min_launch_count or session_input.settings.planned_launch_count
    short = [m.case.name for m in whole if 0 < m.launch_count < planned]
    if short:
        count = plural(len(short), "case")
        yield f"{count} with fewer than {planned} launches; the first is {short[0]}"
    yield from session_input.no_verdict_reasons
    ratio, often = session_input.noise_ratio, session_input.recent_noisy_session_count
    if ratio > 1 and not session_input.accepts_all_times:
        more = (
            f", as in {often} of the last {SESSIONS_IN_NOISE_REPORT}; --update-baselines accepts it"
            if often > 1
            else ""
        )
        yield (
            f"noisier than usual: cases deviate {ratio:.1f} x as much from their levels as in "
            f"earlier sessions{more}"
        )
    noisy = select_counted_noisy_verdicts(verdicts, session_input)
    judged = sum(verdict.ratio is not None for verdict in verdicts)
    if len(noisy) > MAX_NOISY_CASE_SHARE * judged:
        many = f"{len(noisy)} of {plural(judged, 'case')}"
        yield f"{many} too noisy to judge; the first is {noisy[0].name}"


def select_counted_noisy_verdicts(
    verdicts: Sequence[Verdict], session_input: SessionVerdictInput
) -> list[Verdict]:
    """Return the verdicts on the NOISY cases that count towards NO_VERDICT of the session.

    All NOISY cases count if one of these statements is true:

    - Two stacks are interleaved, so that disturbances slow both stacks alike.
    - Two or more cases are NOISY, the device is an accelerator, and the user set no limit.

    In any other session only these NOISY cases count:

    - cases that cannot be judged: without a limit, with too wide a limit, or doubted by a finding
    - cases above their limits, if the device is an accelerator; a CPU also does other work
      (`Policy.has_other_work`), which makes unchanged cases NOISY
    """
    policy = session_input.settings.policy
    is_fixed = session_input.settings.fail_above is not None
    noisy = [verdict for verdict in verdicts if verdict.outcome is Outcome.NOISY]
    is_strict = len(noisy) > 1 and not (policy.has_other_work or is_fixed)
    if is_strict or not session_input.has_baselines:
        return noisy
    # A limit that the user set is never too wide.
    widest = math.inf if is_fixed else 1.0 + policy.rule.max_useful_limit
    return [
        verdict
        for verdict in noisy
        if verdict.limit is None
        or verdict.limit > widest
        or verdict.spec in session_input.doubted_cases
        or (_is_above_limit(verdict) and not policy.has_other_work)
    ]


def _is_above_limit(verdict: Verdict) -> bool:
    """Return whether the ratio of a case exceeds its limit; False without a ratio or a limit."""
    return (verdict.ratio or 0.0) > (verdict.limit or math.inf)


def noisy_cases_text(verdicts: Sequence[Verdict]) -> str:
    """Return a text that names the NOISY cases slower than expected; "" without such a case.

    Cases above their limits come first, then the largest ratios. The text is part of the last line
    of a session, so that no case that looked slower is hidden.
    """
    slower = [v for v in verdicts if v.outcome is Outcome.NOISY and (v.ratio or 0.0) > 1.0]
    slower.sort(key=lambda verdict: (not _is_above_limit(verdict), -(verdict.ratio or 0.0)))
    texts = [
        f"{verdict.name} {ratio_text(verdict.ratio or 0.0)} x "
        f"(limit {ratio_text(verdict.limit or 0.0)} x)"
        for verdict in slower
    ]
    return f"NOISY: {', '.join(shorten_list(texts, _MAX_NAMED_CASES, 'case'))}" if texts else ""
