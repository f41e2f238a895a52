"""A sequential test of whether a candidate is slower than control pairs by more than a loss.

In each round, a candidate is slower than its control pairs by more than `least`, or not. A
candidate that is not slow behaves like a coin that shows "slower" in at most half of the rounds,
whatever the distribution of the noise, because its median is no larger. Wald's sequential
probability ratio test (1945) compares the shares 1/2 and LIKELY. It ends with "slow", which is
wrong with a chance of at most `risk`, or with "not slow".
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowComponent:
    """A slow host, link or chip.

    `ratio` is its time divided by the time of healthy components. `p` is an upper bound for the
    chance that a healthy component is found so slow (Ville's inequality). `hosts` are its host or,
    for a link, the two hosts.
    """

    name: str
    hosts: tuple[str, ...]
    quantity: str
    ratio: float
    p: float


# The share of rounds in which a slow candidate is slower, and the chance that it is missed.
LIKELY, MISSED = 0.85, 0.05
_SLOWER, _NOT_SLOWER = math.log(LIKELY / 0.5), math.log((1 - LIKELY) / 0.5)


@dataclass
class SequentialTest:
    """The test of a candidate for a loss above `least`, with a chance of a false report of `risk`.

    `excesses` has for each round the logarithm of the candidate's time divided by the time of its
    control pairs. `evidence` is the logarithm of the likelihood ratio so far.
    """

    least: float
    risk: float
    excesses: list[float] = field(default_factory=list)
    evidence: float = 0.0

    def add_round(self, excess: float) -> None:
        """Add the excess of a round, unless the test has ended."""
        if self.is_open:
            self.excesses.append(excess)
            self.evidence += _SLOWER if excess > math.log1p(self.least) else _NOT_SLOWER

    @property
    def is_slow(self) -> bool:
        """Whether the candidate is slow according to the rounds so far."""
        return self.evidence >= math.log((1 - MISSED) / self.risk)

    @property
    def is_open(self) -> bool:
        """Whether the test needs more rounds."""
        return not self.is_slow and self.evidence > math.log(MISSED)

    def describe_slow(self, name: str, hosts: tuple[str, ...], quantity: str) -> SlowComponent:
        """Return the SlowComponent for a candidate that is slow in a quantity."""
        return SlowComponent(
            name=name,
            hosts=hosts,
            quantity=quantity,
            ratio=math.exp(statistics.median(self.excesses)),
            p=min(1.0, math.exp(-self.evidence)),
        )


def detectable_loss(controls: Sequence[Sequence[float]], least: float) -> float:
    """Return the smallest loss that a round shows with the chance LIKELY; 0.15 is 15 %.

    `controls` has the logarithms of the times of control pairs, by round. A time is compared with
    the median of its round or, if the round has a single control pair, with the median of all
    rounds.
    """
    overall = statistics.median(itertools.chain(*controls))
    excesses = sorted(
        log - (statistics.median(logs) if len(logs) > 1 else overall)
        for logs in controls
        for log in logs
    )
    low = excesses[int((1 - LIKELY) * len(excesses))]
    return math.expm1(math.log1p(least) - min(0.0, low))
