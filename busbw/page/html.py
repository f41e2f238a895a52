"""A Page as HTML by templates that escape every text: one file, no script, nothing to load."""

from __future__ import annotations

import importlib.util
import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
    # Each picture has ids of its own.
    numbers = itertools.count(1)

    def pictures(figure: Figure, *kinds: str) -> list[tuple[str, str]]:
        """Its pictures for these kinds of windows, each with its kind."""
        number = next(numbers)
        drawn = (
            svg(figure.picture, _WIDTHS[kind], name=f"picture-{number}-{kind}", standalone=False)
            for kind in kinds
        )
        return list(zip(kinds, map(markup, drawn)))

    environment.globals |= {
        "pictures": pictures,
        "trend": lambda case: markup(sparkline(case)),
        "kind": lambda part: type(part).__name__.lower(),
    }
    names = dict(_names(page.sections, Counter()))
    template = environment.get_template("page.html")
    text: str = template.render(
        page=page,
        name_of=lambda section: names[id(section)],
        version=busbw.__version__,
        style=markup(_style()),
    )
    return text


def _style() -> str:
    dark = f"@media (prefers-color-scheme:dark){{{variables(DARK, ':root')}}}"
    return variables(LIGHT, ":root") + dark + _source("page.css") + style_sheet()


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


def _names(sections: Sequence[Section], taken: Counter[str]) -> Iterator[tuple[int, str]]:
    """The name that links to each section have."""
    for one in sections:
        words = "".join(c if c.isascii() and c.isalnum() else " " for c in one.heading.lower())
        name = "-".join(words.split())[:60] or "section"
        taken[name] += 1
        yield id(one), name if taken[name] == 1 else f"{name}-{taken[name]}"
        yield from _names(one.sections, taken)


# Two units to a pixel, so that coordinates are whole numbers.
_WIDTH, _HEIGHT, _MARGIN = 240, 48, 6
_MOST = 115
_LINE, _DOT = 3, 10
# The least range, as a ratio: noise is not to look like news.
_RANGE = 1.10


def sparkline(case: CaseNights) -> str:
    """Empty without a time; broken where there are none, with dots where the level changed.

    A point is the median of a bin of nights; slower is higher.
    """
    times_s, nights = case.times_s, case.count
    if not times_s:
        return ""
    bins = min(_MOST, nights)
    found: dict[int, list[float]] = {}
    for night, time_s in times_s.items():
        found.setdefault(night * bins // nights, []).append(time_s)
    middles = {at: statistics.median(those) for at, those in found.items()}
    low, high = min(middles.values()), max(middles.values())
    wider = max(1.0, _RANGE * low / high) ** 0.5
    low, high = low / wider, high * wider

    def place(at: int, time_s: float) -> tuple[int, int]:
        share = min(max((time_s - low) / (high - low), 0.0), 1.0)
        x = _MARGIN + (at + 0.5) / bins * (_WIDTH - 2 * _MARGIN)
        return round(x), round(_HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN))

    runs = groupby(enumerate(middles), lambda pair: pair[1] - pair[0])
    lines = [[place(at, middles[at]) for _, at in run] for _, run in runs]
    changes = zip(case.changes, case.levels[1:])
    dots = [[place(one.night * bins // nights, level.level_s)] for one, level in changes]
    return (
        f'<svg class="busbw-chart" width="{_WIDTH // 2}" height="{_HEIGHT // 2}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" fill="none" stroke-linecap="round" aria-hidden="true">'
        f"{_path(lines, 'series-1', _LINE)}{_path(dots, 'series-2', _DOT)}</svg>"
    )


def _path(lines: Sequence[Sequence[tuple[int, int]]], role: str, thick: int) -> str:
    """Lines by their points; one of a single point is a dot."""
    d = ""
    for points in lines:
        steps = (f"{x - a},{y - b}" for (a, b), (x, y) in pairwise(points))
        d += f"M{points[0][0]},{points[0][1]}" + (f"l{' '.join(steps)}" if points[1:] else "h0")
    return f'<path stroke="{LIGHT[role]}" stroke-width="{thick}" d="{d}"/>' if d else ""
