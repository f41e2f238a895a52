"""As many launches as it takes: a rule that looks again and again, with stated rates of error.

Given what the launches of one case say so far, in order, it decides or says how many launches it
wants. Pure, so that recorded launches can be put through the very same rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Outcome

from .estimate import Estimate, of_launches


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """When it is looked, and with which errors.

    `counts` are the launches after which it is looked. `false_alarms` is the probability that a
    session of unchanged code has any regression, shared evenly by its cases; `misses` that a case
    slower by `wanted`, a fraction of its time, passes. A suspicion must be seen again in
    `confirming` fresh launches. What is slower by less than `floor` is no regression.
    """

    counts: tuple[int, ...]
    confirming: int
    false_alarms: float
    misses: float
    wanted: float
    floor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """PASS, REGRESSED or IMPROVED, or None and how many launches in all are wanted (None: no more).

    `estimate` is of the log ratio; `limit` is the log ratio that would have been a suspicion.
    `suspected`: it only waits for its confirmation.
    """

    outcome: Outcome | None
    estimate: Estimate | None
    limit: float | None = None
    wanted: int | None = None
    suspected: bool = False


def decide(shifts: Sequence[float], looks: Looks, *, cases: int, floor: float) -> Decision:
    """What `shifts`, one log ratio per launch in their order, say of one of `cases` cases.

    Every look may err with the same part of the whole error, so that all of them together keep to
    it (Bonferroni). The bounds are Student's. `floor` is the least fraction of slowdown for this
    case.
    """
    estimate, limit = None, None
    spent = 1 / len(looks.counts)
    level = looks.false_alarms * spent / cases
    for count in looks.counts:
        if len(shifts) < count:
            return Decision(outcome=None, estimate=estimate, limit=limit, wanted=count)
        estimate = of_launches(shifts[:count])
        limit = _limit(estimate, level, floor)
        if estimate.mean > limit:
            confirmed = count + looks.confirming
            if len(shifts) < confirmed:
                return Decision(
                    outcome=None, estimate=estimate, limit=limit, wanted=confirmed, suspected=True
                )
            if _seen_again(shifts[count:confirmed], floor):
                estimate = of_launches(shifts[:confirmed])
                return Decision(outcome=Outcome.REGRESSED, estimate=estimate, limit=limit)
        elif -estimate.mean > limit:
            return Decision(outcome=Outcome.IMPROVED, estimate=estimate, limit=limit)
        elif estimate.upper(looks.misses * spent) < math.log1p(max(looks.wanted, floor)):
            return Decision(outcome=Outcome.PASS, estimate=estimate, limit=limit)
    return Decision(outcome=None, estimate=estimate, limit=limit)


def _limit(estimate: Estimate, level: float, floor: float) -> float:
    """The log ratio beyond which both the noise and the effect say that it is slower."""
    return max(estimate.mean - estimate.lower(level), math.log1p(floor))


def _seen_again(shifts: Sequence[float], floor: float) -> bool:
    return sum(shifts) / len(shifts) > math.log1p(floor)
