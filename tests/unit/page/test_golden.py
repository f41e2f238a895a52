"""What pages say and show, as it was looked at: a change of it is seen in a file.

Of each page `golden/NAME.txt` has its words, those of its pictures and all tables, and of some
`golden/NAME.json` the specifications of their pictures; `regression.html` and `*.md` have how parts
are written. `python -m tests.unit.page.test_golden` writes all anew; look at them before you keep
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from busbw import __version__
from busbw.page import content
from busbw.page.chart import Picture, described
from busbw.page.content import Page, Part, Section
from busbw.page.html import html, sparkline
from busbw.page.summary import summary
from busbw.page.vega import specification
from busbw.report.renderers import rendered
from busbw.report.table import Table
from tests.unit.page import made

GOLDEN = Path(__file__).parent / "golden"
AGAIN = "busbw run --device=cpu --frameworks=jax --strategies=psum --payloads=4K,1M"
COMPILED_AGAIN = "busbw run --topology=v5e:2x4 --frameworks=jax --payloads=4K"
# Pages whose pictures have all that others have.
SPECIFIED = ("pictures", "regression", "compiled", "slow")
# Of a year, only words are kept.
MOST_ROWS = 50


def _words(make: Callable[[], Page]) -> str:
    return "\n".join(_section(_whole(make()), "#")) + "\n"


def _whole(page: Page) -> Section:
    return Section(heading=page.title, parts=page.parts, sections=page.sections)


def _section(one: Section, sign: str) -> Iterator[str]:
    yield f"{sign} {one.heading}"
    for part in one.parts:
        yield f"[{type(part).__name__}]"
        yield from filter(None, _part(part))
    for inner in one.sections:
        yield from ("", *_section(inner, f"{sign}#"))


def _part(part: Part) -> Iterator[str]:
    match part:
        case content.Answer():
            yield f"{'good' if part.is_good else 'bad'}: {part.word} {part.text}"
        case content.Text():
            yield from (part.text, *(f"- {one}" for one in part.points))
        case content.Facts():
            yield from (part.title, *(f"{name}: {text}" for name, text in part.facts.items()))
        case content.Log():
            yield from (part.title, *part.lines)
        case content.Figure():
            yield from (part.picture.title, described(part.picture), *_table(part.table))
        case content.Gallery():
            yield from (part.title, *(line for one in part.figures for line in _part(one)))
        case content.Listing():
            few = [one for one in part.cases if len(one.nights) <= MOST_ROWS]
            yield from (*_table(part.table), *map(sparkline, few))


def _table(table: Table) -> Iterator[str]:
    if len(table.rows) <= MOST_ROWS:
        yield from (line.rstrip() for line in rendered("text", table))


def drawn(one: Page | Section) -> Iterator[Picture]:
    for part in one.parts:
        figures = part.figures if isinstance(part, content.Gallery) else [part]
        yield from (each.picture for each in figures if isinstance(each, content.Figure))
    for inner in one.sections:
        yield from drawn(inner)


def _specifications(make: Callable[[], Page]) -> str:
    specs = [specification(one, 720) for one in drawn(make())]
    return _json([{key: of for key, of in one.items() if key != "config"} for one in specs], 4)


def _json(value: Any, depth: int) -> str:
    """Each row of values and each layer has one line."""
    if depth and isinstance(value, dict):
        parts = (f"{json.dumps(key)}: {_json(of, depth - 1)}" for key, of in value.items())
        return "{\n" + ",\n".join(parts) + "\n}"
    if depth and isinstance(value, list):
        return "[\n" + ",\n".join(_json(one, depth - 1) for one in value) + "\n]"
    return json.dumps(value)


def _html() -> str:
    """Without the style sheet, and without what is drawn."""
    text = html(made.PAGES["regression"]()).replace(__version__, "VERSION")
    text = re.sub(r"<style>.*</style>", "<style></style>", text, flags=re.DOTALL)
    return re.sub(r"(<svg [^>]* role=.*?</title>).*?</svg>", r"\1</svg>", text, flags=re.DOTALL)


FILES: Mapping[str, Callable[[], str]] = {
    **{f"{name}.txt": partial(_words, make) for name, make in made.PAGES.items()},
    **{f"{name}.json": partial(_specifications, made.PAGES[name]) for name in SPECIFIED},
    "regression.md": lambda: summary(replace(made.regression(), command=AGAIN), [made.changed()]),
    "compiled.md": lambda: summary(replace(made.compiled(), command=COMPILED_AGAIN)),
    "regression.html": _html,
}


@pytest.mark.parametrize("name", FILES)
def test_it_is_as_it_was_looked_at(name: str) -> None:
    if name.endswith(".html"):
        pytest.importorskip("jinja2")
        pytest.importorskip("vl_convert")
    assert FILES[name]() == (GOLDEN / name).read_text(encoding="utf-8")


def test_every_file_is_shown() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(FILES)


if __name__ == "__main__":
    for each, text_of in FILES.items():
        (GOLDEN / each).write_text(text_of(), encoding="utf-8")
