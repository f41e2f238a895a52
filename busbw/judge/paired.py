"""Judge two interleaved stacks: compare the launches of a candidate with those of a reference.

No baseline is needed, and a drift of the machine affects both stacks alike. The test of a case is
sequential: the test can decide at several looks, each after a certain number of pairs of launches,
with known error rates. The result of a look is either a decision on the case, or the number of
pairs that the next look needs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import CaseSpec
from busbw.model.launch import Measurement, Run
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural, seconds_text
from busbw.stats.launches import (
    MeanEstimate,
    Variance,
    estimate_mean,
    estimate_prior_variance,
    log_ratio_of_samples,
    look_significance_levels,
    pool_with_prior_variance,
    sample_variance,
)

from .case import InterimVerdict, JudgingSettings, complete_verdict, summarize_runs
from .policy import INTERVAL_TAIL_PROBABILITY, SequentialTestThresholds
from .validity import (
    REFERENCE_PREFIX,
    judge_failed_launches,
    out_of_memory_text,
    out_of_memory_verdict,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedDecision:
    """The decision on one case of two interleaved stacks.

    Attributes:
        outcome: PASS, REGRESSED or IMPROVED; None if the case is undecided.
        estimate: The mean log ratio of candidate to reference at the last look; None before the
            first look.
        slower_above_log_ratio: The log ratio above which the case seems slower; None before the
            first look.
        pair_count_at_next_look: The total number of launches of each stack that the next look
            at an undecided case needs. If the case seems slower, the next look confirms or refutes
            the loss. None if the case is decided, or after the last look.
        is_suspected: Whether the case seems slower, and only the confirming launches are missing.

    """

    outcome: Outcome | None
    estimate: MeanEstimate | None
    slower_above_log_ratio: float | None = None
    pair_count_at_next_look: int | None = None
    is_suspected: bool = False


def decide_paired_case(
    log_ratios: Sequence[float],
    thresholds: SequentialTestThresholds,
    *,
    case_count: int,
    min_loss: float,
    prior_variance: Variance | None = None,
) -> PairedDecision:
    """Decide on one case of two interleaved stacks by a group sequential t-test.

    A look is a moment at which the test can decide. `look_significance_levels` computes the
    significance level of each look from the error rates. The limits are quantiles of Student's t.
    Log ratios are assumed to be independent and normal.

    Args:
        log_ratios: log(candidate / reference) of each pair of launches, in the order of measuring.
        thresholds: The numbers of pairs at which the test can decide, and its error rates.
        case_count: The number of cases among which the false-alarm rate of the session is divided.
        min_loss: The least loss that is a regression, as a fraction of the reference's time.
            `thresholds.min_loss` is not used.
        prior_variance: The variance of a log ratio that is expected because of the session's other
            cases; None if this variance is unknown.

    Returns:
        The decision at the last look for which there are enough pairs.

    """
    decision = PairedDecision(outcome=None, estimate=None)
    alarms = look_significance_levels(
        thresholds.pair_counts,
        thresholds.session_false_alarm_rate / case_count,
        thresholds.spending_shape,
    )
    misses = look_significance_levels(
        thresholds.pair_counts, thresholds.miss_rate, thresholds.spending_shape
    )
    for count, alarm, miss in zip(thresholds.pair_counts, alarms, misses):
        if len(log_ratios) < count:
            return replace(decision, pair_count_at_next_look=count)
        estimate = _estimate_log_ratio(log_ratios[:count], prior_variance)
        limit = _log_ratio_limit(estimate, alarm, min_loss)
        decision = replace(decision, estimate=estimate, slower_above_log_ratio=limit)
        if estimate.mean > limit:
            confirmed = count + thresholds.confirming_pair_count
            if len(log_ratios) < confirmed:
                return replace(decision, pair_count_at_next_look=confirmed, is_suspected=True)
            estimate = _estimate_log_ratio(log_ratios[:confirmed], prior_variance)
            limit = _log_ratio_limit(estimate, alarm, min_loss)
            fresh = log_ratios[count:confirmed]
            if estimate.mean > limit and sum(fresh) / len(fresh) > math.log1p(min_loss):
                return replace(
                    decision,
                    outcome=Outcome.REGRESSED,
                    estimate=estimate,
                    slower_above_log_ratio=limit,
                )
        elif -estimate.mean > limit:
            return replace(decision, outcome=Outcome.IMPROVED)
        elif estimate.upper_bound(miss) < math.log1p(max(thresholds.detectable_loss, min_loss)):
            return replace(decision, outcome=Outcome.PASS)
    return decision


def prior_variance_from_log_ratios(
    log_ratios_of_cases: Iterable[Sequence[float]], thresholds: SequentialTestThresholds
) -> Variance | None:
    """Estimate the variance of a pair's log ratio from all cases; None if too few cases show it.

    `log_ratios_of_cases` has, for each case, log(candidate / reference) of each pair of launches.
    The variances of the cases are pooled by empirical Bayes (`estimate_prior_variance`, Smyth
    2004). The result has many degrees of freedom if the cases are equally noisy, but at most
    `thresholds.max_pooled_degrees_of_freedom`, and fewer than the number of cases. Only log ratios
    up to the first look are used, so that later launches do not change the result of an earlier
    look. Cases with fewer log ratios, or with equal log ratios, are left out. The result is None if
    fewer than two cases remain.
    """
    first = thresholds.pair_counts[0]
    variances = [
        sample_variance(log_ratios[:first])
        for log_ratios in log_ratios_of_cases
        if len(log_ratios) >= first
    ]
    variances = [variance for variance in variances if variance.value > 0]
    if len(variances) < 2:
        return None
    prior = estimate_prior_variance(variances)
    return replace(
        prior,
        degrees_of_freedom=min(
            prior.degrees_of_freedom, thresholds.max_pooled_degrees_of_freedom, len(variances) - 1
        ),
    )


def _estimate_log_ratio(
    log_ratios: Sequence[float], prior_variance: Variance | None
) -> MeanEstimate:
    """Estimate the mean log ratio of a case, and its standard error with the help of other cases.

    `prior_variance` is the variance of a log ratio that is expected because of other cases; None if
    unknown. This prior adds degrees of freedom to the standard error. The prior makes the error of
    an unusually quiet case larger, but never makes the error of a noisy case smaller. Otherwise the
    noisiest case of a session would be decided wrongly more often than the error rates allow.
    """
    if prior_variance is None:
        return estimate_mean(log_ratios)
    variance = sample_variance(log_ratios)
    both = pool_with_prior_variance(variance, prior_variance)
    error = math.sqrt(max(variance.value, both.value) / len(log_ratios))
    return MeanEstimate(
        mean=statistics.fmean(log_ratios),
        standard_error=error,
        degrees_of_freedom=both.degrees_of_freedom,
    )


def _log_ratio_limit(estimate: MeanEstimate, probability: float, min_loss_fraction: float) -> float:
    """Return the log ratio above which a case seems slower, at least log(1 + `min_loss_fraction`).

    If the candidate is as fast as the reference, the estimated mean log ratio exceeds this limit
    with at most `probability`.
    """
    return max(estimate.mean - estimate.lower_bound(probability), math.log1p(min_loss_fraction))


def prior_variance_from_measurements(
    cases: Iterable[tuple[Measurement, Measurement]], settings: JudgingSettings
) -> Variance | None:
    """Estimate how much the log ratio of a pair of launches varies, from all cases together.

    The variance is the prior with which `judge_paired_case` judges each case. `cases` has two
    measurements of each case: by the reference, and by the candidate. Cases with a failure, and
    cases with too few pairs for the first look, are left out. The result is None if fewer than two
    cases remain.
    """
    log_ratios = [
        _log_ratios_of_pairs(reference, candidate)
        for reference, candidate in cases
        if not (reference.failures or candidate.failures)
    ]
    return prior_variance_from_log_ratios(log_ratios, _planned_thresholds(settings))


def judge_paired_case(
    spec: CaseSpec,
    reference: Measurement,
    candidate: Measurement,
    settings: JudgingSettings,
    prior_variance: Variance | None = None,
) -> InterimVerdict:
    """Judge one case of two interleaved stacks by the launches so far; return the interim verdict.

    Args:
        spec: The requested case.
        reference: The runs and failures of the reference.
        candidate: The runs and failures of the candidate.
        settings: The policy and the options of the session.
        prior_variance: The variance of a pair's log ratio that is expected because of all cases of
            the session (`prior_variance_from_measurements`); None if this variance is unknown.

    """
    judged = _judge_paired_outcome(spec, reference, candidate, settings, prior_variance)
    is_shown = bool(reference.runs) and judged.verdict.outcome is not Outcome.FAILED
    before = summarize_runs(reference) if is_shown else None
    return complete_verdict(judged, candidate, baseline=before)


def _judge_paired_outcome(
    spec: CaseSpec,
    reference: Measurement,
    candidate: Measurement,
    settings: JudgingSettings,
    prior_variance: Variance | None,
) -> InterimVerdict:
    """Return the interim verdict on a case, without the summaries of launches.

    Failed launches decide first, then launches that ran out of memory, and last the sequential
    test. The arguments are those of `judge_paired_case`.
    """
    failure_verdict = judge_failed_launches(spec, candidate) or judge_failed_launches(
        spec, reference, REFERENCE_PREFIX
    )
    if failure_verdict is not None:
        return InterimVerdict(verdict=failure_verdict)
    if candidate.failures or reference.failures:
        return InterimVerdict(verdict=_judge_paired_out_of_memory(spec, reference, candidate))
    log_ratios, thresholds = (
        _log_ratios_of_pairs(reference, candidate),
        _planned_thresholds(settings),
    )
    before, after = summarize_runs(reference), summarize_runs(candidate)
    least_s = settings.policy.least_visible_difference_s(candidate.case.clock)
    min_loss = max(thresholds.min_loss, least_s / before.median_s)
    times = f"{seconds_text(before.median_s)} -> {seconds_text(after.median_s)}"
    decision = decide_paired_case(
        log_ratios,
        thresholds,
        case_count=settings.case_count,
        min_loss=min_loss,
        prior_variance=prior_variance,
    )
    outcome = decision.outcome or Outcome.NOISY
    estimate = decision.estimate or (estimate_mean(log_ratios) if len(log_ratios) > 1 else None)
    verdict = Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED,
        text=_verdict_text(decision, estimate, len(log_ratios), times),
        ratio=None if estimate is None else math.exp(estimate.mean),
        ratio_interval=None if estimate is None else _ratio_interval(estimate),
        ratio_error=None if estimate is None else estimate.standard_error,
        limit=None
        if decision.slower_above_log_ratio is None
        else math.exp(decision.slower_above_log_ratio),
    )
    return InterimVerdict(
        verdict=verdict,
        needed_launch_count=decision.pair_count_at_next_look,
        is_suspected=decision.is_suspected,
    )


def _ratio_interval(estimate: MeanEstimate) -> tuple[float, float]:
    """Return both ends of the 95 % confidence interval of the ratio of candidate to reference.

    `estimate` is the mean log ratio.
    """
    return math.exp(estimate.lower_bound(INTERVAL_TAIL_PROBABILITY)), math.exp(
        estimate.upper_bound(INTERVAL_TAIL_PROBABILITY)
    )


def pair_launches(reference: Sequence[Run], candidate: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Return the pairs (reference, candidate) of runs of a case that belong to the same round.

    The pairs are in the order of the candidate's runs. Runs without a partner in the same round are
    left out.
    """
    by_round = {run.launch.round_number: run for run in reference}
    pairs = ((by_round.get(run.launch.round_number), run) for run in candidate)
    return [(before, later) for before, later in pairs if before is not None]


def _log_ratios_of_pairs(reference: Measurement, candidate: Measurement) -> list[float]:
    """Return log(candidate / reference) of each pair of launches of a case."""
    pairs = pair_launches(reference.runs, candidate.runs)
    return [log_ratio_of_samples(before.samples_s, after.samples_s) for before, after in pairs]


def _planned_thresholds(settings: JudgingSettings) -> SequentialTestThresholds:
    """Return the policy's thresholds of the test, with the first look after the planned launches.

    A look is a moment at which the test can decide. The looks of the policy before this first look
    are left out.
    """
    first = max(2, settings.planned_launch_count)
    later = (count for count in settings.policy.looks.pair_counts if count > first)
    return replace(settings.policy.looks, pair_counts=(first, *later))


def _judge_paired_out_of_memory(
    spec: CaseSpec, reference: Measurement, candidate: Measurement
) -> Verdict:
    """Return the verdict on a case for which one or both stacks ran out of memory.

    If only the reference ran out of memory, the case is IMPROVED. If only the candidate did, the
    case is OUT_OF_MEMORY and fails. If both did, the case is OUT_OF_MEMORY, as expected, and does
    not fail.
    """
    if not candidate.failures:
        text = f"it fits; {REFERENCE_PREFIX}{out_of_memory_text(reference.failures[0])}"
        return Verdict(spec=spec, outcome=Outcome.IMPROVED, failed=False, text=text)
    first_failure = candidate.failures[0]
    expected = bool(reference.failures)
    more = " (expected: the reference's is too)" if expected else "; the reference fits"
    return out_of_memory_verdict(
        spec, first_failure, more, is_failed=not expected, is_expected=expected
    )


def _verdict_text(
    decision: PairedDecision, estimate: MeanEstimate | None, pair_count: int, times_text: str
) -> str:
    """Return the text of a verdict: the times, the ratio with its interval, and the decision.

    `estimate` is the mean log ratio of `pair_count` pairs; None with fewer than two pairs.
    `times_text` is a text such as ``270 us -> 280 us``.
    """
    pairs = plural(pair_count, "pair") + " of launches"
    if estimate is None:
        return f"{times_text}; {pairs}, too few to compare"
    low, high = _ratio_interval(estimate)
    undecided = "seems slower, not yet confirmed" if decision.is_suspected else "undecided"
    end = {None: undecided, Outcome.REGRESSED: "confirmed"}.get(decision.outcome, "")
    limit = (
        ""
        if decision.slower_above_log_ratio is None
        else f", limit {math.exp(decision.slower_above_log_ratio):.3f} x"
    )
    return (
        f"{times_text}, {math.exp(estimate.mean):.3f} x the interleaved reference "
        f"(95 %: {low:.3f} to {high:.3f}; {pairs}){limit}{end and f': {end}'}"
    )
