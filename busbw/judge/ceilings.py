"""What the hardware allows beside what was measured: a rate above it is no record but an error.

Looks at a verdict that is given already. Figures of chips stand in `busbw.hardware`, the
tolerance in `policy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw import metrics
from busbw.hardware import ceiling_of
from busbw.model import Case, Ceiling, EnvironmentKey, Outcome, Run, Summary, Verdict, rate_text

from .policy import ABOVE_HARDWARE

_WHOSE = "the reference: "


def with_ceiling(
    verdict: Verdict, key: EnvironmentKey, runs: Sequence[Run], *, paired: bool = False
) -> Verdict:
    """`verdict` with the ceiling of its case on `key`, whose mesh is the shape of the slice.

    The best launch is held against it, not the median: a bound holds for every launch, and every
    one would go into a baseline. Above what any algorithm can reach the case is FAILED, whatever
    it was, and has no time; where the figures are not sure that is a note, and so is a rate that
    only another algorithm or the switch can reach. If `paired`, a reference that is above fails
    the case too: nothing can be compared with it. What has no time keeps its outcome.
    """
    case = verdict.case
    ceiling = None if case is None else ceiling_of(key, case, _chosen(runs))
    if case is None or ceiling is None:
        return verdict
    held = replace(verdict, ceiling=ceiling)
    sides = [("", verdict.now), *([(_WHOSE, verdict.baseline)] if paired else [])]
    for whose, side in sides:
        rate = _best_bytes_per_s(case, side)
        if _above(rate, ceiling.most_bytes_per_s):
            return _impossible(held, ceiling, rate, whose)
    rate = _best_bytes_per_s(case, verdict.now)
    if _above(rate, ceiling.bytes_per_s):
        return _noted(held, _above_one_way(ceiling, rate))
    return held


def _chosen(runs: Sequence[Run]) -> Mapping[str, str]:
    """What the compiler published of the algorithm, if it is the same in every launch."""
    first = runs[0].proof.chosen if runs else {}
    return first if all(run.proof.chosen == first for run in runs) else {}


def _best_bytes_per_s(case: Case, side: Summary | None) -> float:
    """The busbw of the best launch; 0 where there is no time."""
    return 0.0 if side is None else metrics.busbw_gb_per_s(case, side.best_s) * metrics.GB


def _above(rate: float, bound: float) -> bool:
    return rate > (1 + ABOVE_HARDWARE) * bound


def _impossible(verdict: Verdict, ceiling: Ceiling, rate: float, whose: str) -> Verdict:
    """No number of such a case is shown or compared; what was seen is in the text."""
    text = (
        f"{whose}busbw {rate_text(rate)} in the best launch is above "
        f"{rate_text(ceiling.most_bytes_per_s)}, the most that the hardware allows by any "
        f"algorithm ({ceiling.text}{', adding up in the switch' if ceiling.in_switch else ''})"
    )
    if not ceiling.sure:
        return _noted(verdict, f"{text}: an error of measurement, or the chip's figures are wrong")
    return Verdict(
        spec=verdict.spec,
        outcome=Outcome.FAILED,
        failed=True,
        text=f"{text}: an error of measurement, not a record",
        case=verdict.case,
        reference=verdict.reference,
        ceiling=ceiling,
        notes=verdict.notes,
    )


def _above_one_way(ceiling: Ceiling, rate: float) -> str:
    """What a rate says that lies between both bounds."""
    begin = f"busbw {rate_text(rate)} in the best launch is above"
    if ceiling.in_switch:
        return (
            f"{begin} what links allow without adding up in the switch "
            f"({rate_text(ceiling.bytes_per_s)}): the switch adds up"
        )
    return (
        f"{begin} {rate_text(ceiling.bytes_per_s)} ({ceiling.text}), though not above the "
        f"{rate_text(ceiling.most_bytes_per_s)} that some algorithm may reach: "
        "it ran by another way than that"
    )


def _noted(verdict: Verdict, note: str) -> Verdict:
    return replace(verdict, notes=(*verdict.notes, note))
