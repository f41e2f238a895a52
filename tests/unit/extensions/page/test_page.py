"""A page has all results of a session, shows markup as text, and loads no other file."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree as Tree

import pytest

from busbw.extensions.page.charts import Chart, draw_png
from busbw.extensions.page.page import Chapter, make_chapters, render_html
from tests.helpers.sweep import sweep
from tests.unit.extensions.page import made

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")

HOSTILE = [
    '</style><script>alert(1)</script><image href="x"/>',
    '"\' onload="alert(1)" x=\'',
    "]]><!-- &lt;b&gt; &amp; --> <?xml?>",
    "\x00\x01\x1b\n\r\t\x7f\u202e\ufffe\ud800",
    "x" * 20_000,
    "'; alert('x') // ${alert(1)} {{ 7 * 7 }} {% x %} datum['y'] \\u003cb",
]
# A chart may have more of these, such as lines of text.
_DRAWN = {"g", "line", "path", "text", "tspan"}
_ACTIVE = {"script", "img", "iframe", "object", "embed", "form", "base", "use", "image"}


class Read(HTMLParser):
    """The elements of a page with their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def counts(self) -> Counter[str]:
        return Counter(tag for tag, _ in self.elements if tag not in _DRAWN)

    def values(self, *names: str) -> list[str]:
        return [attrs[name] for _, attrs in self.elements for name in names if name in attrs]


def charts_of(chapters: list[Chapter]) -> list[Chart]:
    """Return all charts of a page."""
    sections = [section for chapter in chapters for section in chapter.sections]
    return [chart for section in sections for chart in section.charts]


@pytest.fixture(scope="module")
def text() -> str:
    """Return the text of a page with a session and a history."""
    return render_html(made.whole_page())


def test_a_page_of_one_session_shows_histories_before_the_table_of_all_cases() -> None:
    (chapter,) = made.whole_page()
    assert [section.heading for section in chapter.sections][-4:] == [
        "History of tpu/4r",
        "Cases that changed most on tpu/4r",
        "All cases on tpu/4r",
        "Cases",
    ]


def test_a_page_of_two_sessions_begins_with_a_chart_of_the_bandwidths_of_both() -> None:
    overview, _, _ = make_chapters([made.regression()] * 2)
    assert [section.heading for section in overview.sections] == ["Bandwidth of all sessions"]


def test_the_page_of_a_history_has_the_table_of_cases_of_the_history_command() -> None:
    lines = [made.session_line(day, times_us=(10 if day < 3 else 12,)) for day in range(4)]
    (chapter,) = make_chapters([], [made.machine(*lines)])
    assert chapter.description.title == "Sessions of tpu/4r"
    ((row,),) = [table.rows for table in chapter.sections[-1].tables]
    assert row.values["newest"] == pytest.approx(12e-6) and row.values["sessions"] == 4
    (several,) = make_chapters([], [made.changed()] * 2)
    assert several.description.title == "Sessions of tpu/4r, tpu/4r"


def test_a_page_loads_no_resource_and_runs_no_script(text: str) -> None:
    read = Read(text)
    assert set(read.values("href", "src", "xlink:href", "srcset", "data")) == {"data:,"}
    assert not {tag for tag, _ in read.elements} & _ACTIVE
    assert "url(" not in text and "@import" not in text
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert any(content.startswith(policy) for content in read.values("content"))


@pytest.mark.slow
@pytest.mark.parametrize("hostile", sweep(HOSTILE), ids=lambda text: repr(text)[:12])
def test_a_page_shows_texts_with_markup_as_plain_text(hostile: str, text: str) -> None:
    spoiled = made.spoiled(made.whole_page(), hostile)
    written = render_html(spoiled)
    usual, read = Read(render_html(made.spoiled(made.whole_page(), "x"))), Read(written)
    assert read.counts() == usual.counts()
    names = [{name for _, attrs in page.elements for name in attrs} for page in (usual, read)]
    assert names[1] <= names[0]
    others = [attrs for _, attrs in read.elements if attrs.pop("aria-label", True)]
    assert not [value for attrs in others for value in attrs.values() if "alert(" in value]
    for picture in re.findall("<svg.*?</svg>", written, re.DOTALL):
        Tree.fromstring(picture)
    assert all(draw_png(chart).startswith(b"\x89PNG") for chart in charts_of(spoiled)[:2])
