"""The NOISY cases of a session: which of them count against it, and what its last line says.

The tables give the reason for each case. The last line must not hide a case that looked slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from busbw.model.case import Spec
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, cut_short, plural, ratio_text

from .policy import MOST_NOISY

_MOST_NAMED = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class NoisyCasePolicy:
    """Which NOISY cases count towards the tenth of the cases that may be NOISY.

    A case whose limit exceeds the ratio `max_useful_ratio` always counts, and so does a case that
    is `doubted`: neither can be judged. A case above its limit counts unless `is_shared`: other
    work on a shared device makes unchanged cases look slower. Cases within their limits count as
    well, as soon as two cases are NOISY, unless `is_shared` or the user set the limit (`is_fixed`).
    """

    max_useful_ratio: float = 1.0
    is_shared: bool = False
    is_fixed: bool = False
    doubted: frozenset[Spec] = field(default_factory=frozenset)

    def select(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Return the NOISY cases that count against the session."""
        noisy = [verdict for verdict in verdicts if verdict.outcome is Outcome.NOISY]
        if len(noisy) > 1 and not (self.is_shared or self.is_fixed):
            return noisy
        return [
            verdict
            for verdict in noisy
            if verdict.limit is None
            or verdict.limit > self.max_useful_ratio
            or verdict.spec in self.doubted
            or (is_above(verdict) and not self.is_shared)
        ]


def is_above(verdict: Verdict) -> bool:
    """Return whether the time of a case exceeds its limit, confirmed or not."""
    return (verdict.ratio or 0.0) > (verdict.limit or float("inf"))


def too_noisy_text(verdicts: Sequence[Verdict], policy: NoisyCasePolicy) -> str:
    """Return why a session has too many NOISY cases to have a verdict, or an empty text."""
    counted = policy.select(verdicts)
    judged = sum(verdict.ratio is not None for verdict in verdicts)
    if len(counted) <= MOST_NOISY * judged:
        return ""
    many = f"{len(counted)} of {plural(judged, 'case')}"
    return f"{many} too noisy to judge; the first is {verdict_name(counted[0])}"


def noisy_text(verdicts: Sequence[Verdict]) -> str:
    """Return the NOISY cases above the expected time, those above their limits first; "" for none.

    The last line of a session has this text: a case that looked slower must not be hidden.
    """
    slower = [v for v in verdicts if v.outcome is Outcome.NOISY and (v.ratio or 0.0) > 1.0]
    slower.sort(key=lambda verdict: (not is_above(verdict), -(verdict.ratio or 0.0)))
    texts = [
        f"{verdict_name(verdict)} {ratio_text(verdict.ratio or 0.0)} x "
        f"(limit {ratio_text(verdict.limit or 0.0)} x)"
        for verdict in slower
    ]
    return f"NOISY: {', '.join(cut_short(texts, _MOST_NAMED, 'case'))}" if texts else ""


def verdict_name(verdict: Verdict) -> str:
    """Return the name of the case, or the id of what was requested if it has no case."""
    return verdict.case.name if verdict.case else verdict.spec.id
