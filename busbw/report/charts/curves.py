"""What charts of bandwidths share: axes, the cells of a curve, what it says in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw import metrics
from busbw.model import Case, Verdict

from ..chart import Axis, Mark, Scale, Series

PAYLOAD = Axis(name="payload", unit="bytes", scale=Scale.LOG2)
BUSBW = Axis(name="busbw", unit="GB/s", scale=Scale.LOG10)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A verdict of a case; rates are busbw in GB/s, None where there is none."""

    case: Case
    verdict: Verdict

    @property
    def measured(self) -> float | None:
        return self.verdict.now.busbw_gb_per_s if self.verdict.now else None

    @property
    def baseline(self) -> float | None:
        return self.verdict.baseline.busbw_gb_per_s if self.verdict.baseline else None

    @property
    def ceiling(self) -> float | None:
        return self.verdict.ceiling.bytes_per_s / 1e9 if self.verdict.ceiling else None

    @property
    def published(self) -> float | None:
        figure = self.verdict.reference and self.verdict.reference.algbw_gb_per_s
        return figure * metrics.bus_factor(self.case) if figure else None


def cells_of(verdicts: Iterable[Verdict]) -> list[Cell]:
    return [Cell(case=one.case, verdict=one) for one in verdicts if one.case is not None]


def collectives_text(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    return (found[0] if len(found) == 1 else "collectives").replace("_", "-").capitalize()


def sentence(one: Series, marks: Sequence[Mark], unit: str = "GB/s") -> str:
    """The ends, the best, and the marks of a curve, for who does not see it."""
    text = f"{one.name}: no figure" if not one.points else f"{one.name}: {_ends(one, unit)}"
    for label in dict.fromkeys(mark.label for mark in marks if mark.series == one.name):
        at = [mark.x for mark in marks if (mark.series, mark.label) == (one.name, label)]
        text += f"; {label} at {', '.join(PAYLOAD.text(x) for x in at)}"
    return f"{text}."


def _ends(one: Series, unit: str) -> str:
    (first, low), (last, high) = one.points[0], one.points[-1]
    best_at, best = max(one.points, key=lambda point: point[1])
    text = f"{low:.4g} {unit} at {PAYLOAD.text(first)}"
    if len(one.points) > 1:
        text += f" to {high:.4g} {unit} at {PAYLOAD.text(last)}"
    if best_at not in (first, last):
        text += f", at most {best:.4g} {unit} at {PAYLOAD.text(best_at)}"
    return text
