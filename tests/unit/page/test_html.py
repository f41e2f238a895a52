"""Pages as HTML: what is text stays text, nothing is loaded, and everything has a name."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.page.content import Page
from busbw.page.html import html, is_page
from busbw.page.pictures import png
from busbw.page.vega import specification
from tests.helpers.sweep import sweep
from tests.unit.page import made
from tests.unit.page.test_golden import drawn

HOSTILE = [
    '</style><script>alert(1)</script><image href="x"/>',
    '"\' onload="alert(1)" x=\'',
    "]]><!-- &lt;b&gt; &amp; --> <?xml?>",
    "\x00\x01\x1b\n\r\t\x7f\u202e\ufffe\ud800",
    "x" * 20_000,
    "'; alert('x') // ${alert(1)} {{ 7 * 7 }} {% x %} datum['y'] \\u003cb",
]
# What could run a script or load something.
ACTIVE = {"script", "link", "img", "iframe", "object", "embed", "form", "base", "use", "image"}
LOADED = {"href", "src", "xlink:href", "action", "data", "srcset"}
# What there may be more of in a picture, such as lines of text.
DRAWN = {"g", "line", "path", "text", "tspan"}

pytestmark = pytest.mark.usefixtures("_written")


@pytest.fixture
def _written() -> None:
    """Skips where pages cannot be made."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")


@dataclass
class Read(HTMLParser):
    """The elements of a page with their attributes, in order."""

    source: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def count(self) -> Counter[str]:
        return Counter(tag for tag, _ in self.elements if tag not in DRAWN)

    def attributes(self, *names: str) -> list[str]:
        return [of[name] for _, of in self.elements for name in names if name in of]


def _expressions(value: Any) -> Iterator[str]:
    """What Vega evaluates, at any depth of a specification, which loads nothing."""
    if isinstance(value, dict):
        assert not set(value) & {"url", "href", "params"}
        for key, one in value.items():
            is_code = key in ("labelExpr", "expr", "signal", "test", "filter", "calculate")
            yield from [json.dumps(one)] if is_code else _expressions(one)
    elif isinstance(value, list):
        for one in value:
            yield from _expressions(one)


@pytest.fixture(scope="module")
def harmless() -> tuple[Page, Read, set[str]]:
    """A page with parts and pictures of every kind, as it is read, and the code in its pictures."""
    found = made.spoiled(made.PAGES["regression"](), "x")
    return found, Read(html(found)), _code(found)


def _code(found: Page) -> set[str]:
    specs = [specification(one, 400) for one in drawn(found)]
    assert specs == json.loads(json.dumps(specs, allow_nan=False))
    return set(_expressions(specs))


@pytest.mark.slow
@pytest.mark.parametrize("text", sweep(HOSTILE), ids=lambda text: repr(text)[:12])
def test_hostile_texts_are_text(text: str, harmless: tuple[Page, Read, set[str]]) -> None:
    _, wanted, code = harmless
    page = made.spoiled(made.PAGES["regression"](), text)
    assert _code(page) == code
    written = html(page)
    found = Read(written)
    assert found.count() == wanted.count()
    names = [{name for _, of in one.elements for name in of} for one in (wanted, found)]
    assert names[1] <= names[0]
    values = [
        value for _, of in found.elements for name, value in of.items() if name != "aria-label"
    ]
    assert not [value for value in values if "alert(" in value]
    for one in re.findall("<svg.*?</svg>", written, re.DOTALL):
        Tree.fromstring(one)
    for picture in drawn(page):
        assert png(picture, 400, scale=1).startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def several() -> str:
    """A page of two sessions and several machines."""
    return html(made.PAGES["several"]())


def test_nothing_is_loaded_and_the_policy_says_so(several: str) -> None:
    found = Read(several)
    # An icon that is empty, for which a browser would ask the server else.
    links = set(found.attributes(*LOADED)) - {"data:,"}
    assert links and all(link.startswith("#") for link in links)
    assert {tag for tag, _ in found.elements} & ACTIVE == {"link"}
    assert "url(" not in several.replace("url(#", "") and "@import" not in several
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert any(one.startswith(policy) for one in found.attributes("content"))


def test_ids_are_unique_and_what_refers_to_them_finds_them(several: str) -> None:
    found = Read(several)
    ids = Counter(found.attributes("id"))
    assert ids and set(ids.values()) == {1}
    referred = " ".join(found.attributes("aria-labelledby")).split()
    referred += [of["href"][1:] for tag, of in found.elements if tag == "a"]
    assert referred and set(referred) <= set(ids)


def test_headings_go_down_one_level_at_a_time_below_a_single_title(several: str) -> None:
    levels = [int(tag[1]) for tag, _ in Read(several).elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


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
