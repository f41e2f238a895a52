"""All sizes of one kind together: their curve before and now, and where what got slower sits.

Looks at verdicts that are given already and changes none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Case, Outcome, Summary, Verdict

from . import t_distribution
from .curve import Curve, SizeShift, fit
from .policy import Policy
from .regression_shape import LocatedRegression, curve_shift, locate

# The errors of few launches are themselves uncertain; as if from this many degrees of freedom.
_FREEDOM = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeGroup:
    """One framework, collective and strategy over its sizes.

    `before` and `now` are None where no curve can be told, `located` where nothing got slower;
    `shifted` is a shift that no single size shows.
    """

    case: Case
    before: Curve | None
    now: Curve | None
    located: LocatedRegression | None
    shifted: LocatedRegression | None


def groups_of_cases(
    verdicts: Sequence[Verdict], policy: Policy, *, paired: bool
) -> tuple[SizeGroup, ...]:
    """The groups of those verdicts that have a time, in their order."""
    found: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.case is not None and verdict.now is not None:
            alike = verdict.case.key.family, verdict.case.protocol
            found.setdefault(alike, []).append(verdict)
    level = policy.false_alarms / max(1, 2 * len(found))
    quantile = t_distribution.quantile(level, _FREEDOM)
    return tuple(_group(alike, policy, quantile, paired=paired) for alike in found.values())


def _group(
    verdicts: Sequence[Verdict], policy: Policy, quantile: float, *, paired: bool
) -> SizeGroup:
    now = fit(_points({v.spec.payload_bytes: v.now for v in verdicts}))
    before = fit(_points({v.spec.payload_bytes: v.baseline for v in verdicts}))
    compared = [v for v in verdicts if v.ratio is not None and v.ratio_error is not None]
    sizes = _sizes(compared, paired=paired)
    tail = [v.spec.payload_bytes for v in compared if v.tail_ratio is not None]
    floor = policy.looks.floor if paired else max(tier.floor for tier in policy.tiers)
    certain = not any(v.provisional for v in compared)
    case = verdicts[0].case
    assert case is not None
    return SizeGroup(
        case=case,
        before=before,
        now=now,
        located=locate(before, sizes, tail=tail) if sizes else None,
        shifted=curve_shift(before, sizes, quantile=quantile, floor=floor)
        if sizes and certain
        else None,
    )


def _points(summaries: Mapping[int, Summary | None]) -> dict[int, float]:
    return {
        payload: summary.median_s for payload, summary in summaries.items() if summary is not None
    }


def _sizes(verdicts: Sequence[Verdict], *, paired: bool) -> list[SizeShift]:
    """Sizes of one session share its mood, but not where two stacks were measured in turn."""
    shared = 1.0 if paired else math.sqrt(len(verdicts))
    return [
        SizeShift(
            payload_bytes=v.spec.payload_bytes,
            log_ratio=math.log(v.ratio or 1.0),
            standard_error=(v.ratio_error or 0.0) * shared,
            significant=v.outcome is Outcome.REGRESSED,
        )
        for v in verdicts
    ]
