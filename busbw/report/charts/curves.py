"""What charts of bandwidths share: axes, and what a curve says in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..chart import Axis, Mark, Scale, Series

PAYLOAD = Axis(name="payload", unit="bytes", scale=Scale.LOG2)
BUSBW = Axis(name="busbw", unit="GB/s", scale=Scale.LOG10)


def collectives_text(names: Iterable[str]) -> str:
    """The collectives as a title begins: all-reduce, or several."""
    found = list(dict.fromkeys(names))
    return (found[0] if len(found) == 1 else "collectives").replace("_", "-").capitalize()


def sentence(one: Series, marks: Sequence[Mark]) -> str:
    """The ends, the best, and the marks of a curve, for who does not see it."""
    text = f"{one.name}: no figure" if not one.points else f"{one.name}: {_ends(one)}"
    for label in dict.fromkeys(mark.label for mark in marks if mark.series == one.name):
        at = [mark.x for mark in marks if (mark.series, mark.label) == (one.name, label)]
        text += f"; {label} at {', '.join(PAYLOAD.text(x) for x in at)}"
    return f"{text}."


def _ends(one: Series) -> str:
    (first, low), (last, high) = one.points[0], one.points[-1]
    best_at, best = max(one.points, key=lambda point: point[1])
    text = f"{low:.4g} GB/s at {PAYLOAD.text(first)}"
    if len(one.points) > 1:
        text += f" to {high:.4g} GB/s at {PAYLOAD.text(last)}"
    if best_at not in (first, last):
        text += f", at most {best:.4g} GB/s at {PAYLOAD.text(best_at)}"
    return text
