"""Pictures: what the SVG holds whatever a chart is named, its classes, and which files are ours."""

from __future__ import annotations

import itertools
import re
import struct
import sys
import zlib
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.page.chart import Axis, Band, Chart, Mark, Rule, Scale, Series, Style
from busbw.page.palette import DARK, LIGHT
from busbw.page.pictures import PictureError, is_picture, png, style_sheet, svg, variables
from tests.report.shown import chart

SMALL = 400
ROLES = tuple(LIGHT.roles)
SVG = "{http://www.w3.org/2000/svg}"
# Of lines of text, which the wanted picture may lack.
WRAPPED = {"x", "dy"}
HOSTILE = [
    '<script>alert(1)</script><image href="x"/>',
    '"\' onload="alert(1)" x=\'',
    "]]><!-- &lt;b&gt; &amp; --> <?xml?>",
    "\x00\x01\x1b\n\r\t\x7f\u202e\ufffe\ud800",
    "x" * 20_000,
    "${alert(1)} {{x}} datum['y'] \\u003cb",
    "",
]


@pytest.fixture(autouse=True)
def _drawn(request: pytest.FixtureRequest) -> None:
    # Tests with a monkeypatch put something in its place.
    if "monkeypatch" not in request.fixturenames:
        pytest.importorskip("vl_convert")


def _hostile(text: str) -> Chart:
    """A chart with `text` wherever a chart has text."""
    numbers = itertools.count()

    def name() -> str:
        return f"{next(numbers)}{text}{next(numbers)}"

    curve = Series(name=name(), points=((1024, 1.0), (2048, 2.0)), group=text)
    return chart(
        title=text,
        subtitle=text,
        description=text,
        x=Axis(name=text or "x", unit=text, scale=Scale.LINEAR),
        y=Axis(name=text, unit=text, scale=Scale.LOG10),
        series=(curve, Series(name=name(), points=((1024, 1.0),), style=Style.DOTS)),
        bands=(Band(name=name(), points=((1024, 0.5, 1.0), (2048, 1.0, 2.0)), group=text),),
        rules=(Rule(label=text, at=3.0),),
        marks=(
            Mark(label=text, x=1024, y=1.0, series=curve.name),
            Mark(label=text, x=2048, series=curve.name),
        ),
    )


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text)[:12])
def test_hostile_texts_add_no_element_and_no_attribute(text: str) -> None:
    root = Tree.fromstring(svg(_hostile(text), SMALL))
    wanted = [
        *Tree.fromstring(svg(_hostile("x"), SMALL)).iter(),
        *Tree.fromstring(svg(chart())).iter(),
    ]
    elements = {one.tag for one in wanted} | {f"{SVG}tspan"}
    attributes = {key for one in wanted for key in one.attrib}
    for one in root.iter():
        assert one.tag in elements, text
        assert set(one.attrib) <= attributes | WRAPPED
        assert not any("alert" in value for value in one.attrib.values())
    assert [one.text for one in root.iter(f"{SVG}style")] == [style_sheet()]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text)[:12])
def test_hostile_texts_are_drawn_as_png(text: str) -> None:
    assert png(_hostile(text), SMALL, scale=1).startswith(b"\x89PNG")


def test_a_category_may_be_named_like_anything() -> None:
    points = tuple((f"{text[:50]}{n}", 1.0) for n, text in enumerate(HOSTILE))
    axis = Axis(name="host", scale=Scale.CATEGORY)
    one = Chart(title="t", x=axis, y=chart().y, series=(Series(name="s", points=points),))
    tags = {e.tag.removeprefix(SVG) for e in Tree.fromstring(svg(one, SMALL)).iter()}
    assert tags <= {
        "svg",
        "title",
        "desc",
        "style",
        "defs",
        "clipPath",
        "g",
        "path",
        "line",
        "text",
    }


def test_texts_are_readable_text() -> None:
    texts = [one.text for one in Tree.fromstring(svg(chart(), SMALL)).iter(f"{SVG}text")]
    for word in ("All-reduce", "1K", "16K", "busbw (GB/s)", "jax", "OUT_OF_MEMORY", "ceiling"):
        assert word in texts


def test_it_is_an_image_with_a_title_and_a_description() -> None:
    root = Tree.fromstring(svg(chart(), SMALL, name="night-1"))
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "night-1-title night-1-desc")
    said = {one.get("id"): one.text for one in root if one.get("id")}
    assert said == {"night-1-title": "All-reduce", "night-1-desc": "jax is faster"}
    assert [one for one in root.iter() if one.get("role")] == [root]


def test_ids_of_different_charts_differ() -> None:
    def ids(one: Chart) -> set[str]:
        return set(re.findall(r'id="([^"]*)"', svg(one, SMALL)))

    first, second = ids(chart()), ids(chart(title="Another"))
    assert first and not first & second


def test_every_colour_that_is_drawn_is_one_that_the_style_sheet_knows() -> None:
    root = Tree.fromstring(svg(chart(), SMALL, standalone=False))
    assert not list(root.iter(f"{SVG}style"))
    drawn = {(kind, one.get(kind, "none")) for one in root.iter() for kind in ("fill", "stroke")}
    used = {(kind, colour) for kind, colour in drawn if colour not in ("none", "transparent")}
    assert {("fill", LIGHT.text), ("stroke", LIGHT.grid), ("fill", LIGHT.bands[0])} <= used
    assert all(
        f'[{kind}="{colour}"]{{{kind}:var(--busbw-' in style_sheet() for kind, colour in used
    )


def test_the_style_sheet_has_both_themes_for_every_role() -> None:
    light, dark = style_sheet().split("@media (prefers-color-scheme:dark)")
    assert all(f"--busbw-{role}:{LIGHT.roles[role]}" in light for role in ROLES)
    assert all(f"--busbw-{role}:{DARK.roles[role]}" in dark for role in ROLES)
    assert variables(DARK, "[data-theme=dark]").startswith("[data-theme=dark]{--busbw-")
    assert "<" not in style_sheet() and "url(" not in style_sheet()


def test_nothing_fills_the_background_of_an_svg() -> None:
    root = Tree.fromstring(svg(chart(), SMALL))
    boxes = [one for one in root.iter() if one.tag in (f"{SVG}rect", f"{SVG}path")]
    assert not any(one.get("fill") == LIGHT.background for one in boxes)


def _chunks(content: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", content[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        found.append((kind, body))
        at += 12 + length
    return found


def test_a_png_says_who_wrote_it_and_is_as_wide_as_asked() -> None:
    chunks = _chunks(png(chart(), SMALL, scale=2))
    assert struct.unpack(">I", chunks[0][1][:4]) == (800,)
    assert (b"tEXt", b"Software\x00busbw figure") in chunks
    assert chunks[-1][0] == b"IEND"


def test_only_our_own_pictures_are_ours() -> None:
    ours: list[Any] = [svg(chart(), SMALL), png(chart(), SMALL).decode(errors="replace")]
    assert all(map(is_picture, ours))
    others = [f"<p>{ours[0]}</p>", "<svg></svg>", "busbw figure", ours[1].replace("figure", "x")]
    assert not any(map(is_picture, others))


def test_without_vl_convert_the_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(PictureError, match=r"pip install 'busbw\[page\]'"):
        svg(chart(), SMALL)
    with pytest.raises(PictureError, match="not installed"):
        png(chart(), SMALL)
