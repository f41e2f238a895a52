"""Pages as HTML: what is text stays text, nothing is loaded, and everything has a name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from busbw.model.verdict import SessionVerdict
from busbw.model.words import SessionOutcome
from busbw.page.content import Answer, Facts, Listing, Log, Page, Points, Section, Text
from busbw.page.html import html, is_page
from busbw.page.page import page as report_page
from busbw.report.reading import Session
from busbw.report.table import text_table
from tests.report.written import session, verdict

VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})
# What a table's HTML may leave out.
OPTIONAL_END = frozenset({"td", "tr", "tbody"})


@dataclass
class Element:
    """An element with its attributes, its children in order, and its text without theirs."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list[Element]:
        """Every element below of these kinds, or of any, in the order of the document."""
        found = []
        for one in self.children:
            found += [one] if not tags or one.tag in tags else []
            found += one.all(*tags)
        return found

    @property
    def whole_text(self) -> str:
        """Its text and that of all below it, words apart by one space."""
        return " ".join(f"{self.text} {' '.join(one.whole_text for one in self.children)}".split())


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        while self.open[-1].tag in OPTIONAL_END and _ends(self.open[-1].tag, tag):
            self.open.pop()
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1].tag != tag:
            assert self.open[-1].tag in OPTIONAL_END, f"<{self.open[-1].tag}> closed by </{tag}>"
            self.open.pop()
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].text += data


def _ends(tag: str, following: str) -> bool:
    """Whether the open element ends where the following one begins."""
    return following in {"td": ("td", "th", "tr"), "tr": ("tr",)}.get(tag, ())


def read(text: str) -> Element:
    """The document; an AssertionError for elements that are closed in another order."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert [one.tag for one in parser.open] == ["document"]
    return parser.open[0]


HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'{{ 7 * 7 }}\x00"
# What loads something or runs something.
ACTIVE = ("script", "img", "iframe", "object", "embed", "form", "base", "use", "image")

pytestmark = pytest.mark.usefixtures("pages")


@pytest.fixture
def pages() -> None:
    """Skips where pages cannot be made."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")


def _page(*sessions: Session) -> Element:
    return read(html(report_page(sessions)))


def test_every_text_of_every_part_is_text() -> None:
    table = text_table((HOSTILE, "b"), [(HOSTILE, "1")])
    parts = (
        Answer(word=HOSTILE, text=HOSTILE, is_good=False),
        Text(text=HOSTILE),
        Points(title=HOSTILE, points=(HOSTILE,)),
        Facts(facts={HOSTILE: HOSTILE}),
        Facts(facts={HOSTILE: HOSTILE}, title=HOSTILE),
        Log(title=HOSTILE, lines=(HOSTILE,)),
        Listing(table=table),
    )
    text = html(Page(title=HOSTILE, parts=parts, sections=(Section(heading=HOSTILE, parts=parts),)))
    found = read(text)
    assert not found.all(*ACTIVE)
    assert "onerror" not in {name for one in found.all() for name in one.attributes}
    assert "49" not in text
    assert found.whole_text.count("<script>alert(1)</script>") >= 2 * len(parts)


def test_hostile_names_of_a_session_do_no_harm() -> None:
    hostile = session(
        verdict(4096, 6.0, notes=(HOSTILE,)),
        verdict(8192, None, text=HOSTILE),
        host=HOSTILE,
        commit=HOSTILE,
        versions={HOSTILE: {HOSTILE: HOSTILE}, "jax": {"jax": HOSTILE}},
        flags={HOSTILE: HOSTILE},
        why=HOSTILE,
    )
    found = _page(hostile)
    assert not found.all(*ACTIVE)
    assert not [name for one in found.all() for name in one.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.whole_text


def test_nothing_is_loaded_and_the_policy_says_so() -> None:
    text = html(report_page([session(verdict(4096, 6.0), verdict(8192, 7.0))]))
    found = read(text)
    assert not found.all(*ACTIVE)
    links = {
        value
        for one in found.all()
        for name, value in one.attributes.items()
        if name in ("href", "src", "xlink:href", "action", "data", "srcset")
    }
    # An icon that is empty, for which a browser would ask the server else.
    assert links - {"data:,"} and all(link.startswith("#") for link in links - {"data:,"})
    style = "".join(one.text for one in found.all("style"))
    assert "url(" not in style and "@import" not in style
    policies = [
        one.attributes["content"]
        for one in found.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies[0].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")


def test_ids_are_unique_and_what_refers_to_them_finds_them() -> None:
    one = session(verdict(4096, 6.0), verdict(8192, 7.0))
    found = _page(one, one)
    ids = Counter(e.attributes["id"] for e in found.all() if "id" in e.attributes)
    assert ids and set(ids.values()) == {1}
    for element in found.all():
        referred = element.attributes.get("aria-labelledby", "").split()
        referred += [element.attributes["href"][1:]] if element.tag == "a" else []
        assert set(referred) <= set(ids)


def test_headings_go_down_one_level_at_a_time_below_a_single_title() -> None:
    one = session(verdict(4096, 6.0))
    for found in (_page(one), _page(one, one)):
        levels = [int(e.tag[1]) for e in found.all("h1", "h2", "h3", "h4", "h5", "h6")]
        assert levels.count(1) == 1 and levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_each_picture_has_a_name_and_its_table_and_each_table_headings() -> None:
    found = _page(session(verdict(4096, 6.0), verdict(8192, 7.0)))
    assert len(found.all("figure")) >= 2
    for figure in found.all("figure"):
        pictures = figure.all("svg")
        assert [one.attributes["role"] for one in pictures] == ["img", "img"]
        assert all(one.all("title")[0].whole_text for one in pictures)
        assert figure.all("details") and figure.all("table")
    for table in found.all("table"):
        assert table.all("caption")[0].whole_text
        assert all(one.attributes["scope"] == "col" for one in table.all("thead")[0].all("th"))
        rows = [row for row in table.all("tbody")[0].all("tr") if "class" not in row.attributes]
        assert all(row.all("th")[0].attributes["scope"] == "row" for row in rows)


def test_a_row_of_a_failed_case_is_marked_and_words_are_left_aligned() -> None:
    found = _page(session(verdict(4096, 6.0, failed=True)))
    rows = [one for one in found.all("tr") if one.attributes.get("class") == "marked"]
    assert rows and "4K" in rows[0].whole_text
    assert [one.whole_text for one in rows[0].all("td") if one.attributes.get("class") == "left"]


def test_empty_sections_are_left_out_and_so_is_a_list_of_a_single_one() -> None:
    page = Page(title="a", sections=(Section(heading="b"), Section(heading="c", parts=_TEXT)))
    found = read(html(page))
    assert [one.whole_text for one in found.all("h2")] == ["c"]
    assert not found.all("nav")


_TEXT = (Text(text="d"),)


def test_headings_without_a_letter_and_alike_ones_have_ids_too() -> None:
    sections = tuple(Section(heading=name, parts=_TEXT) for name in ("…", "…", "A b", "a B"))
    found = read(html(Page(title="a", sections=sections)))
    ids = [one.attributes["id"] for one in found.all("h2")]
    assert ids == ["section", "section-2", "a-b", "a-b-2"]


def test_a_page_is_known_again_and_nothing_else_is() -> None:
    text = html(Page(title="a"))
    assert is_page(text)
    assert not is_page(text.replace("busbw page", "other"))
    assert not is_page("") and not is_page("<!DOCTYPE html><html>")


def test_both_themes_are_there_and_every_colour_of_the_page_is_one_of_theirs() -> None:
    text = html(Page(title="a"))
    assert "prefers-color-scheme:dark" in text
    used = set(re.findall(r"var\((--busbw-[a-z0-9-]+)\)", text))
    given = set(re.findall(r"(--busbw-[a-z0-9-]+):#", text))
    assert used and used <= given


def test_the_answer_of_a_session_is_the_first_that_is_read() -> None:
    answer = SessionVerdict(outcomes=(SessionOutcome.DRIFT,), text="slower since March")
    found = _page(replace(session(verdict(4096, 6.0)), answer=answer))
    title, said, *_ = found.all("header")[0].children
    assert title.whole_text == "All-reduce on AMD EPYC, 4 ranks"
    assert (said.all("strong")[0].text, said.text.strip()) == ("DRIFT", "slower since March")
