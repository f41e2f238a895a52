"""Today's launches against the sessions of a stored baseline.

The session is the unit: today may differ by as much as the sessions of a baseline differ. The
correction by the anchor, where both have one and the policy says so, removes a part of that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from busbw import stats
from busbw.model import Baseline, Outcome, Run
from busbw.stats import Estimate

from .policy import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLaunches:
    """One session's launches of one case, seconds each; `anchors_s` for each launch, or none."""

    times_s: tuple[float, ...]
    anchors_s: tuple[float, ...] = ()

    def logs(self, weight: float) -> list[float]:
        """Log times less `weight` of the anchor's log time."""
        if not weight:
            return [math.log(time_s) for time_s in self.times_s]
        return [
            math.log(time_s) - weight * math.log(anchor_s)
            for time_s, anchor_s in zip(self.times_s, self.anchors_s)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Log ratios of today to the baseline: the median launch's and each launch's.

    `limit` is the log ratio beyond which it has regressed, `noise` the limit that follows from the
    noise alone, None where that is not known (`provisional`). `anchored`: corrected by the anchor.
    `outcome` is None while a suspicion is not confirmed (`suspected`), or if today's launches
    differ too much; `wanted` launches in all would decide that.
    """

    outcome: Outcome | None
    log_ratio: float
    launches: tuple[float, ...]
    limit: float
    noise: float | None
    anchored: bool
    error: float
    wanted: int | None = None
    suspected: bool = False

    @property
    def provisional(self) -> bool:
        """Whether the limit is the ceiling, because there are too few sessions."""
        return self.noise is None


def compare(
    sessions: Sequence[SessionLaunches],
    now: SessionLaunches,
    policy: Policy,
    *,
    payload_bytes: int,
    cases: int,
    launches: int,
) -> Compared:
    """`now` against `sessions`, at least one, as one of a session's `cases`.

    `launches` is how many were asked for initially; those beyond it are a confirmation.
    """
    weight = policy.anchor_weight if all(one.anchors_s for one in (*sessions, now)) else 0.0
    levels = [statistics.median(one.logs(weight)) for one in sessions]
    each = [value - statistics.median(levels) for value in now.logs(weight)]
    floor, ceiling = _bounds(sessions, policy, payload_bytes)
    excess = _excess([one.logs(weight) for one in sessions], each)
    noise, error = _noise(levels, excess, policy, cases)
    limit = ceiling if noise is None else min(max(noise, floor), ceiling)
    confirmed = launches + policy.confirming
    outcome: Outcome | None = _outcome(each, limit, ceiling, noise)
    suspected = outcome is Outcome.REGRESSED and len(each) < confirmed
    # Today's launches differ much: more of them may decide what three do not.
    unclear = outcome is Outcome.NOISY and excess > 0 and len(each) < confirmed
    if suspected or unclear:
        outcome = None
    elif outcome is Outcome.REGRESSED and not _seen_again(each[launches:], limit, floor):
        outcome = Outcome.PASS
    return Compared(
        outcome=outcome,
        log_ratio=statistics.median(each),
        launches=tuple(each),
        limit=limit,
        noise=noise,
        anchored=weight > 0,
        error=error,
        wanted=confirmed if suspected or unclear else None,
        suspected=suspected,
    )


def _bounds(
    sessions: Sequence[SessionLaunches], policy: Policy, payload_bytes: int
) -> tuple[float, float]:
    """The lowest and the highest limit, as log ratios; neither is below the least difference."""
    tier = policy.tier(payload_bytes)
    usual_s = statistics.median(time_s for one in sessions for time_s in one.times_s)
    floor = math.log1p(max(tier.floor, policy.least_difference_s / usual_s))
    return floor, max(math.log1p(tier.ceiling), floor)


def launches_of(baseline: Baseline) -> list[SessionLaunches]:
    """The sessions of a baseline."""
    return [SessionLaunches(times_s=s.times_s, anchors_s=s.anchors_s) for s in baseline.sessions]


def now_of(runs: Sequence[Run]) -> SessionLaunches:
    """Today's launches, at least one; the anchor of a launch is the median of its samples."""
    return SessionLaunches(
        times_s=tuple(stats.launch_time_s(run) for run in runs),
        anchors_s=stats.anchors_s(runs),
    )


def _excess(before: Sequence[Sequence[float]], now: Sequence[float]) -> float:
    """The additional variance of today's median, if launches differ more than in the baseline.

    In a session whose launches differ much, something else was running.
    """
    usual = [statistics.variance(one) for one in before if len(one) > 1]
    if not usual or len(now) < 2:
        return 0.0
    return max(0.0, statistics.variance(now) - statistics.fmean(usual)) / len(now)


def _noise(
    levels: Sequence[float], excess: float, policy: Policy, cases: int
) -> tuple[float | None, float]:
    """How far a new session may be above the mean of `levels`, None for too few; and its error.

    The variance is moderated by the usual one (G. K. Smyth, "Linear models and empirical Bayes
    methods", 2004); the bound is the prediction interval of the t-distribution for one session,
    with the session's rate of false alarms divided among its cases.
    """
    count, usual = len(levels), policy.usual_noise**2
    if count < max(2, policy.full_sessions):
        return None, math.sqrt(usual * (1 + 1 / count) + excess)
    freedom = policy.usual_freedom + count - 1
    variance = policy.usual_freedom * usual + (count - 1) * stats.robust_deviation(levels) ** 2
    error = math.sqrt(variance / freedom * (1 + 1 / count) + excess)
    bound = Estimate(mean=0.0, error=error, freedom=freedom)
    return bound.upper(policy.false_alarms / cases), error


def _outcome(each: Sequence[float], limit: float, ceiling: float, noise: float | None) -> Outcome:
    """A real slowdown shows in every launch: even the best one must be beyond the limit."""
    middle = statistics.median(each)
    if min(each) > limit:
        return Outcome.REGRESSED
    if noise is not None and noise > ceiling:
        return Outcome.NOISY
    if -middle > limit:
        return Outcome.IMPROVED
    return Outcome.PASS


def _seen_again(fresh: Sequence[float], limit: float, floor: float) -> bool:
    """Whether the fresh launches alone are beyond the limit."""
    return bool(fresh) and statistics.median(fresh) > max(limit, floor)
