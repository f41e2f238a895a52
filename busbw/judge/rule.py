"""Compare one session with what earlier sessions say: the rule that docs/verdict.md explains.

Times are natural logarithms of seconds, and every number is in `policy`. Losses over several
sessions are in `lasting_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from busbw.model.case import Case
from busbw.stats.launches import quantile

from .expected_times import (
    CaseNoise,
    ExpectedTime,
    Launches,
    Series,
    estimate_noise,
    families,
    launch_variance,
    nearest,
)
from .policy import (
    CASES_FOR_NOISY_RATIO,
    MEDIAN_VARIANCE,
    NOISE_QUANTILE,
    NORMAL_AT_QUANTILE,
    SHARED_ERROR_VARIANCE,
    Rule,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """How far the cases of a framework together are from their level now: `shift`, a log ratio.

    Above `limit` they are slower. `stddev` is the standard deviation of the shift, and `noise` is
    what is known of its noise besides the earlier sessions.
    """

    level: float
    shift: float
    limit: float
    stddev: float
    noise: CaseNoise


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """The limits of a case now, log ratios to the level: it is slower above `slower`.

    Below `faster` it is faster. The level of `expected` includes the level of the framework's
    shared part. `common_shift` is the part of the log ratio that the case shares with other cases
    now, and `residual` the remainder, with the standard deviation `stddev` and the limit
    `residual_limit`. `fastest` is the limit of the fastest launch where neighbouring sizes give
    one, and None elsewhere.
    """

    expected: ExpectedTime
    slower: float
    faster: float
    stddev: float
    common_shift: float
    residual: float
    residual_limit: float
    noise: CaseNoise
    fastest: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLimits:
    """The limits by case, and the shared part of each framework.

    Cases deviate `noise_ratio` times as much as usual, 1 where chance explains it. Limits are wider
    by the factor `widening`; a session with a factor above 1 makes no level.
    """

    limits: Mapping[Case, Limit] = field(default_factory=dict)
    shared: Mapping[str, Shared] = field(default_factory=dict)
    noise_ratio: float = 1.0
    widening: float = 1.0

    @property
    def is_noisy(self) -> bool:
        """Whether the session is so noisy that it has no verdict."""
        return self.noise_ratio > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseTimes:
    """The launches of a case in one session: the `first` ones, and all of them together.

    `confirmation` is the median of the last launches, which confirm that the case seems slower;
    None if there are fewer of them than the rule requires.
    """

    first: Launches
    together: Launches
    confirmation: float | None

    @classmethod
    def split(cls, times_s: Sequence[float], rule: Rule, launches: int | None = None) -> CaseTimes:
        """Split launches in seconds after the first `launches`; if None, before the last few."""
        count = max(1, len(times_s) - rule.confirming_launches) if launches is None else launches
        together, last = Launches.summarize(times_s), times_s[count:]
        if len(last) < rule.confirming_launches:
            return cls(first=together, together=together, confirmation=None)
        first = Launches.summarize(times_s[:count])
        return cls(first=first, together=together, confirmation=math.log(median(last)))


@dataclass(kw_only=True, slots=True)
class History:
    """The sessions replayed so far: a series for each case and one for each framework.

    The `pooled_frameworks` have enough cases to show what these share. `floors` are the smallest
    losses that count, log ratios by case, and `noisy` says of each session whether it was noisy.
    """

    rule: Rule
    pooled_frameworks: frozenset[str]
    floors: Mapping[Case, float] = field(default_factory=dict)
    cases: dict[Case, Series] = field(default_factory=dict)
    shared: dict[str, Series] = field(default_factory=dict)
    noisy: list[bool] = field(default_factory=list)

    @property
    def sessions(self) -> int:
        return len(self.noisy)

    def find(self, name: Case | str) -> Series | None:
        """Return the series of a case or of a framework; None without a session."""
        return self.shared.get(name) if isinstance(name, str) else self.cases.get(name)

    def floor(self, case: Case) -> float:
        """Return the smallest loss of `case` that counts, a log ratio."""
        return max(math.log1p(self.rule.min_case_loss), self.floors.get(case, 0.0))


def compute_limits(history: History, today: Mapping[Case, CaseTimes]) -> SessionLimits:
    """Compute the limits of the cases of `today` that `history` has.

    The first launches tell how noisy the session is: the others were measured only of cases that
    seem slower.
    """
    measured = {case: times for case, times in today.items() if case in history.cases}
    first = _Comparison(history, {case: times.first for case, times in measured.items()})
    noise_ratio, widening = first.noise_ratios()
    together = {case: times.together for case, times in measured.items()}
    second = first if together == first.today else _Comparison(history, together)
    shared = {name: second.shared(name, widening) for name in second.frameworks}
    limits = {
        case: limit
        for name in second.frameworks
        for case, limit in second.limits(shared[name], name, widening).items()
    }
    return SessionLimits(limits=limits, shared=shared, noise_ratio=noise_ratio, widening=widening)


class _Comparison:
    """The comparison of some launches, `today`, with the history."""

    def __init__(self, history: History, today: Mapping[Case, Launches]) -> None:
        rule = history.rule
        levels = {case: series.expected(rule) for case, series in history.cases.items()}
        self.history, self.rule, self.today = history, rule, today
        self.frameworks = list(dict.fromkeys(case.framework for case in today))
        self.expected = {case: level for case, level in levels.items() if level is not None}
        quiet = history.noisy.count(False)
        self.noises, self.session_variance = estimate_noise(
            history.cases, self.expected, today, quiet, rule
        )
        self.normal_sigmas = rule.case_sigmas + rule.case_sigmas_over_sessions / max(1, quiet)
        self.sigmas = self._sigmas()

    def _sigmas(self) -> float:
        """Return the limit of a session in standard deviations; it is larger for heavy tails."""
        rule, cases = self.rule, self.history.cases.values()
        farthest = sorted(max(case.extremes[-rule.level_sessions :], default=0.0) for case in cases)
        third = farthest[-min(3, len(farthest))] if farthest else 0.0
        residuals = sum(level.sessions - 1 for level in self.expected.values())
        if residuals >= rule.min_tail_residuals and third > rule.heavy_tail_sigmas:
            return max(self.normal_sigmas, rule.heavy_tail_factor * third)
        return self.normal_sigmas

    def _stddev(self, case: Case) -> float:
        """Return the standard deviation of one more session of a case from its level."""
        expected = self.expected[case]
        return self.noises[case].with_sessions(expected) * math.sqrt(1 + 1 / expected.sessions)

    def _residual_limit(self, case: Case, widening: float = 1.0) -> float:
        return max(self.history.floor(case), self.sigmas * widening * self._stddev(case))

    def _shared_noise(self, name: str, count: int) -> tuple[CaseNoise, ExpectedTime]:
        """Return the noise of what a framework's cases share, and its level: 0 for few cases."""
        rule, series = self.rule, self.history.shared.get(name)
        expected = series.expected(rule) if series is not None else None
        prior, error = rule.prior_shared_deviation**2, self.session_variance / count
        if name in self.history.pooled_frameworks and expected is not None:
            squares = rule.prior_shared_freedom * (prior + SHARED_ERROR_VARIANCE * error)
            return CaseNoise(squares=squares, freedom=rule.prior_shared_freedom), expected
        level = ExpectedTime(level=0, fastest=0, sessions=self.history.sessions, squares=0)
        return CaseNoise(squares=prior + MEDIAN_VARIANCE * error, freedom=1), level

    def _log_ratios(self, name: str, level: float) -> dict[Case, float]:
        """Return the log ratios of a framework's cases to their levels and its shared `level`."""
        return {
            case: launches.median - self.expected[case].level - level
            for case, launches in self.today.items()
            if case.framework == name
        }

    def shared(self, name: str, widening: float = 1.0) -> Shared:
        """Return what a framework's cases share now: the median of cases inside their limits.

        The others may be half of all cases.
        """
        count = sum(case.framework == name for case in self.today)
        noise, expected = self._shared_noise(name, count)
        is_pooled = name in self.history.pooled_frameworks
        stddev = noise.with_sessions(expected) if is_pooled else noise.stddev()
        stddev *= math.sqrt(1 + 1 / expected.sessions)
        ratios = self._log_ratios(name, expected.level)
        # Heavy tails make no limit wider here: half of the cases may be faster.
        inside = [
            ratio
            for case, ratio in ratios.items()
            if abs(ratio) <= self._whole_limit(case, stddev, self.normal_sigmas)
        ]
        cases = [self.noises[case].with_sessions(self.expected[case]) ** 2 for case in ratios]
        more = SHARED_ERROR_VARIANCE * (widening**2 - 1) * fmean(cases)
        more *= 1 + 1 / self.history.sessions
        limit = self.rule.shared_sigmas * math.sqrt(stddev**2 + more / count)
        return Shared(
            level=expected.level,
            shift=median(inside if len(inside) >= self.rule.min_shared_cases else ratios.values()),
            limit=max(math.log1p(self.rule.min_session_loss), limit) if count > 1 else math.inf,
            stddev=stddev,
            noise=noise,
        )

    def _whole_limit(
        self, case: Case, shared_stddev: float, sigmas: float, widening: float = 1.0
    ) -> float:
        """Return the limit of a case together with what it shares with others."""
        stddev = math.hypot(widening * self._stddev(case), shared_stddev)
        return max(self.history.floor(case), sigmas * stddev)

    def _common_shifts(
        self, name: str, shift: float, ratios: Mapping[Case, float]
    ) -> dict[Case, float]:
        """Return what each case shares with others: with all, or with the two nearest sizes."""
        is_pooled = name in self.history.pooled_frameworks
        shifts = dict.fromkeys(ratios, shift if is_pooled else 0.0)
        if self.rule.compares_neighbours and is_pooled:
            for family in families(ratios):
                for case in family if len(family) > 1 else ():
                    shifts[case] = median(ratios[other] for other in nearest(case, family))
        return shifts

    def noise_ratios(self) -> tuple[float, float]:
        """Return how much noisier than usual the session is, if clearly, and by what limits widen.

        It is noisy by the deviations of the cases, or by these and the launches together.
        """
        rule, residuals = self.rule, list[float]()
        for name in self.frameworks:
            shared = self.shared(name)
            ratios = self._log_ratios(name, shared.level)
            for case, shift in self._common_shifts(name, shared.shift, ratios).items():
                residual, limit = abs(ratios[case] - shift), self._residual_limit(case)
                if residual <= limit:
                    residuals.append(residual * self.sigmas / limit)
        if not residuals or len(self.today) < rule.min_cases_for_noise:
            return 1.0, 1.0
        ratio = quantile(residuals, NOISE_QUANTILE) / NORMAL_AT_QUANTILE
        chance = math.sqrt(max(1.0, CASES_FOR_NOISY_RATIO / len(self.today)))
        # The noise of earlier sessions is uncertain, too, if there are few of these.
        more = self.history.noisy.count(False) - 1
        usual = math.sqrt(1 + 0.5 / more) if more > 0 else 1.0
        if ratio <= 1 + (rule.widening_ratio - 1) * chance * usual:
            return 1.0, 1.0
        least = 1 + ((rule.noisy_ratio if more else rule.first_noisy_ratio) - 1) * chance
        is_noisy = ratio > least or self._launch_ratio() > rule.noisy_ratio
        return ratio if is_noisy else 1.0, rule.widening_factor * ratio

    def _launch_ratio(self) -> float:
        """Return how many times as much as usual launches differ now."""
        series = (self.history.cases[case] for case in self.today)
        before = launch_variance([case.launch_squares(self.rule) for case in series], self.rule)
        fresh = [(launches.squares, launches.freedom) for launches in self.today.values()]
        return math.sqrt(launch_variance(fresh, self.rule) / before)

    def limits(self, shared: Shared, name: str, widening: float) -> dict[Case, Limit]:
        """Return the limit of each case of a framework, whose cases share `shared`."""
        ratios = self._log_ratios(name, shared.level)
        fastest_ratios = {
            case: self.today[case].fastest - self.expected[case].fastest - shared.level
            for case in ratios
            if self.rule.compares_neighbours and name in self.history.pooled_frameworks
        }
        fastest = self._common_shifts(name, shared.shift, fastest_ratios)
        return {
            case: self._limit(case, ratios[case], shift, shared, widening, fastest.get(case))
            for case, shift in self._common_shifts(name, shared.shift, ratios).items()
        }

    def _limit(
        self,
        case: Case,
        ratio: float,
        shift: float,
        shared: Shared,
        widening: float,
        fastest: float | None,
    ) -> Limit:
        residual_limit, whole = self._residual_limit(case, widening), math.inf
        if case.framework in self.history.pooled_frameworks:
            whole = self._whole_limit(case, shared.stddev, self.sigmas, widening)

        def limit_above(common: float) -> float:
            if self.rule.compares_neighbours:
                # A fast neighbour on a shared CPU makes no case slow.
                return min(max(self.history.floor(case), common + residual_limit), whole)
            return min(max(0.0, common) + residual_limit, whole)

        expected = self.expected[case]
        return Limit(
            expected=replace(
                expected,
                level=expected.level + shared.level,
                fastest=expected.fastest + shared.level,
            ),
            slower=limit_above(shift),
            faster=-limit_above(-shift),
            stddev=self._stddev(case),
            common_shift=shift,
            residual=ratio - shift,
            residual_limit=residual_limit,
            noise=self.noises[case],
            fastest=None if fastest is None else limit_above(fastest),
        )
