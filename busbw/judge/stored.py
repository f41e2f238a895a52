"""Today's launches against earlier sessions: whether a case is slower than chance makes it.

The session is the unit: what earlier sessions differ by is what today may differ by, and launches
of one session only make its own time more certain. A case is tested twice: by itself, and less what
all cases of the session share; either may show a loss that the other cannot.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw import stats
from busbw.model import Baseline, Case, Outcome, neighbours
from busbw.stats import CaseLevel, Variance

from .levels import Levels, log_times
from .policy import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedShift:
    """How far all cases of today's session are off their levels together, in log time.

    `log_ratio` is None where too few cases were measured to tell. `known` is the variance that it
    is known with, `usual` the variance of a session more, `sessions` how many say so. `excess` is
    by how much cases differ more among each other than in earlier sessions, as a variance: then
    something else was running. `parts` has by case what it shares with others, its
    neighbours too, and the variance that this is known with.
    """

    log_ratio: float | None
    known: float
    usual: Variance
    sessions: int
    excess: float = 0.0
    parts: Mapping[Case, tuple[float, float]] = field(default_factory=dict)

    def part_of(self, case: Case) -> tuple[float, float] | None:
        """What `case` shares with others, and the variance of that; None where it is unknown."""
        if self.log_ratio is None:
            return None
        return self.parts.get(case, (self.log_ratio, self.known))

    @property
    def expected(self) -> Variance:
        """The variance that one more session is expected to have."""
        one_more = 1 + 1 / max(1, self.sessions)
        return Variance(value=self.usual.value * one_more, freedom=self.usual.freedom)


def shared_shift(
    today_s: Mapping[Case, Sequence[float]], levels: Levels, policy: Policy
) -> SharedShift:
    """The shift of the launches `today_s`, seconds by case."""
    known = {case: one for case in today_s if (one := levels.level(case)) is not None}
    now = {case: log for case, log in log_times(today_s).items() if case in known}
    log_ratio = stats.shared_part(
        now, {case: one.level for case, one in known.items()}, policy.expected.least_cases
    )
    before = levels.components
    shift = SharedShift(
        log_ratio=log_ratio, known=0.0, usual=before.variance, sessions=before.sessions
    )
    if log_ratio is None:
        return shift
    off = {case: log - known[case].level - log_ratio for case, log in now.items()}
    near = neighbours(known, policy.expected.neighbours)
    parts = {case: stats.local_part(off, case, near) if near else 0.0 for case in off}
    usual = math.fsum(_one_more(one).value for one in known.values()) / len(known)
    found = stats.robust_deviation([off[case] - parts[case] for case in off]) ** 2
    return replace(
        shift,
        known=before.uncertainty(now),
        excess=found - usual if found > policy.noisier**2 * usual else 0.0,
        parts={
            case: (log_ratio + parts[case], before.uncertainty(near[case] if near else now))
            for case in off
        },
    )


def _one_more(level: CaseLevel) -> Variance:
    """The variance by which a case's own part in one more session is off its level."""
    return Variance(value=level.own.value * (1 + 1 / level.sessions), freedom=level.own.freedom)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredReference:
    """What a case is compared with: its baseline, and its level if the baseline has times.

    `shift` is what today's cases share, `cases` how many of the machine have a baseline.
    """

    baseline: Baseline
    level: CaseLevel | None = None
    shift: SharedShift | None = None
    cases: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Log ratios of today to the level: the median launch's and each launch's.

    `limit` is the log ratio beyond which it is slower, `shared` what all cases share (None where
    that is unknown), `error` the standard error of what the case differs by besides. `detectable`
    is the log ratio that would have been flagged with 95 % probability. `outcome` is None where a
    suspicion waits to be seen again, `wanted` launches in all; `fresh` is the median of those that
    were to show it again. `suspected`: the launches asked for initially looked slower.
    """

    outcome: Outcome | None
    log_ratio: float
    launches: tuple[float, ...]
    limit: float
    shared: float | None
    error: float
    detectable: float
    sessions: int
    worth: float
    suspected: bool = False
    wanted: int | None = None
    fresh: float | None = None


def compare(
    level: CaseLevel,
    now_s: Sequence[float],
    shift: SharedShift,
    policy: Policy,
    *,
    case: Case,
    cases: int,
    launches: int,
    least_s: float = 0.0,
) -> Compared:
    """The launches `now_s`, seconds, against `level`, as one of a baseline's `cases`.

    Those beyond the first `launches` are a confirmation; a clock tells `least_s` seconds at least.
    """
    log_ratio = _off(now_s, level)
    floor = math.log1p(max(policy.floor, least_s / math.exp(level.level)))
    tests = _tests(level, shift, shift.part_of(case), policy, cases)
    limit, deciding = _limit(tests, floor)
    suspicion = _suspicion(limit, deciding, policy)
    confirmed = launches + policy.confirming
    fresh = _off(now_s[launches:], level) if len(now_s) >= confirmed else None
    worth = policy.worth_after(level.sessions)
    outcome = _slower(log_ratio, fresh, suspicion, limit)
    if outcome is Outcome.PASS:
        outcome = _not_slower(log_ratio, tests[0], worth, policy.ruled_out)
    return Compared(
        outcome=outcome,
        log_ratio=log_ratio,
        launches=tuple(math.log(time_s) - level.level for time_s in now_s),
        limit=limit,
        shared=tests[0].offset if len(tests) > 1 else None,
        error=tests[0].error,
        detectable=limit - tests[0].offset + deciding.upper(policy.detected),
        sessions=level.sessions,
        worth=worth,
        suspected=_off(now_s[:launches], level) > suspicion,
        wanted=confirmed if outcome is None else None,
        fresh=fresh,
    )


def _slower(
    log_ratio: float, fresh: float | None, suspicion: float, limit: float
) -> Outcome | None:
    """REGRESSED, None for a suspicion that waits for `fresh` launches, or PASS: not slower."""
    if fresh is None:
        return None if log_ratio > suspicion else Outcome.PASS
    return Outcome.REGRESSED if log_ratio > limit and fresh > suspicion else Outcome.PASS


def _suspicion(limit: float, test: _Test, policy: Policy) -> float:
    """The log ratio beyond which a case is measured again."""
    begin = max(0.0, test.offset)
    return begin + policy.suspect * (limit - begin)


def _limit(tests: Sequence[_Test], floor: float) -> tuple[float, _Test]:
    """The log ratio beyond which a case is slower, never below the floor, and the test for it."""
    return min(
        ((max(floor, test.offset + max(floor, test.bound)), test) for test in tests),
        key=lambda one: one[0],
    )


def _off(times_s: Sequence[float], level: CaseLevel) -> float:
    """The log ratio of the median, which is what tables show."""
    return math.log(statistics.median(times_s)) - level.level


@dataclass(frozen=True, kw_only=True, slots=True)
class _Test:
    """A log ratio is beyond `offset` + `bound` by chance as rarely as is allowed."""

    offset: float
    bound: float
    error: float
    freedom: float

    def upper(self, level: float) -> float:
        """What the error exceeds with probability `level`."""
        return stats.t_quantile(level, self.freedom) * self.error


def _tests(
    level: CaseLevel,
    shift: SharedShift,
    part: tuple[float, float] | None,
    policy: Policy,
    cases: int,
) -> tuple[_Test, ...]:
    """Less what all cases share, where that is known, and by itself."""
    usual = _one_more(level)
    own = Variance(value=usual.value + shift.excess, freedom=usual.freedom)
    found = [(0.0, stats.summed(own, shift.expected))]
    if part is not None:
        offset, known = part
        found.insert(0, (offset, Variance(value=own.value + known, freedom=own.freedom)))
    rate = policy.false_alarms_of_cases / (max(1, cases) * len(found))
    return tuple(
        _Test(
            offset=offset,
            bound=stats.t_quantile(rate, variance.freedom) * math.sqrt(variance.value),
            error=math.sqrt(variance.value),
            freedom=variance.freedom,
        )
        for offset, variance in found
    )


def _not_slower(log_ratio: float, test: _Test, worth: float, ruled_out: float) -> Outcome:
    """PASS where a loss of `worth` is ruled out; IMPROVED where it is faster."""
    off = log_ratio - test.offset
    if off < -test.bound and log_ratio < -test.bound:
        return Outcome.IMPROVED
    return Outcome.PASS if off + test.upper(ruled_out) < math.log1p(worth) else Outcome.NOISY
