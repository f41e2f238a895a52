"""A sequential test of whether a candidate is slower than control pairs by more than a loss.

In each round in which it is measured again, a candidate is slower than its control pairs by more
than `least`, or not. For a candidate that is not slower this is a coin that shows "slower" in at
most half of the rounds, whatever the distribution of the noise: the median is no larger. Wald's
sequential probability ratio test (1945) of the shares 1/2 and LIKELY ends with "slow", wrong with a
chance of at most `risk`, or with "not slow".
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Slow:
    """A slow host, link or chip: the ratio of its time to that of healthy ones, and the chance.

    `p` bounds the chance that this is found of what is not slow (Ville's inequality). `hosts` are
    the one or two that it belongs to.
    """

    name: str
    hosts: tuple[str, ...]
    quantity: str
    ratio: float
    p: float


# The share of rounds in which a slow candidate shows it, and the chance that it is missed.
LIKELY, MISSED = 0.85, 0.05
_SLOWER, _NOT_SLOWER = math.log(LIKELY / 0.5), math.log((1 - LIKELY) / 0.5)


@dataclass
class SequentialTest:
    """`excesses` are logarithms, round by round: the candidate's time over that of its controls."""

    least: float
    risk: float
    excesses: list[float] = field(default_factory=list)
    evidence: float = 0.0

    def add(self, excess: float) -> None:
        """Add a round, unless the test has ended."""
        if self.is_open:
            self.excesses.append(excess)
            self.evidence += _SLOWER if excess > math.log1p(self.least) else _NOT_SLOWER

    @property
    def is_slow(self) -> bool:
        return self.evidence >= math.log((1 - MISSED) / self.risk)

    @property
    def is_open(self) -> bool:
        return not self.is_slow and self.evidence > math.log(MISSED)

    def finding(self, name: str, hosts: tuple[str, ...], quantity: str) -> Slow:
        """Describe a candidate that is slow."""
        return Slow(
            name=name,
            hosts=hosts,
            quantity=quantity,
            ratio=math.exp(statistics.median(self.excesses)),
            p=min(1.0, math.exp(-self.evidence)),
        )


def detectable_loss(controls: Sequence[Sequence[float]], least: float) -> float:
    """Return the smallest loss that a round shows with a chance of LIKELY.

    `controls` has the logarithms of the times of control pairs, round by round. The time in a round
    of one control pair is compared with those of all rounds.
    """
    overall = statistics.median(itertools.chain(*controls))
    excesses = sorted(
        log - (statistics.median(logs) if len(logs) > 1 else overall)
        for logs in controls
        for log in logs
    )
    low = excesses[int((1 - LIKELY) * len(excesses))]
    return math.expm1(math.log1p(least) - min(0.0, low))
