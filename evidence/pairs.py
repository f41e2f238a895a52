"""How often the rule for two stacks in turn errs on simulated pairs, whose noise is known.

Recorded launches say what noise there is; only simulated ones are enough to count one false alarm
in hundreds of sessions. Decides nothing: `busbw.judge.paired` does, with the policy of a CPU.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.judge import paired
from busbw.judge.policy import MOST_NOISY
from busbw.model import Outcome
from busbw.stats import Variance

from .own import POLICY
from .words import percent, row

CASES = (3, 17, 42)
SLOWER = (0.05, 0.10)
# An outlier is so many times as large as the others.
OUTLIER = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """What is drawn: each case's standard deviation of a pair's log ratio, and its outliers.

    The deviation is between `least` and `most`, evenly in its logarithm; `outliers` is the share
    of pairs that are outliers.
    """

    least: float
    most: float
    outliers: float = 0.0

    @property
    def text(self) -> str:
        """The noise in words."""
        low, high = f"{100 * self.least:g}", f"{100 * self.most:g} %"
        size = high if self.least == self.most else f"{low} to {high}"
        return f"{size}, {percent(self.outliers)} outliers" if self.outliers else size


NOISES = (
    *(Noise(least=one, most=one) for one in (0.015, 0.03, 0.05, 0.08)),
    *(Noise(least=one, most=one, outliers=0.05) for one in (0.015, 0.03, 0.05, 0.08)),
    Noise(least=0.01, most=0.06),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What became of one case after `pairs` pairs; None: still undecided."""

    outcome: Outcome | None
    pairs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """Those of one session: of its cases, all unchanged, and of the first one if it were slower."""

    unchanged: tuple[Answer, ...]
    slower: tuple[Answer, ...]


class Case:
    """The pairs of one case, drawn as far as they are wanted."""

    def __init__(self, noise: Noise, chance: random.Random) -> None:
        self._noise, self._chance = noise, chance
        self._deviation = math.exp(chance.uniform(math.log(noise.least), math.log(noise.most)))
        self._shifts: list[float] = []

    def shifts(self, pairs: int) -> list[float]:
        """The log ratios of the first `pairs` pairs."""
        while len(self._shifts) < pairs:
            outlier = self._chance.random() < self._noise.outliers
            deviation = self._deviation * (OUTLIER if outlier else 1.0)
            self._shifts.append(self._chance.gauss(0.0, deviation))
        return self._shifts[:pairs]

    def answer(self, cases: int, prior: Variance | None, slower: float = 0.0) -> Answer:
        """What becomes of it, one of `cases`, measured as often as the rule wants."""
        looks, pairs = POLICY.looks, POLICY.looks.counts[0]
        while True:
            shifts = [one + math.log1p(slower) for one in self.shifts(pairs)]
            found = paired.decide(shifts, looks, cases=cases, floor=looks.floor, prior=prior)
            if found.wanted is None:
                return Answer(outcome=found.outcome, pairs=pairs)
            pairs = found.wanted


def session(noise: Noise, cases: int, chance: random.Random) -> Answers:
    """One session of `cases` cases."""
    drawn = [Case(noise, chance) for _ in range(cases)]
    first = POLICY.looks.counts[0]
    prior = paired.prior_of((one.shifts(first) for one in drawn), POLICY.looks)
    return Answers(
        unchanged=tuple(one.answer(cases, prior) for one in drawn),
        slower=tuple(drawn[0].answer(cases, prior, slower) for slower in SLOWER),
    )


def table(sessions: int, seed: int) -> Iterator[str]:
    """Rates over so many sessions of each kind, as lines of a Markdown table."""
    yield row(
        "cases",
        "noise of a pair",
        "false alarms per session",
        "cases undecided",
        "sessions with > 10 % undecided",
        "pairs until decided (median, mean)",
        "pairs of a session",
        *(f"seen at +{100 * slower:g} % (after pairs)" for slower in SLOWER),
    )
    yield "|---" * (7 + len(SLOWER)) + "|"
    for cases in CASES:
        for noise in NOISES:
            chance = random.Random(f"{seed} {cases} {noise.text}")
            found = [session(noise, cases, chance) for _ in range(sessions)]
            yield row(str(cases), noise.text, *_rates(found))


def _rates(found: Sequence[Answers]) -> Iterator[str]:
    sessions = [one.unchanged for one in found]
    pairs = [case.pairs for one in sessions for case in one]
    yield percent(statistics.fmean(_share(one, Outcome.REGRESSED) > 0 for one in sessions))
    yield percent(statistics.fmean(_share(one, None) for one in sessions))
    yield percent(statistics.fmean(_share(one, None) > MOST_NOISY for one in sessions))
    yield f"{statistics.median(pairs):g}, {statistics.fmean(pairs):.1f}"
    yield f"{statistics.fmean(max(case.pairs for case in one) for one in sessions):.1f}"
    for slower in zip(*(one.slower for one in found)):
        after = statistics.median(one.pairs for one in slower)
        yield f"{percent(_share(slower, Outcome.REGRESSED))} ({after:g})"


def _share(answers: Sequence[Answer], outcome: Outcome | None) -> float:
    return sum(one.outcome is outcome for one in answers) / len(answers)
