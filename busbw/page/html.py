"""A Page as HTML by templates that escape every text: one file, no script, nothing to load."""

from __future__ import annotations

import importlib.util
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import groupby, pairwise
from types import ModuleType

import busbw
from busbw import wire

from .content import Figure, Page, Section
from .nights import CaseNights
from .palette import DARK, LIGHT
from .pictures import PictureError, style_sheet, svg, variables

_MISSING = "pages need Jinja, which is not installed: python -m pip install 'busbw[page]'"
_MARK = '<meta name="generator" content="busbw page">'
# A picture for a window of a computer, one for that of a phone, and one for both.
_WIDTHS = {"wide": 860, "narrow": 350, "small": 400}


def html(page: Page) -> str:
    """The page as one HTML document. Raises PictureError where a library is missing."""
    jinja = _jinja()
    environment = jinja.Environment(
        autoescape=True,
        # Names of files; Markup is ours.
        finalize=lambda one: wire.printable(one) if type(one) is str else one,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja.StrictUndefined,
        loader=jinja.FunctionLoader(_source),
    )
    markup: Callable[[str], str] = importlib.import_module("markupsafe").Markup
    drawn = _Pictures(markup)
    environment.globals |= {"pictures": drawn.of, "trend": drawn.trend}
    colours = f"{variables(LIGHT, ':root')}@media (prefers-color-scheme:dark){{" + (
        f"{variables(DARK, ':root')}}}"
    )
    text: str = environment.get_template("page.html").render(
        page=page,
        sections=_named(page.sections, {}),
        version=busbw.__version__,
        style=markup(colours + _source("page.css") + style_sheet()),
    )
    return text


def is_page(text: str) -> bool:
    return text.startswith("<!DOCTYPE html>") and _MARK in text[:2000]


def missing_for_pages() -> str:
    """Why no page can be made, before there is anything to show; "" where nothing is missing."""
    there = [importlib.util.find_spec(name) is not None for name in ("jinja2", "vl_convert")]
    return "" if all(there) else "pages need busbw[page]: python -m pip install 'busbw[page]'"


def _jinja() -> ModuleType:
    try:
        return importlib.import_module("jinja2")
    except ImportError as error:
        raise PictureError(_MISSING) from error


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Named:
    """A section, with the name that links to it have."""

    name: str
    section: Section
    sections: tuple[_Named, ...]


def _named(sections: Sequence[Section], taken: dict[str, int]) -> tuple[_Named, ...]:
    found = []
    for one in sections:
        if one.is_empty:
            continue
        words = "".join(c if c.isascii() and c.isalnum() else " " for c in one.heading.lower())
        name = "-".join(words.split())[:60] or "section"
        taken[name] = count = taken.get(name, 0) + 1
        name = name if count == 1 else f"{name}-{count}"
        found.append(_Named(name=name, section=one, sections=_named(one.sections, taken)))
    return tuple(found)


@dataclass
class _Pictures:
    """Draws figures; counts them, since each has ids of its own."""

    markup: Callable[[str], str]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def of(self, figure: Figure, *kinds: str) -> list[tuple[str, str]]:
        """Its pictures of these kinds of windows, each with its kind."""
        number = next(self.numbers)
        drawn = (
            svg(figure.picture, _WIDTHS[kind], name=f"picture-{number}-{kind}", standalone=False)
            for kind in kinds
        )
        return list(zip(kinds, map(self.markup, drawn)))

    def trend(self, case: CaseNights) -> str:
        return self.markup(sparkline(case))


# Two units to a pixel, so that coordinates are whole numbers.
_WIDTH, _HEIGHT, _MARGIN = 240, 48, 6
_MOST = 115
_LINE, _DOT = 3, 10
# The least range, as a ratio: noise is not to look like news.
_RANGE = 1.10


def sparkline(case: CaseNights) -> str:
    """Empty without a time; broken where there are none, with dots where the level changed."""
    times_s = case.times_s
    if not times_s:
        return ""
    spark = _Sparkline.of(times_s, len(case.nights))
    dots = "".join(
        f"M{spark.x(spark.bin_of(change.night))},{spark.y(level.level_s)}h0"
        for change, level in zip(case.changes, case.levels[1:])
    )
    return (
        f'<svg class="busbw-chart" width="{_WIDTH // 2}" height="{_HEIGHT // 2}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" fill="none" stroke-linecap="round" aria-hidden="true">'
        f"{_path(spark.line, 'series-1', _LINE)}{_path(dots, 'series-2', _DOT)}</svg>"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sparkline:
    """The median time of each bin of nights that has one, and the range of times that is shown."""

    middles: Mapping[int, float]
    bins: int
    nights: int
    low: float
    high: float

    @classmethod
    def of(cls, times_s: Mapping[int, float], nights: int) -> _Sparkline:
        bins = min(_MOST, nights)
        found: dict[int, list[float]] = {}
        for night, time_s in times_s.items():
            found.setdefault(night * bins // nights, []).append(time_s)
        middles = {at: statistics.median(those) for at, those in found.items()}
        low, high = min(middles.values()), max(middles.values())
        wider = max(1.0, _RANGE * low / high) ** 0.5
        return cls(middles=middles, bins=bins, nights=nights, low=low / wider, high=high * wider)

    @property
    def line(self) -> str:
        runs = groupby(enumerate(self.middles), lambda pair: pair[1] - pair[0])
        return "".join(self._run([at for _, at in those]) for _, those in runs)

    def _run(self, bins: list[int]) -> str:
        points = [(self.x(at), self.y(self.middles[at])) for at in bins]
        steps = (f"{x - a},{y - b}" for (a, b), (x, y) in pairwise(points))
        return f"M{points[0][0]},{points[0][1]}" + (f"l{' '.join(steps)}" if points[1:] else "h0")

    def bin_of(self, night: int) -> int:
        return night * self.bins // self.nights

    def x(self, at: int) -> int:
        return round(_MARGIN + (at + 0.5) / self.bins * (_WIDTH - 2 * _MARGIN))

    def y(self, time_s: float) -> int:
        """Of a time, in units; slower is higher."""
        share = (time_s - self.low) / (self.high - self.low)
        share = min(max(share, 0.0), 1.0)
        return round(_HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN))


def _path(d: str, role: str, thick: int) -> str:
    colour = LIGHT.roles[role]
    return f'<path stroke="{colour}" stroke-width="{thick}" d="{d}"/>' if d else ""
