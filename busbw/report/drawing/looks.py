"""How the series and bands of a chart differ: colours, symbols and dashes.

A group shares colour and symbol; the lines of a group differ by their dashes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..chart import Band, Chart, Series, Style
from .layout import unlike
from .palette import LIGHT

_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_DASHES = ((1, 0), (4, 3), (2, 2), (7, 2, 2, 2))
_LINE_SHAPE, _BAND_SHAPE = "stroke", "square"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """How one series or band is drawn; `name` is as the legend shows it."""

    name: str
    colour: str
    shape: str
    dash: Sequence[int]


def looks_of(chart: Chart) -> dict[str, Look]:
    """A look for each series and band by its name, in the order of the legend: group by group."""
    parts = chart.parts
    names = unlike([one.name for one in parts])
    groups: dict[str, list[Series | Band]] = defaultdict(list)
    for one in parts:
        groups[one.group or one.name].append(one)
    return {
        one.name: _look(one, names[one.name], index, _line(one, of_group))
        for index, of_group in enumerate(groups.values())
        for one in of_group
    }


def _look(one: Series | Band, name: str, group: int, line: int) -> Look:
    number = group % len(LIGHT.series)
    if isinstance(one, Band):
        return Look(name=name, colour=LIGHT.bands[number], shape=_BAND_SHAPE, dash=_DASHES[0])
    # Beyond the last colour they begin again, with another symbol.
    shape = _SHAPES[(group + group // len(LIGHT.series)) % len(_SHAPES)]
    if one.style is Style.LINE:
        shape = _LINE_SHAPE
    dash = _DASHES[line % len(_DASHES)]
    return Look(name=name, colour=LIGHT.series[number], shape=shape, dash=dash)


def _line(one: Series | Band, of_group: Sequence[Series | Band]) -> int:
    """How many lines of the group come before this one."""
    lines = [other for other in of_group if isinstance(other, Series)]
    before = lines[: lines.index(one)] if isinstance(one, Series) else []
    return sum(other.style is not Style.DOTS for other in before)
