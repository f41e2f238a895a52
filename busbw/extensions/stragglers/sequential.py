"""A sequential test of whether a candidate is slower than control pairs by more than a loss.

In each round, a candidate is slower than its control pairs by more than `min_loss`, or not. A
candidate that is not slow behaves like a coin that shows "slower" in at most half of the rounds,
whatever the distribution of the noise, because its median is no larger. Wald's sequential
probability ratio test (1945) compares the probabilities 1/2 and SLOWER_FRACTION. It ends with
"slow", which is wrong with a probability of at most `false_alarm_probability`, or with "not slow".
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

    `hosts` is its host or, for a link, the two hosts. `ratio` is its time divided by the time of
    healthy components. `p` bounds the probability that a healthy component is found so slow
    (Ville's inequality).
    """

    name: str
    hosts: tuple[str, ...]
    quantity: str
    ratio: float
    p: float


# The fraction of rounds in which a slow candidate is slower than its control pairs, and the
# probability that the test does not find such a candidate.
SLOWER_FRACTION, MISS_PROBABILITY = 0.85, 0.05
_SLOWER_EVIDENCE, _NOT_SLOWER_EVIDENCE = (
    math.log(SLOWER_FRACTION / 0.5),
    math.log((1 - SLOWER_FRACTION) / 0.5),
)


@dataclass
class SequentialTest:
    """The test whether a candidate is slow.

    Args:
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.
        false_alarm_probability: The largest acceptable probability that a healthy candidate is
            found slow.
        excesses: The logarithm of the candidate's time divided by the time of its control pairs, by
            round.
        evidence: The logarithm of the likelihood ratio after these rounds.

    """

    min_loss: float
    false_alarm_probability: float
    excesses: list[float] = field(default_factory=list)
    evidence: float = 0.0

    def add_round(self, excess: float) -> None:
        """Add the excess of a round, unless the test has ended."""
        if self.is_open:
            self.excesses.append(excess)
            self.evidence += (
                _SLOWER_EVIDENCE if excess > math.log1p(self.min_loss) else _NOT_SLOWER_EVIDENCE
            )

    @property
    def is_slow(self) -> bool:
        """Whether the candidate is slow according to the rounds so far."""
        return self.evidence >= math.log((1 - MISS_PROBABILITY) / self.false_alarm_probability)

    @property
    def is_open(self) -> bool:
        """Whether the test needs more rounds."""
        return not self.is_slow and self.evidence > math.log(MISS_PROBABILITY)

    def describe_slow(self, name: str, hosts: tuple[str, ...], quantity: str) -> SlowComponent:
        """Return the SlowComponent for a candidate that is slow in a quantity."""
        return SlowComponent(
            name=name,
            hosts=hosts,
            quantity=quantity,
            ratio=math.exp(statistics.median(self.excesses)),
            p=min(1.0, math.exp(-self.evidence)),
        )


def detectable_loss(controls: Sequence[Sequence[float]], min_loss: float) -> float:
    """Return the smallest loss that a round shows with the probability SLOWER_FRACTION.

    0.15 is 15 %. `controls` are the logarithms of the times of control pairs, by round, and
    `min_loss` is the smallest loss that counts as slow. A time is compared with
    the median of its round or, if the round has a single control pair, with the median of all
    rounds.
    """
    overall = statistics.median(itertools.chain(*controls))
    excesses = sorted(
        log - (statistics.median(logs) if len(logs) > 1 else overall)
        for logs in controls
        for log in logs
    )
    low = excesses[int((1 - SLOWER_FRACTION) * len(excesses))]
    return math.expm1(math.log1p(min_loss) - min(0.0, low))
