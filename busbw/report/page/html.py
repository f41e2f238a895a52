"""A Page as HTML by templates that escape every text: one file, no script, nothing to load."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from types import ModuleType

import busbw
from busbw import wire

from ..drawing.layout import Size
from ..drawing.palette import DARK, LIGHT
from ..heatmap import Picture
from ..nights import CaseNights
from ..pictures import PictureError, style_sheet, svg, variables
from ..sparkline import sparkline
from .content import Figure, Page, Section

_MISSING = "pages need Jinja, which is not installed: python -m pip install 'busbw[page]'"
_MARK = '<meta name="generator" content="busbw page">'
# A picture for a window of a computer, one for that of a phone, and one for both.
_WIDE, _NARROW, _SMALL = Size(width=860), Size(width=350), Size(width=400)


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
    environment.globals |= {
        "pictures": drawn.of,
        "small": drawn.small,
        "trend": drawn.trend,
    }
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

    def of(self, figure: Figure) -> list[tuple[str, str]]:
        """Its pictures with what they are for, ``wide`` and ``narrow``."""
        return self._drawn(figure, {"wide": _WIDE, "narrow": _NARROW})

    def small(self, figure: Figure) -> list[tuple[str, str]]:
        return self._drawn(figure, {"small": _SMALL})

    def _drawn(self, figure: Figure, sizes: Mapping[str, Size]) -> list[tuple[str, str]]:
        number = next(self.numbers)
        return [
            (name, self.markup(_svg(figure.picture, size, f"picture-{number}-{name}")))
            for name, size in sizes.items()
        ]

    def trend(self, case: CaseNights) -> str:
        return self.markup(sparkline(case))


def _svg(picture: Picture, size: Size, name: str) -> str:
    return svg(picture, size, name=name, standalone=False)
