"""The decision on one case by its launches of today: slower, faster, neither, or not yet."""

from __future__ import annotations

from dataclasses import dataclass

from .policy import Rule
from .rule import CaseTimes, Limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The decision on a case: slower (1), faster (-1), neither (0), or None.

    None: the first launches seem slower (`is_suspected`), and the launches that confirm it are
    missing. `log_ratio` is the median of all launches over the level, `limit` what it was compared
    with, and `confirmation` the log ratio of the confirming launches, None without them.
    `is_confirmed`: these are slower, too.
    """

    direction: int | None
    log_ratio: float
    limit: float
    confirmation: float | None
    is_suspected: bool
    is_confirmed: bool

    @property
    def is_noisy(self) -> bool:
        """Whether not all launches agree that the case is slower.

        It was confirmed and is within the limit, or exceeds the limit and was not confirmed.
        """
        return self.direction == 0 and (self.is_confirmed or self.log_ratio > self.limit)


def decide(times: CaseTimes, limit: Limit, rule: Rule, max_log_ratio: float) -> Decision:
    """Decide whether a case is slower than its expected time by more than `max_log_ratio`.

    It is slower if the median of all launches exceeds `max_log_ratio`, and the first launches, the
    confirming ones and the fastest of all exceed a part of it.

    Args:
        times: Today's launches of the case.
        limit: The computed limits of the case.
        rule: The numbers of the rule.
        max_log_ratio: `limit.slower`, or the user's fixed limit.

    """
    shares = rule.suspicion_share, rule.fastest_share
    suspicion, fastest = (_partial_limit(limit, max_log_ratio, share, rule) for share in shares)
    level = limit.expected.level
    log_ratio = times.together.median - level
    confirmation = None if times.confirmation is None else times.confirmation - level
    is_suspected = times.first.median - level > suspicion
    is_confirmed = is_suspected and confirmation is not None and confirmation > suspicion
    direction: int | None = 0
    if is_suspected and confirmation is None:
        direction = None
    elif is_confirmed and log_ratio > max_log_ratio:
        fastest = fastest if limit.fastest is None else limit.fastest
        direction = int(times.together.fastest - limit.expected.fastest > fastest)
    elif log_ratio < limit.faster:
        direction = -1
    return Decision(
        direction=direction,
        log_ratio=log_ratio,
        limit=max_log_ratio,
        confirmation=confirmation,
        is_suspected=is_suspected,
        is_confirmed=is_confirmed,
    )


def _partial_limit(limit: Limit, max_log_ratio: float, share: float, rule: Rule) -> float:
    """Return a part of the way to the limit, above what the case shares with others now."""
    shift = limit.common_shift if rule.compares_neighbours else max(0.0, limit.common_shift)
    return min(max_log_ratio, max(share * max_log_ratio, shift + share * limit.residual_limit))
