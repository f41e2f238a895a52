"""Whether one suspect is slower than the others by more than is worth seeing: a sequential test.

Each round in which it is measured again it is slower than its controls by more than `least`, or
not. Of one that is not, that is a coin which falls so at most half of the time, whatever the noise
looks like: its median is no larger. Wald's sequential probability ratio test (1945) of 1/2 against
LIKELY ends with an accusation, which is wrong with at most `risk`, or with an acquittal.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

# How often one that is really slow is found so, and how often such a one may be acquitted.
LIKELY, MISSED = 0.85, 0.05
_SLOWER, _NOT = math.log(LIKELY / 0.5), math.log((1 - LIKELY) / 0.5)


@dataclass
class SequentialTest:
    """`excesses` are the logarithms of its time over that of its controls, round by round."""

    least: float
    risk: float
    excesses: list[float] = field(default_factory=list)
    evidence: float = 0.0

    def add(self, excess: float) -> None:
        """A round more, if it is still open."""
        if self.is_open:
            self.excesses.append(excess)
            self.evidence += _SLOWER if excess > math.log1p(self.least) else _NOT

    @property
    def is_guilty(self) -> bool:
        return self.evidence >= math.log((1 - MISSED) / self.risk)

    @property
    def is_open(self) -> bool:
        return not self.is_guilty and self.evidence > math.log(MISSED)

    @property
    def ratio(self) -> float:
        """Its time over that of the controls, the median over rounds."""
        return math.exp(statistics.median(self.excesses)) if self.excesses else math.nan

    @property
    def p(self) -> float:
        """At most as likely as this if it is not slow (Ville's inequality)."""
        return min(1.0, math.exp(-self.evidence))


def least_named(controls: Sequence[Sequence[float]], least: float) -> float:
    """The smallest loss that a round shows with a chance of LIKELY, by the noise of the controls.

    A round that has one control is compared with those of all rounds.
    """
    every = statistics.median(itertools.chain(*controls))
    excesses = sorted(
        log - (statistics.median(logs) if len(logs) > 1 else every)
        for logs in controls
        for log in logs
    )
    low = excesses[int((1 - LIKELY) * len(excesses))]
    return math.expm1(math.log1p(least) - min(0.0, low))
