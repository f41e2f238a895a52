"""Decide whether a case is slower or faster than its expected time, or still undecided."""

from __future__ import annotations

from dataclasses import dataclass

from .policy import Rule
from .rule import CaseLimits
from .series import CaseTimes


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelDecision:
    """The decision whether a case is slower or faster than its expected time.

    Attributes:
        direction: 1 for slower, -1 for faster, 0 for neither. None if the case seems slower and the
            launches that would confirm it are missing.
        log_ratio: The log of the median of all launches over the expected time.
        max_log_ratio: The limit of `log_ratio`.
        confirming_log_ratio: The log ratio of the confirming launches alone; None without them.
        is_confirmed: Whether the first and the confirming launches both seem slower.

    """

    direction: int | None
    log_ratio: float
    max_log_ratio: float
    confirming_log_ratio: float | None
    is_confirmed: bool

    @property
    def is_noisy(self) -> bool:
        """Whether the launches disagree on whether the case is slower.

        The case is not slower, but its confirming launches are, or its ratio exceeds the limit.
        """
        return self.direction == 0 and (self.is_confirmed or self.log_ratio > self.max_log_ratio)


def decide_direction(
    times: CaseTimes, limits: CaseLimits, rule: Rule, max_log_ratio: float
) -> LevelDecision:
    """Decide whether a case is slower or faster than its expected time.

    A case is slower if the median of all its launches exceeds `max_log_ratio`. Also the first
    launches, the confirming launches and the fastest launch must each exceed a part of that limit.

    Args:
        times: Today's launches of the case.
        limits: The computed limits of the case.
        rule: The thresholds of the rule.
        max_log_ratio: The log ratio above which the case is slower: the log of the user's limit, or
            else `limits.slower_above_log_ratio`.

    """
    suspicion = _partial_limit(limits, max_log_ratio, rule.suspicion_limit_share, rule)
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
    elif is_confirmed and log_ratio > max_log_ratio:
        partial = _partial_limit(limits, max_log_ratio, rule.fastest_limit_share, rule)
        fastest = (
            partial if limits.fastest_above_log_ratio is None else limits.fastest_above_log_ratio
        )
        direction = int(times.all_launches.log_fastest - limits.expected_time.log_fastest > fastest)
    elif log_ratio < limits.faster_below_log_ratio:
        direction = -1
    return LevelDecision(
        direction=direction,
        log_ratio=log_ratio,
        max_log_ratio=max_log_ratio,
        confirming_log_ratio=confirmation,
        is_confirmed=is_confirmed,
    )


def _partial_limit(
    limits: CaseLimits, max_log_ratio: float, limit_share: float, rule: Rule
) -> float:
    """Return the log ratio that a part of the launches must exceed for the case to be slower.

    The part is the first launches, the confirming launches or the fastest launch. The result is the
    larger of these two values, but at most `max_log_ratio`:

    - `limit_share` * `max_log_ratio`
    - the common shift of the case + `limit_share` * the limit of its residual

    `limit_share` is from 0 to 1. A negative common shift counts as 0, unless the rule compares
    neighbours.
    """
    shift = limits.common_shift if rule.compares_neighbours else max(0.0, limits.common_shift)
    partial = max(limit_share * max_log_ratio, shift + limit_share * limits.residual_limit)
    return min(max_log_ratio, partial)
