"""Decide whether a case is slower or faster than its expected time, and apply findings.

A finding is a note, a doubt or a failure that an extension adds to the verdict on a case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.model.verdict import Verdict
from busbw.model.words import Outcome

from .noise import SessionNoise
from .policy import RuleThresholds
from .series import CaseTimes, ExpectedTime


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseLimits:
    """The limits of one case in this session, and how much slower the case is today.

    A log ratio is the natural logarithm of a time over the expected time, above 0 if slower.

    Attributes:
        expected_time: The expected time, including the level of the framework's shared part.
        slower_above_log_ratio: The log ratio above which the case is slower: `common_shift` plus
            `residual_limit`, within bounds.
        faster_below_log_ratio: The log ratio below which the case is faster, a negative number.
        residual_stddev: The standard deviation of the residual while the code is unchanged.
        common_shift: How much slower other cases are today, as a log ratio. If the rule compares
            neighbours, this is the median of the two neighbouring payloads. Otherwise this is the
            shift of the framework's shared part (see SharedPart). 0 if the framework has too few
            cases.
        residual: Today's log ratio minus `common_shift`.
        residual_limit: The log ratio that the residual of an unchanged case rarely exceeds.
        noise: How much sessions of this case vary, estimated from launches and from all cases.
            `SessionNoise.stddev_with_sessions` adds the earlier sessions of this case.
        fastest_launch_above_log_ratio: A second condition for a slower case: the log ratio of the
            fastest launch must exceed this limit. None if the rule does not compare neighbours, or
            if the framework has too few cases.

    """

    expected_time: ExpectedTime
    slower_above_log_ratio: float
    faster_below_log_ratio: float
    residual_stddev: float
    common_shift: float
    residual: float
    residual_limit: float
    noise: SessionNoise
    fastest_launch_above_log_ratio: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A finding of an extension about one case.

    Attributes:
        notes: Texts that do not change the outcome.
        doubt: Another possible cause of a slower time, which changes REGRESSED to NOISY; empty
            without a doubt.
        failure: The reason why a case that would not fail becomes CHANGED and fails; empty without
            a failure.
        extra: Maps the names of extra values to these values, which tables can show.

    """

    notes: tuple[str, ...] = ()
    doubt: str = ""
    failure: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


def apply_findings(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict on a case, changed by the findings about the case.

    A doubt changes the outcome REGRESSED to NOISY. After that, a failure changes any outcome to
    CHANGED, but only becomes a note if the case already fails. The order of the findings changes
    only the order of texts.
    """
    doubts = [finding.doubt for finding in findings if finding.doubt]
    failures = [finding.failure for finding in findings if finding.failure]
    notes = [*verdict.notes, *(note for finding in findings for note in finding.notes)]
    if doubts and verdict.outcome is Outcome.REGRESSED:
        text = "; ".join((verdict.text, *doubts))
        verdict = replace(verdict, outcome=Outcome.NOISY, failed=False, text=text)
    if failures and verdict.failed:
        notes += failures
    elif failures:
        verdict = replace(verdict, outcome=Outcome.CHANGED, failed=True, text="; ".join(failures))
        notes = [note for note in notes if note not in failures]
    extra = {name: value for finding in findings for name, value in finding.extra.items()}
    return replace(verdict, notes=tuple(dict.fromkeys(notes)), extra={**verdict.extra, **extra})


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedChangeDecision:
    """The decision whether a case is slower or faster than its expected time.

    Attributes:
        direction: 1 for slower, -1 for faster, 0 for neither. None if the case seems slower and the
            confirming launches are missing.
        log_ratio: The log of the median of all launches over the expected time.
        slower_above_log_ratio: The limit that `log_ratio` of a slower case exceeds.
        confirming_log_ratio: The log ratio of the confirming launches alone; None without
            confirming launches.
        is_noisy: Whether the launches disagree: `direction` is 0, although both the first and the
            confirming launches seem slower, or although `log_ratio` exceeds
            `slower_above_log_ratio`.

    """

    direction: int | None
    log_ratio: float
    slower_above_log_ratio: float
    confirming_log_ratio: float | None
    is_noisy: bool


def decide_speed_change(
    times: CaseTimes, limits: CaseLimits, thresholds: RuleThresholds, slower_above_log_ratio: float
) -> SpeedChangeDecision:
    """Decide whether a case is slower than its expected time, faster, or neither.

    Times are compared as log ratios to the expected time. A case is slower if these conditions are
    all true:

    - The median of all launches exceeds `slower_above_log_ratio`.
    - The median of the first launches and the median of the confirming launches both exceed a lower
      limit: the result of `_partial_limit` for `thresholds.suspicion_limit_share`.
    - The fastest launch, compared with the expected fastest launch, exceeds
      `limits.fastest_launch_above_log_ratio`. If that is None, the limit is the result of
      `_partial_limit` for `thresholds.fastest_launch_limit_share`.

    The direction is None if the first launches exceed their limit, but the confirming launches are
    missing. A case is faster if the median of all launches is below
    `limits.faster_below_log_ratio`.

    Args:
        times: Today's launches of the case.
        limits: The computed limits of the case.
        thresholds: The thresholds of the rule.
        slower_above_log_ratio: The log ratio above which the case is slower: the log of the user's
            limit if there is one, otherwise `limits.slower_above_log_ratio`.

    """
    suspicion = _partial_limit(
        limits, slower_above_log_ratio, thresholds.suspicion_limit_share, thresholds
    )
    level = limits.expected_time.log_level
    log_ratio = times.all_launches.log_median - level
    confirmation = (
        None if times.confirming_log_median is None else times.confirming_log_median - level
    )
    is_suspected = times.first_launches.log_median - level > suspicion
    is_confirmed = is_suspected and confirmation is not None and confirmation > suspicion
    direction: int | None = 0
    if is_suspected and confirmation is None:
        direction = None
    elif is_confirmed and log_ratio > slower_above_log_ratio:
        partial = _partial_limit(
            limits, slower_above_log_ratio, thresholds.fastest_launch_limit_share, thresholds
        )
        fastest = (
            partial
            if limits.fastest_launch_above_log_ratio is None
            else limits.fastest_launch_above_log_ratio
        )
        direction = int(times.all_launches.log_fastest - limits.expected_time.log_fastest > fastest)
    elif log_ratio < limits.faster_below_log_ratio:
        direction = -1
    return SpeedChangeDecision(
        direction=direction,
        log_ratio=log_ratio,
        slower_above_log_ratio=slower_above_log_ratio,
        confirming_log_ratio=confirmation,
        is_noisy=direction == 0 and (is_confirmed or log_ratio > slower_above_log_ratio),
    )


def _partial_limit(
    limits: CaseLimits,
    slower_above_log_ratio: float,
    limit_share: float,
    thresholds: RuleThresholds,
) -> float:
    """Return the log ratio that a part of the launches of a slower case must exceed, too.

    The part is the first launches, the confirming launches or the fastest launch. The result is the
    larger of these two log ratios, but at most `slower_above_log_ratio`, which is the limit for all
    launches together:

    - `limit_share` * `slower_above_log_ratio`
    - common shift + `limit_share` * the limit of the residual of the case

    `limit_share` is from 0 to 1. The common shift is the part of the log ratio that the case shares
    with other cases, so that a shift of all cases alone is usually not enough. If the rule does not
    compare neighbours, a negative common shift counts as 0.
    """
    shift = limits.common_shift if thresholds.compares_neighbours else max(0.0, limits.common_shift)
    partial = max(limit_share * slower_above_log_ratio, shift + limit_share * limits.residual_limit)
    return min(slower_above_log_ratio, partial)
