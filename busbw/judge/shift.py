"""Whether the machine as a whole runs at another speed than when the baselines were measured.

The anchor, a workload without a collective, tells that from a collective that changed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .policy import Policy

# Fewer cases than this are no majority of anything.
_LEAST_CASES = 3

# A case moved with the anchor if it went the same way by half as much, in log time.
_WITH_IT = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """How far a case and its anchor moved since the baseline, in log time."""

    log_ratio: float
    anchor_log_ratio: float


def moved(
    times_s: Sequence[float],
    anchors_s: Sequence[float],
    before_s: Sequence[float],
    before_anchors_s: Sequence[float],
) -> Moved:
    """From launch times and anchors, now and before, at least one of each."""
    return Moved(
        log_ratio=math.log(statistics.median(times_s) / statistics.median(before_s)),
        anchor_log_ratio=math.log(
            statistics.median(anchors_s) / statistics.median(before_anchors_s)
        ),
    )


def environment_shift(cases: Sequence[Moved], policy: Policy) -> str:
    """A sentence if most cases and the anchor moved together, else nothing."""
    if len(cases) < _LEAST_CASES:
        return ""
    anchor = statistics.median(one.anchor_log_ratio for one in cases)
    if abs(anchor) <= math.log1p(policy.anchor_shift):
        return ""
    along = [one for one in cases if one.log_ratio * anchor > _WITH_IT * anchor * anchor]
    if 2 * len(along) <= len(cases):
        return ""
    word = "slower" if anchor > 0 else "faster"
    return (
        f"the machine is {word} than with the baselines: the anchor, which has no collective, "
        f"takes {math.exp(anchor):.2f} x the time, and with it moved {len(along)} of "
        f"{len(cases)} cases"
    )


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What is not as it was, such as ``jax 0.10.1 -> 0.10.2``; nothing that is unknown before."""
    names = [name for name in now if name in before] + [name for name in before if name not in now]
    return [
        f"{name} {before[name]} -> {now.get(name, 'none')}"
        for name in names
        if before[name] != now.get(name)
    ]
