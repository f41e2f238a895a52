"""Compute the limits of a session from earlier sessions, by the rule that docs/verdict.md explains.

Times are natural logarithms of seconds, and a log ratio is the log of a time over its expected
time. Every threshold is in `policy`. Losses over several sessions are in `lasting_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from busbw.model.case import Case
from busbw.stats.launches import quantile

from .decision import CaseLimits
from .noise import (
    SessionNoise,
    estimate_session_noises,
    find_two_neighbours,
    group_families,
    typical_launch_variance,
)
from .policy import (
    MEDIAN_TO_MEAN_VARIANCE_RATIO,
    NOISE_RESIDUAL_QUANTILE,
    NOISY_RATIO_CASE_COUNT,
    SHARED_TO_MEAN_VARIANCE_RATIO,
    SIGMAS_AT_NOISE_QUANTILE,
)
from .series import CaseTimes, ExpectedTime, LogTimeSummary, ReplayedHistory


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPart:
    """The shared part of a framework today: how much slower all its cases together are.

    Attributes:
        expected_log_ratio: The expected shared part, a log ratio to the cases' levels; 0 if none is
            known.
        shift_log_ratio: Today's shared part minus `expected_log_ratio`; above 0 if cases are
            slower.
        max_shift_log_ratio: The cases together are slower if `shift_log_ratio` is above this limit.
        stddev: The standard deviation of `shift_log_ratio` while the code is unchanged.
        noise: The noise of the shared part, before `stddev_with_sessions` pools earlier sessions.

    """

    expected_log_ratio: float
    shift_log_ratio: float
    max_shift_log_ratio: float
    stddev: float
    noise: SessionNoise

    @property
    def is_slower(self) -> bool:
        """Whether the cases of the framework together are slower today."""
        return self.shift_log_ratio > self.max_shift_log_ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLimits:
    """The limits of each case in this session, and the shared part of each framework.

    Attributes:
        limits: Maps each case to its limits.
        shared_parts: Maps the name of each framework to its shared part.
        noise_ratio: The size of the cases' residuals divided by their usual size, if the session is
            too noisy for a verdict; otherwise 1.
        widening: The factor by which limits are wider than usual, because the session is noisier
            than usual. Later levels do not use a session with a factor above 1, except the first
            `RuleThresholds.min_session_count_for_known_noise` sessions.

    """

    limits: Mapping[Case, CaseLimits] = field(default_factory=dict)
    shared_parts: Mapping[str, SharedPart] = field(default_factory=dict)
    noise_ratio: float = 1.0
    widening: float = 1.0

    @property
    def is_noisy(self) -> bool:
        """Whether the session is so noisy that it has no verdict."""
        return self.noise_ratio > 1


def compute_limits(
    history: ReplayedHistory, times_today: Mapping[Case, CaseTimes]
) -> SessionLimits:
    """Compute the limits of the cases of `times_today` that have a series in `history`.

    The noise of the session is estimated only from the launches before the confirming launches,
    because confirming launches exist only for cases that seem slower.
    """
    measured = {case: times for case, times in times_today.items() if case in history.series}
    first = _SessionComparison(
        history, {case: times.first_launches for case, times in measured.items()}
    )
    noise_ratio, widening = first.compute_noise_ratio_and_limit_widening()
    together = {case: times.all_launches for case, times in measured.items()}
    second = first if together == first.launches else _SessionComparison(history, together)
    shared_parts = {
        framework: second.compute_shared_part(framework, widening)
        for framework in second.frameworks
    }
    limits = {
        case: limit
        for framework in second.frameworks
        for case, limit in second.compute_case_limits(
            shared_parts[framework], framework, widening
        ).items()
    }
    return SessionLimits(
        limits=limits, shared_parts=shared_parts, noise_ratio=noise_ratio, widening=widening
    )


class _SessionComparison:
    """The comparison of the launches of one session with the history.

    Attributes:
        launches: Maps each case that was measured to the summary of its launches.
        frameworks: The names of the frameworks that the session measured.
        expected_times: Maps each case to its expected time.
        noises: Maps each case to the noise of its sessions.
        residual_stddevs: Maps each case to the standard deviation of its residual.
        session_variance: The variance between sessions of a typical case, in log time.
        normal_sigmas: The limit of a residual in standard deviations, if residuals are normally
            distributed.
        limit_sigmas: The limit that is used: `normal_sigmas`, or more if the residuals of earlier
            sessions have heavier tails.

    """

    def __init__(self, history: ReplayedHistory, launches: Mapping[Case, LogTimeSummary]) -> None:
        rule = history.rule
        levels = {
            case: series.expected_time(rule) for case, series in history.series_by_case.items()
        }
        self.history, self.rule, self.launches = history, rule, launches
        self.frameworks = list(dict.fromkeys(case.framework for case in launches))
        self.expected_times = {case: level for case, level in levels.items() if level is not None}
        quiet = history.noisy_flags.count(False)
        self.noises, self.session_variance = estimate_session_noises(
            history.series_by_case, self.expected_times, launches, quiet, rule
        )
        self.residual_stddevs = {
            case: self.noises[case].stddev_with_sessions(self.expected_times[case])
            * self.expected_times[case].prediction_stddev_factor(times)
            for case, times in launches.items()
        }
        self.normal_sigmas = rule.case_sigmas + rule.case_sigmas_over_sessions / max(1, quiet)
        self.limit_sigmas = self._residual_limit_in_sigmas()

    def _residual_limit_in_sigmas(self) -> float:
        """Return the limit of the residual of any case, in standard deviations.

        The limit is larger if the residuals of earlier sessions have heavier tails than a normal
        distribution.
        """
        rule, series = self.rule, self.history.series_by_case.values()
        farthest = sorted(
            max(case.deviation_sigmas[-rule.level_session_count :], default=0.0) for case in series
        )
        third = farthest[-min(3, len(farthest))] if farthest else 0.0
        residuals = sum(expected.session_count - 1 for expected in self.expected_times.values())
        if residuals >= rule.min_residual_count_for_tails and third > rule.heavy_tail_sigmas:
            return max(self.normal_sigmas, rule.heavy_tail_residual_factor * third)
        return self.normal_sigmas

    def _shared_noise_and_level(
        self, framework: str, case_count: int
    ) -> tuple[SessionNoise, ExpectedTime]:
        """Return the noise and the level (a log ratio) of the shared part of a framework.

        `case_count` is the number of cases of the framework that were measured today. The level is
        0 if the history has no shared part of the framework.
        """
        rule = self.rule
        expected = self.history.series[framework].expected_time(rule)
        prior, error = rule.prior_shared_stddev**2, self.session_variance / case_count
        if framework in self.history.frameworks_with_shared_part and expected is not None:
            squares = rule.prior_shared_degrees_of_freedom * (
                prior + SHARED_TO_MEAN_VARIANCE_RATIO * error
            )
            return SessionNoise(
                sum_of_squares=squares, degrees_of_freedom=rule.prior_shared_degrees_of_freedom
            ), expected
        count = self.history.session_count
        level = ExpectedTime(log_level=0, log_fastest=0, session_count=count, sum_of_squares=0)
        return SessionNoise(
            sum_of_squares=prior + MEDIAN_TO_MEAN_VARIANCE_RATIO * error, degrees_of_freedom=1
        ), level

    def _log_ratios_of_cases(
        self, framework: str, expected_shared_log_ratio: float
    ) -> dict[Case, float]:
        """Return log(time today / expected time) of each measured case of a framework.

        The log of the expected time is the level of the case plus `expected_shared_log_ratio`, the
        expected shared part of the framework.
        """
        return {
            case: launches.log_median
            - self.expected_times[case].log_level
            - expected_shared_log_ratio
            for case, launches in self.launches.items()
            if case.framework == framework
        }

    def compute_shared_part(self, framework: str, widening: float = 1.0) -> SharedPart:
        """Compute the shared part of a framework today: the median of the log ratios of its cases.

        Cases outside their limits are left out, so that changed cases do not move the median. If
        fewer than `RuleThresholds.min_shared_case_count` cases remain, the median is over all
        cases. `widening` is the factor by which noise widens the limit of the returned shared part.
        The factor does not change which cases are left out.
        """
        count = sum(case.framework == framework for case in self.launches)
        noise, expected = self._shared_noise_and_level(framework, count)
        is_pooled = framework in self.history.frameworks_with_shared_part
        stddev = noise.stddev_with_sessions(expected) if is_pooled else noise.stddev()
        stddev *= math.sqrt(1 + 1 / expected.session_count)
        log_ratios = self._log_ratios_of_cases(framework, expected.log_level)
        # Wider limits for heavy tails could include cases that became faster, up to half of all.
        inside = [
            log_ratio
            for case, log_ratio in log_ratios.items()
            if abs(log_ratio)
            <= self._log_ratio_limit(case, self.normal_sigmas, shared_stddev=stddev)
        ]
        variances = [
            self.noises[case].stddev_with_sessions(self.expected_times[case]) ** 2
            for case in log_ratios
        ]
        additional_variance = SHARED_TO_MEAN_VARIANCE_RATIO * (widening**2 - 1) * fmean(variances)
        additional_variance *= 1 + 1 / self.history.session_count
        limit = self.rule.shared_sigmas * math.sqrt(stddev**2 + additional_variance / count)
        return SharedPart(
            expected_log_ratio=expected.log_level,
            shift_log_ratio=median(
                inside if len(inside) >= self.rule.min_shared_case_count else log_ratios.values()
            ),
            max_shift_log_ratio=max(math.log1p(self.rule.min_session_loss), limit)
            if count > 1
            else math.inf,
            stddev=stddev,
            noise=noise,
        )

    def _log_ratio_limit(
        self, case: Case, sigmas: float, *, shared_stddev: float = 0.0, widening: float = 1.0
    ) -> float:
        """Return `sigmas` standard deviations as a log ratio, at least the loss floor of `case`.

        The loss floor is the least log ratio that counts as a loss. `widening` multiplies the
        standard deviation of the residual of the case. The variances of the residual and of the
        shared part add up: `shared_stddev` is the standard deviation of the shared part, and 0 for
        the limit of the residual alone.
        """
        stddev = math.hypot(widening * self.residual_stddevs[case], shared_stddev)
        return max(self.history.loss_floor(case), sigmas * stddev)

    def _shifts_of_other_cases(
        self, framework: str, shared_shift_log_ratio: float, log_ratios: Mapping[Case, float]
    ) -> dict[Case, float]:
        """Return, for each case, the part of its log ratio that it shares with other cases.

        `log_ratios` contains the log ratio of each case. If the rule compares neighbours, this part
        is the median of the log ratios of the two neighbouring payloads. Otherwise this part is
        `shared_shift_log_ratio`, for all cases of the framework. If the framework has too few
        cases, this part is 0 for each case.
        """
        is_pooled = framework in self.history.frameworks_with_shared_part
        shifts = dict.fromkeys(log_ratios, shared_shift_log_ratio if is_pooled else 0.0)
        if self.rule.compares_neighbours and is_pooled:
            for family in group_families(log_ratios):
                for case in family if len(family) > 1 else ():
                    shifts[case] = median(
                        log_ratios[other] for other in find_two_neighbours(case, family)
                    )
        return shifts

    def compute_noise_ratio_and_limit_widening(self) -> tuple[float, float]:
        """Compute how noisy the session is, and how much wider its limits are.

        The session is noisy if residuals are clearly larger than usual, or if residuals are
        slightly larger and launches differ clearly more than usual.

        Returns:
            The size of the residuals divided by their usual size (1 if the session is not noisy),
            and the factor by which limits are wider. Both are 1 with too few cases.

        """
        rule, residuals = self.rule, list[float]()
        for framework in self.frameworks:
            shared_part = self.compute_shared_part(framework)
            log_ratios = self._log_ratios_of_cases(framework, shared_part.expected_log_ratio)
            for case, shift in self._shifts_of_other_cases(
                framework, shared_part.shift_log_ratio, log_ratios
            ).items():
                residual = abs(log_ratios[case] - shift)
                limit = self._log_ratio_limit(case, self.limit_sigmas)
                if residual <= limit:
                    residuals.append(residual * self.limit_sigmas / limit)
        if not residuals or len(self.launches) < rule.min_case_count_for_noise:
            return 1.0, 1.0
        ratio = quantile(residuals, NOISE_RESIDUAL_QUANTILE) / SIGMAS_AT_NOISE_QUANTILE
        chance = math.sqrt(max(1.0, NOISY_RATIO_CASE_COUNT / len(self.launches)))
        # The noise of earlier sessions is uncertain, too, if there are few of these sessions.
        more = self.history.noisy_flags.count(False) - 1
        usual = math.sqrt(1 + 0.5 / more) if more > 0 else 1.0
        if ratio <= 1 + (rule.min_noise_ratio_for_widening - 1) * chance * usual:
            return 1.0, 1.0
        least = 1 + ((rule.noisy_ratio if more else rule.first_noisy_ratio) - 1) * chance
        is_noisy = ratio > least or self._launch_noise_relative_to_history() > rule.noisy_ratio
        return ratio if is_noisy else 1.0, rule.widening_factor * ratio

    def _launch_noise_relative_to_history(self) -> float:
        """Return the noise between today's launches divided by the noise between earlier launches.

        The noise is the standard deviation of the log times of a typical case. The result is 1 if
        today's launches are as noisy as earlier launches.
        """
        series = (self.history.series[case] for case in self.launches)
        before = typical_launch_variance(
            [case.sum_launch_squares(self.rule) for case in series], self.rule
        )
        today = self.launches.values()
        fresh = [
            (times.sum_of_squares, times.degrees_of_freedom)
            for times in today
            if times.degrees_of_freedom
        ]
        return math.sqrt(typical_launch_variance(fresh, self.rule) / before)

    def compute_case_limits(
        self, shared_part: SharedPart, framework: str, widening: float
    ) -> dict[Case, CaseLimits]:
        """Compute the limits of each measured case of a framework, wider by the factor `widening`.

        `shared_part` is the shared part of the framework today.
        """
        ratios = self._log_ratios_of_cases(framework, shared_part.expected_log_ratio)
        fastest_ratios = {
            case: self.launches[case].log_fastest
            - self.expected_times[case].log_fastest
            - shared_part.expected_log_ratio
            for case in ratios
            if self.rule.compares_neighbours
            and framework in self.history.frameworks_with_shared_part
        }
        fastest = self._shifts_of_other_cases(
            framework, shared_part.shift_log_ratio, fastest_ratios
        )
        return {
            case: self._limits_of_case(
                case, ratios[case], shift, shared_part, widening, fastest.get(case)
            )
            for case, shift in self._shifts_of_other_cases(
                framework, shared_part.shift_log_ratio, ratios
            ).items()
        }

    def _limits_of_case(
        self,
        case: Case,
        log_ratio: float,
        common_shift: float,
        shared_part: SharedPart,
        widening: float,
        common_shift_of_fastest: float | None,
    ) -> CaseLimits:
        """Return the limits of one case, wider by the factor `widening`.

        `log_ratio` is today's log ratio of the case, and `common_shift` is the part of `log_ratio`
        that the case shares with other cases. `shared_part` is the shared part of the framework.
        `common_shift_of_fastest` is the part of the fastest launch's log ratio that the case shares
        with its two neighbours; None if the fastest launch has no limit of its own.
        """
        residual_limit = self._log_ratio_limit(case, self.limit_sigmas, widening=widening)
        max_limit = math.inf
        if case.framework in self.history.frameworks_with_shared_part:
            max_limit = self._log_ratio_limit(
                case, self.limit_sigmas, shared_stddev=shared_part.stddev, widening=widening
            )

        def limit_above(shared_shift_log_ratio: float) -> float:
            """Return the limit of the case's log ratio if all cases shifted by the given log ratio.

            The limit includes the shift.
            """
            if self.rule.compares_neighbours:
                # A neighbour that is fast on a shared CPU does not mean that this case is slow.
                return min(
                    max(self.history.loss_floor(case), shared_shift_log_ratio + residual_limit),
                    max_limit,
                )
            return min(max(0.0, shared_shift_log_ratio) + residual_limit, max_limit)

        expected = self.expected_times[case]
        return CaseLimits(
            expected_time=replace(
                expected,
                log_level=expected.log_level + shared_part.expected_log_ratio,
                log_fastest=expected.log_fastest + shared_part.expected_log_ratio,
            ),
            slower_above_log_ratio=limit_above(common_shift),
            faster_below_log_ratio=-limit_above(-common_shift),
            residual_stddev=self.residual_stddevs[case],
            common_shift=common_shift,
            residual=log_ratio - common_shift,
            residual_limit=residual_limit,
            noise=self.noises[case],
            fastest_launch_above_log_ratio=None
            if common_shift_of_fastest is None
            else limit_above(common_shift_of_fastest),
        )
