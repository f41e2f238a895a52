"""Estimate the noise: how much the sessions of a case vary while the code is unchanged.

Times are natural logarithms of seconds, so that a standard deviation of 0.01 is about 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from busbw.model.case import Case

from .policy import RuleThresholds
from .series import NO_LAUNCHES, ExpectedTime, LogTimeSummary, Series

_Member = TypeVar("_Member")


def mean_of_clipped_variances(
    variances: Sequence[tuple[float, float]],
    thresholds: RuleThresholds,
    expected_variances: Sequence[float] | None = None,
) -> float:
    """Compute the mean of clipped variances, weighted by their degrees of freedom.

    Each variance is clipped, so that a few large variances do not decide the mean. For this, the
    ratio of each variance to its expected variance is computed. The largest allowed ratio is
    `thresholds.max_variance_ratio` times the typical ratio. The typical ratio is the median of all
    ratios, each divided by the median of chi-squared(n) / n, where n are the degrees of freedom of
    the variance.

    Args:
        variances: Pairs of a variance and its degrees of freedom. Without pairs the result is 0.
        thresholds: The thresholds of the rule.
        expected_variances: The expected value of each variance; None if all expected values are 1.

    Returns:
        The mean of the clipped variances, which is a variance and not a ratio.

    """
    if not variances:
        return 0.0
    pairs = list(zip(variances, expected_variances or [1.0] * len(variances)))
    # The median of chi-squared over its degrees of freedom is from Wilson and Hilferty (1931).
    ratios = (
        variance / expected / (1 - 2 / (9 * max(1.0, freedom))) ** 3
        for (variance, freedom), expected in pairs
    )
    max_ratio = thresholds.max_variance_ratio * median(ratios)
    clipped = (min(value, max_ratio * expected) * freedom for (value, freedom), expected in pairs)
    return math.fsum(clipped) / max(1, sum(freedom for _, freedom in variances))


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionNoise:
    """The noise of a series: how much its sessions vary while the code is unchanged, in log time.

    The variance between sessions is `sum_of_squares` / `degrees_of_freedom`. This variance is
    estimated from launches and from all cases of the session. `stddev_with_sessions` also uses how
    much the earlier sessions of the series itself varied.
    """

    sum_of_squares: float
    degrees_of_freedom: float

    def stddev(
        self, additional_squares: float = 0.0, additional_degrees_of_freedom: int = 0
    ) -> float:
        """Return the standard deviation between sessions, pooled with further squared deviations.

        `additional_squares` is the sum of these squared deviations, in log time, with
        `additional_degrees_of_freedom` degrees of freedom.
        """
        return math.sqrt(
            (self.sum_of_squares + additional_squares)
            / (self.degrees_of_freedom + additional_degrees_of_freedom)
        )

    def stddev_with_sessions(self, expected_time: ExpectedTime) -> float:
        """Return the standard deviation between sessions, pooled with the earlier sessions.

        `expected_time` has the squared deviations of the earlier sessions of the series.
        """
        return self.stddev(expected_time.sum_of_squares, expected_time.session_count - 1)


def estimate_session_noises(
    series_by_case: Mapping[Case, Series],
    expected_times: Mapping[Case, ExpectedTime],
    launches_today: Mapping[Case, LogTimeSummary],
    quiet_session_count: int,
    thresholds: RuleThresholds,
) -> tuple[dict[Case, SessionNoise], float]:
    """Estimate, for each case, how much sessions vary while the code is unchanged.

    The variance between sessions is assumed to be proportional to the variance between launches of
    the same session. The launches of neighbouring payloads count, too, with less weight than the
    launches of the case. Variances are pooled as for a normal distribution.

    Args:
        series_by_case: The earlier sessions of each case.
        expected_times: The expected times by case, without cases that have no counted session.
        launches_today: The launches of today's session, which also show how launches vary.
        quiet_session_count: The number of earlier sessions that were not noisy.
        thresholds: The thresholds of the rule.

    Returns:
        The noise of each case, and the variance between sessions of a typical case. Both are in log
        time.

    """
    launch_squares: dict[Case, tuple[float, float]] = {}
    for case, series in series_by_case.items():
        squares, freedom = series.sum_launch_squares(thresholds)
        summary_today = launches_today.get(case, NO_LAUNCHES)
        launch_squares[case] = (
            squares + summary_today.sum_of_squares,
            freedom + summary_today.degrees_of_freedom,
        )
    launch_variance = typical_launch_variance(launch_squares.values(), thresholds)
    launch_noises = _estimate_launch_noises(launch_squares, launch_variance, thresholds)
    repeated = {
        case: expected for case, expected in expected_times.items() if expected.session_count > 1
    }
    residual_count = sum(expected.session_count - 1 for expected in repeated.values())
    variances = [
        (expected.sum_of_squares / (expected.session_count - 1), expected.session_count - 1)
        for expected in repeated.values()
    ]
    expected_variances = [launch_noises[case].stddev() ** 2 for case in repeated]
    prior = (
        thresholds.prior_stddev**2
        if quiet_session_count <= thresholds.max_prior_session_count
        else 0.0
    )
    session_variance = thresholds.prior_degrees_of_freedom * max(
        prior, thresholds.min_session_to_launch_variance_ratio * launch_variance
    )
    session_variance += residual_count * mean_of_clipped_variances(
        variances, thresholds, expected_variances
    )
    session_variance /= thresholds.prior_degrees_of_freedom + residual_count
    noises = {
        case: replace(
            noise, sum_of_squares=noise.sum_of_squares * session_variance / launch_variance
        )
        for case, noise in launch_noises.items()
    }
    return noises, session_variance


def typical_launch_variance(
    launch_squares: Iterable[tuple[float, float]], thresholds: RuleThresholds
) -> float:
    """Compute the variance between launches of a typical case, in log time.

    `launch_squares` contains a pair for each case: the sum of the squared deviations of the case's
    launches in log time, and the degrees of freedom of this sum. The result is at least
    `thresholds.min_launch_stddev` squared.
    """
    least = thresholds.min_launch_stddev**2
    variances = [
        (max(least, squares / max(1, freedom)), max(1, freedom))
        for squares, freedom in launch_squares
    ]
    return max(least, mean_of_clipped_variances(variances, thresholds))


def _estimate_launch_noises(
    launch_squares: Mapping[Case, tuple[float, float]],
    typical_variance: float,
    thresholds: RuleThresholds,
) -> dict[Case, SessionNoise]:
    """Estimate how much the launches of each case vary within a session.

    The squared deviations of a case are pooled with those of its neighbours and of a typical case.
    A SessionNoise of the result describes the noise between launches, not between sessions.

    Args:
        launch_squares: For each case, the sum of the squared deviations of its launches in log
            time, and the degrees of freedom of this sum.
        typical_variance: The variance between launches of a typical case.
        thresholds: The weights of the neighbouring payloads and of the typical case.

    """
    noises = {}
    for family in group_families(launch_squares):
        for position, case in enumerate(family):
            squares, freedom = launch_squares[case]
            for neighbour in family[
                max(0, position - thresholds.neighbour_distance) : position
                + thresholds.neighbour_distance
                + 1
            ]:
                if neighbour != case:
                    max_squares = (
                        thresholds.max_variance_ratio
                        * typical_variance
                        * launch_squares[neighbour][1]
                    )
                    squares += thresholds.neighbour_weight * min(
                        launch_squares[neighbour][0], max_squares
                    )
                    freedom += thresholds.neighbour_weight * launch_squares[neighbour][1]
            share = min(1.0, thresholds.max_launch_degrees_of_freedom / freedom) if freedom else 0.0
            noises[case] = SessionNoise(
                sum_of_squares=thresholds.max_pooled_degrees_of_freedom * typical_variance
                + share * squares,
                degrees_of_freedom=thresholds.max_pooled_degrees_of_freedom + share * freedom,
            )
    return noises


def find_two_neighbours(member: _Member, family: Sequence[_Member]) -> list[_Member]:
    """Return the two members of `family` that are nearest to `member` in the order of the family.

    A family is a sequence of cases that differ only in payload, sorted by payload. `member` is in
    the family, and not in the result. Returns fewer than two members if the family has fewer than
    three.
    """
    position = family.index(member)
    positions = sorted(range(len(family)), key=lambda other: abs(other - position))
    return [family[other] for other in positions[1:3]]


def group_families(cases: Iterable[Case]) -> list[list[Case]]:
    """Return the families of `cases`: cases that differ only in payload, sorted by payload."""
    kinds: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.family_key, []).append(case)
    return [sorted(family, key=lambda case: case.payload_bytes) for family in kinds.values()]
