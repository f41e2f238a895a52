"""Compute the limits of a session from earlier sessions, by the rule that docs/verdict.md explains.

Times are natural logarithms of seconds, and a log ratio is the log of a time over its expected
time. Every threshold is in `policy`. Losses over several sessions are in `lasting_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from busbw.model.case import Case
from busbw.stats.launches import quantile

from .expected_times import (
    ExpectedTime,
    LaunchSummary,
    Series,
    SessionNoise,
    estimate_noise,
    group_families,
    nearest_two,
    typical_launch_variance,
)
from .policy import (
    CASES_FOR_NOISY_RATIO,
    MEDIAN_VARIANCE_RATIO,
    NOISE_QUANTILE,
    NORMAL_AT_NOISE_QUANTILE,
    SHARED_PART_VARIANCE_RATIO,
    Rule,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPart:
    """The part of today's times that all cases of a framework share, compared with its level.

    `log_level` is the expected part in log time, 0 if the framework has too few cases. `shift` is
    how far the cases together are above that level today, as a log ratio. The cases together are
    slower if `shift` exceeds `limit`. `stddev` is the standard deviation of `shift`. `noise` is how
    much the shared part varies between sessions, known without its earlier sessions.
    """

    log_level: float
    shift: float
    limit: float
    stddev: float
    noise: SessionNoise


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseLimits:
    """The limits of one case in this session, as log ratios to its expected time.

    The case is slower if its log ratio exceeds `slower_above`, and faster if it is below
    `faster_below`. `expected` is the expected time, which includes the level of the framework's
    shared part. `common_shift` is the part of today's log ratio that the case shares with other
    cases. `residual` is the remainder, with the standard deviation `stddev` and the limit
    `residual_limit`. `noise` is how much the case varies between sessions, known without its
    earlier sessions. `fastest_above` is a separate limit of the fastest launch, from the two
    neighbouring payloads; None if the rule does not compare neighbours.
    """

    expected: ExpectedTime
    slower_above: float
    faster_below: float
    stddev: float
    common_shift: float
    residual: float
    residual_limit: float
    noise: SessionNoise
    fastest_above: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLimits:
    """The limits of each case in this session, and the shared part of each framework.

    `noise_ratio` is how many times as much as usual the cases deviate from their levels; it is 1 if
    chance can explain the excess. `widening` is the factor by which limits are wider than usual. A
    session with a factor above 1 is not used to compute levels once enough sessions are known.
    """

    limits: Mapping[Case, CaseLimits] = field(default_factory=dict)
    shared_parts: Mapping[str, SharedPart] = field(default_factory=dict)
    noise_ratio: float = 1.0
    widening: float = 1.0

    @property
    def is_noisy(self) -> bool:
        """Whether the session is so noisy that it has no verdict."""
        return self.noise_ratio > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseTimes:
    """The times of a case's launches in one session, split into first and confirming launches.

    `first_launches` were measured before the case seemed slower. `confirming_log_median` is the
    median log time of the launches after them, which confirm that the case is slower. It is None if
    there are fewer confirming launches than the rule requires; `first_launches` then summarizes all
    launches.
    """

    first_launches: LaunchSummary
    all_launches: LaunchSummary
    confirming_log_median: float | None

    @classmethod
    def split(
        cls, times_s: Sequence[float], rule: Rule, planned_launches: int | None = None
    ) -> CaseTimes:
        """Split the times of launches, in seconds, into first and confirming launches.

        `planned_launches` is the number of the first launches. If it is None, all launches but the
        last `rule.confirming_launches` are the first, or the first launch alone if there are fewer.
        """
        count = (
            max(1, len(times_s) - rule.confirming_launches)
            if planned_launches is None
            else planned_launches
        )
        together, last = LaunchSummary.summarize(times_s), times_s[count:]
        if len(last) < rule.confirming_launches:
            return cls(first_launches=together, all_launches=together, confirming_log_median=None)
        first = LaunchSummary.summarize(times_s[:count])
        return cls(
            first_launches=first,
            all_launches=together,
            confirming_log_median=math.log(median(last)),
        )


@dataclass(kw_only=True, slots=True)
class History:
    """The sessions that were judged so far, as series of cases and of frameworks' shared parts.

    `case_series` and `framework_series` have the launches of each session. `pooled_frameworks` are
    the frameworks with enough cases to compute their shared part. `loss_floors` are log ratios by
    case: smaller losses of the case do not count. `noisy_flags` says of each session whether it was
    noisy.
    """

    rule: Rule
    pooled_frameworks: frozenset[str]
    loss_floors: Mapping[Case, float] = field(default_factory=dict)
    case_series: dict[Case, Series] = field(default_factory=dict)
    framework_series: dict[str, Series] = field(default_factory=dict)
    noisy_flags: list[bool] = field(default_factory=list)

    @property
    def session_count(self) -> int:
        return len(self.noisy_flags)

    def find_series(self, subject: Case | str) -> Series | None:
        """Return the series of a case, or of the framework `subject`; None without a session."""
        return (
            self.framework_series.get(subject)
            if isinstance(subject, str)
            else self.case_series.get(subject)
        )

    def loss_floor(self, case: Case) -> float:
        """Return the smallest loss of `case` that counts, as a log ratio."""
        return max(math.log1p(self.rule.min_case_loss), self.loss_floors.get(case, 0.0))


def compute_limits(history: History, today: Mapping[Case, CaseTimes]) -> SessionLimits:
    """Compute the limits of today's cases that have a series in `history`.

    The noise of the session is estimated from the first launches alone: confirming launches were
    measured only of cases that seem slower.
    """
    measured = {case: times for case, times in today.items() if case in history.case_series}
    first = _Comparison(history, {case: times.first_launches for case, times in measured.items()})
    noise_ratio, widening = first.compute_noise_and_widening()
    together = {case: times.all_launches for case, times in measured.items()}
    second = first if together == first.today else _Comparison(history, together)
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


class _Comparison:
    """The comparison of launches of one session, `today`, with the history.

    `expected_times` has the expected time of each case. `noises` has, for each case, how much
    sessions vary. `session_variance` is the variance between sessions of a typical case.
    `limit_sigmas` is the limit of a case in standard deviations, and `normal_sigmas` is the same
    limit without heavy tails.
    """

    def __init__(self, history: History, today: Mapping[Case, LaunchSummary]) -> None:
        rule = history.rule
        levels = {case: series.expected_time(rule) for case, series in history.case_series.items()}
        self.history, self.rule, self.today = history, rule, today
        self.frameworks = list(dict.fromkeys(case.framework for case in today))
        self.expected_times = {case: level for case, level in levels.items() if level is not None}
        quiet = history.noisy_flags.count(False)
        self.noises, self.session_variance = estimate_noise(
            history.case_series, self.expected_times, today, quiet, rule
        )
        self.normal_sigmas = rule.case_sigmas + rule.case_sigmas_over_sessions / max(1, quiet)
        self.limit_sigmas = self._limit_in_sigmas()

    def _limit_in_sigmas(self) -> float:
        """Return the limit of a case in standard deviations of its residual.

        It is larger if the residuals of earlier sessions have heavier tails than a normal
        distribution.
        """
        rule, series = self.rule, self.history.case_series.values()
        farthest = sorted(
            max(case.extreme_sigmas[-rule.level_sessions :], default=0.0) for case in series
        )
        third = farthest[-min(3, len(farthest))] if farthest else 0.0
        residuals = sum(expected.session_count - 1 for expected in self.expected_times.values())
        if residuals >= rule.min_tail_residuals and third > rule.heavy_tail_sigmas:
            return max(self.normal_sigmas, rule.heavy_tail_factor * third)
        return self.normal_sigmas

    def _session_stddev(self, case: Case) -> float:
        """Return the standard deviation of a new session's log time around the case's level."""
        expected = self.expected_times[case]
        stddev = self.noises[case].stddev_with_sessions(expected)
        return stddev * expected.prediction_factor(self.today[case])

    def _residual_limit(self, case: Case, widening: float = 1.0) -> float:
        """Return the limit of a case's residual as a log ratio, wider by the factor `widening`."""
        return max(
            self.history.loss_floor(case),
            self.limit_sigmas * widening * self._session_stddev(case),
        )

    def _shared_noise(self, framework: str, count: int) -> tuple[SessionNoise, ExpectedTime]:
        """Return how much the shared part of a framework varies, and its expected value.

        `count` is the number of the framework's cases today. The expected value is a level of 0 if
        earlier sessions have no shared part.
        """
        rule, series = self.rule, self.history.framework_series.get(framework)
        expected = series.expected_time(rule) if series is not None else None
        prior, error = rule.prior_shared_deviation**2, self.session_variance / count
        if framework in self.history.pooled_frameworks and expected is not None:
            squares = rule.prior_shared_freedom * (prior + SHARED_PART_VARIANCE_RATIO * error)
            return SessionNoise(sum_of_squares=squares, freedom=rule.prior_shared_freedom), expected
        level = ExpectedTime(
            log_level=0,
            log_fastest=0,
            session_count=self.history.session_count,
            sum_of_squares=0,
        )
        return SessionNoise(sum_of_squares=prior + MEDIAN_VARIANCE_RATIO * error, freedom=1), level

    def _log_ratios(self, framework: str, shared_level: float) -> dict[Case, float]:
        """Return log(time / expected time) of each case of a framework.

        The expected time is the level of the case plus `shared_level`, in log time.
        """
        return {
            case: launches.log_median - self.expected_times[case].log_level - shared_level
            for case, launches in self.today.items()
            if case.framework == framework
        }

    def compute_shared_part(self, framework: str, widening: float = 1.0) -> SharedPart:
        """Compute the shared part of a framework's cases: the median of their log ratios today.

        The median is over the cases inside their limits, so that cases which changed, up to half of
        all, do not move it. If too few cases are inside, the median is over all cases. `widening`
        is the factor by which the noise of cases exceeds its usual value.
        """
        count = sum(case.framework == framework for case in self.today)
        noise, expected = self._shared_noise(framework, count)
        is_pooled = framework in self.history.pooled_frameworks
        stddev = noise.stddev_with_sessions(expected) if is_pooled else noise.stddev()
        stddev *= math.sqrt(1 + 1 / expected.session_count)
        ratios = self._log_ratios(framework, expected.log_level)
        # Wider limits for heavy tails could include cases that became faster, up to half of all.
        inside = [
            ratio
            for case, ratio in ratios.items()
            if abs(ratio) <= self._log_ratio_limit(case, stddev, self.normal_sigmas)
        ]
        cases = [
            self.noises[case].stddev_with_sessions(self.expected_times[case]) ** 2
            for case in ratios
        ]
        more = SHARED_PART_VARIANCE_RATIO * (widening**2 - 1) * fmean(cases)
        more *= 1 + 1 / self.history.session_count
        limit = self.rule.shared_sigmas * math.sqrt(stddev**2 + more / count)
        return SharedPart(
            log_level=expected.log_level,
            shift=median(inside if len(inside) >= self.rule.min_shared_cases else ratios.values()),
            limit=max(math.log1p(self.rule.min_session_loss), limit) if count > 1 else math.inf,
            stddev=stddev,
            noise=noise,
        )

    def _log_ratio_limit(
        self, case: Case, shared_stddev: float, sigmas: float, widening: float = 1.0
    ) -> float:
        """Return the limit of a case's log ratio: `sigmas` standard deviations, at least its floor.

        The variance of the log ratio is the sum of two variances: of the residual, whose standard
        deviation is multiplied by `widening`, and of the shared part, whose standard deviation is
        `shared_stddev`. The floor is the smallest loss of the case that counts.
        """
        stddev = math.hypot(widening * self._session_stddev(case), shared_stddev)
        return max(self.history.loss_floor(case), sigmas * stddev)

    def _common_shifts(
        self, framework: str, shift: float, ratios: Mapping[Case, float]
    ) -> dict[Case, float]:
        """Return, for each case, the part of its log ratio that it shares with other cases.

        The part is `shift`, the shift of the framework's shared part. If the rule compares
        neighbours, it is the median log ratio of the two neighbouring payloads. It is 0 if the
        framework has too few cases. `ratios` are the log ratios of the cases.
        """
        is_pooled = framework in self.history.pooled_frameworks
        shifts = dict.fromkeys(ratios, shift if is_pooled else 0.0)
        if self.rule.compares_neighbours and is_pooled:
            for family in group_families(ratios):
                for case in family if len(family) > 1 else ():
                    shifts[case] = median(ratios[other] for other in nearest_two(case, family))
        return shifts

    def compute_noise_and_widening(self) -> tuple[float, float]:
        """Compute how noisy the session is, and how much wider its limits are.

        The session is noisy if the residuals of cases are clearly larger than usual, or if they are
        larger than usual and launches vary clearly more than usual.

        Returns:
            How many times as large as usual the residuals are (1 if the session is not noisy), and
            the factor by which limits are wider.

        """
        rule, residuals = self.rule, list[float]()
        for framework in self.frameworks:
            shared = self.compute_shared_part(framework)
            ratios = self._log_ratios(framework, shared.log_level)
            for case, shift in self._common_shifts(framework, shared.shift, ratios).items():
                residual, limit = abs(ratios[case] - shift), self._residual_limit(case)
                if residual <= limit:
                    residuals.append(residual * self.limit_sigmas / limit)
        if not residuals or len(self.today) < rule.min_cases_for_noise:
            return 1.0, 1.0
        ratio = quantile(residuals, NOISE_QUANTILE) / NORMAL_AT_NOISE_QUANTILE
        chance = math.sqrt(max(1.0, CASES_FOR_NOISY_RATIO / len(self.today)))
        # The noise of earlier sessions is uncertain, too, if there are few of these sessions.
        more = self.history.noisy_flags.count(False) - 1
        usual = math.sqrt(1 + 0.5 / more) if more > 0 else 1.0
        if ratio <= 1 + (rule.widening_ratio - 1) * chance * usual:
            return 1.0, 1.0
        least = 1 + ((rule.noisy_ratio if more else rule.first_noisy_ratio) - 1) * chance
        is_noisy = ratio > least or self._launch_noise_ratio() > rule.noisy_ratio
        return ratio if is_noisy else 1.0, rule.widening_factor * ratio

    def _launch_noise_ratio(self) -> float:
        """Return the deviation between launches today, relative to earlier sessions."""
        series = (self.history.case_series[case] for case in self.today)
        before = typical_launch_variance(
            [case.sum_launch_squares(self.rule) for case in series], self.rule
        )
        today = self.today.values()
        fresh = [(times.sum_of_squares, times.freedom) for times in today if times.freedom]
        return math.sqrt(typical_launch_variance(fresh, self.rule) / before)

    def compute_case_limits(
        self, shared: SharedPart, framework: str, widening: float
    ) -> dict[Case, CaseLimits]:
        """Compute the limits of each case of a framework, wider by the factor `widening`.

        `shared` is the part of today's times that these cases share.
        """
        ratios = self._log_ratios(framework, shared.log_level)
        fastest_ratios = {
            case: self.today[case].log_fastest
            - self.expected_times[case].log_fastest
            - shared.log_level
            for case in ratios
            if self.rule.compares_neighbours and framework in self.history.pooled_frameworks
        }
        fastest = self._common_shifts(framework, shared.shift, fastest_ratios)
        return {
            case: self._limits_of_case(
                case, ratios[case], shift, shared, widening, fastest.get(case)
            )
            for case, shift in self._common_shifts(framework, shared.shift, ratios).items()
        }

    def _limits_of_case(
        self,
        case: Case,
        log_ratio: float,
        common_shift: float,
        shared: SharedPart,
        widening: float,
        fastest_shift: float | None,
    ) -> CaseLimits:
        """Return the limits of one case.

        Args:
            case: The case.
            log_ratio: The log of today's median over the expected time.
            common_shift: The part of `log_ratio` that the case shares with other cases.
            shared: The part of today's times that the framework's cases share.
            widening: The factor by which limits are wider than usual.
            fastest_shift: The part of the fastest launch's log ratio that the case shares with its
                two neighbours; None if the fastest launch has no separate limit.

        """
        residual_limit, whole = self._residual_limit(case, widening), math.inf
        if case.framework in self.history.pooled_frameworks:
            whole = self._log_ratio_limit(case, shared.stddev, self.limit_sigmas, widening)

        def limit_above(common: float) -> float:
            """Return the limit of a log ratio of which other cases share the part `common`."""
            if self.rule.compares_neighbours:
                # A neighbour that is fast on a shared CPU does not mean that this case is slow.
                return min(max(self.history.loss_floor(case), common + residual_limit), whole)
            return min(max(0.0, common) + residual_limit, whole)

        expected = self.expected_times[case]
        return CaseLimits(
            expected=replace(
                expected,
                log_level=expected.log_level + shared.log_level,
                log_fastest=expected.log_fastest + shared.log_level,
            ),
            slower_above=limit_above(common_shift),
            faster_below=-limit_above(-common_shift),
            stddev=self._session_stddev(case),
            common_shift=common_shift,
            residual=log_ratio - common_shift,
            residual_limit=residual_limit,
            noise=self.noises[case],
            fastest_above=None if fastest_shift is None else limit_above(fastest_shift),
        )
