"""Pictures: what SVG and PNG hold, how large they are, and which are ours."""

from __future__ import annotations

import itertools
import re
import sys
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from xml.etree import ElementTree as Tree

import pytest

from busbw.page.chart import Axis, Picture, mark, series
from busbw.page.history_charts import case_history
from busbw.page.palette import DARK, LIGHT
from busbw.page.pictures import PictureError, is_picture, png, style_sheet, svg, variables
from busbw.page.vega import plain, specification
from tests.helpers.history_lines import line
from tests.helpers.report_text import chart
from tests.unit.page import made

SMALL = 400
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _drawn(request: pytest.FixtureRequest) -> None:
    # Tests with a monkeypatch put something in its place.
    if "monkeypatch" not in request.fixturenames:
        pytest.importorskip("vl_convert")


def test_twelve_curves_differ_by_more_than_colour() -> None:
    points = [one for n in range(12) for one in series(str(n), [(8, 1.0)])]
    layers = specification(chart(points=tuple(points)), 720)["layer"]
    (dots,) = [one["encoding"] for one in layers if one["mark"]["type"] == "point"]
    looks = zip(*(dots[channel]["scale"]["range"] for channel in ("color", "shape")))
    assert len(set(looks)) == 12


def test_text_is_one_line_of_what_xml_may_hold() -> None:
    assert plain("a\nb\x00\u202e  c") == "a b c"
    assert plain("x" * 300, 10) == "xxxxxxx..."


def test_little_is_drawn_too() -> None:
    year_later = line(session="f" * 16, at="2027-01-31T03:00:00Z")
    second_later = line(session="f" * 16, at="2026-01-31T03:00:01Z", times_us=(400.0,))
    nights = [[line()], [line(**made.LOST)], [line(), year_later], [line(), second_later]]
    machines = [made.machine(*lines) for lines in nights]
    pictures: list[Picture] = [
        *(case_history(one, one.cases[0]) for one in machines),
        chart(points=()),
        chart(title="", subtitle="", description="", y=Axis(name="")),
        chart(points=tuple(series("one", [(1024, 1.0)]))),
        chart(points=(mark("OUT_OF_MEMORY", 1024, None),)),
        made.heatmap(made.cells_of(1.0), nights=1),
        made.heatmap(made.cells_of(1.0, 2.0), nights=2, columns=(made.BEGIN, made.BEGIN)),
    ]
    for one in pictures:
        text = svg(one, SMALL)
        assert Tree.fromstring(text).tag == f"{SVG}svg"
        assert not re.search('="[^"]*(NaN|Infinity|undefined)', text)
        assert png(one, SMALL, scale=1).startswith(b"\x89PNG")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_year_takes_less_than_40_kb_a_case_and_500_kb_a_heat_map() -> None:
    machine = made.year_of_nights()
    cases = {one.case.name: one for one in machine.cases}
    for payload, width in itertools.product(("1K", "64M", "1024M"), (SMALL, 720)):
        of_case = case_history(machine, cases[f"jax.all_reduce.psum.float32.{payload}"])
        assert len(svg(of_case, width)) < 40_000
    nights = [[1.0 if (at * 365 + n) % 9 else 1.05 for n in range(365)] for at in range(42)]
    rows = (made.cells_of(*cells, label=f"{at}K") for at, cells in enumerate(nights))
    assert len(svg(made.heatmap(*rows, nights=365))) < 500_000


def test_it_is_an_image_with_a_title_and_a_description_and_readable_texts() -> None:
    root = Tree.fromstring(svg(chart(), SMALL, name="night-1"))
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "night-1-title night-1-desc")
    said = {one.get("id"): one.text for one in root if one.get("id")}
    assert said == {"night-1-title": "All-reduce", "night-1-desc": "jax is faster"}
    assert [one for one in root.iter() if one.get("role")] == [root]
    texts = {one.text for one in root.iter(f"{SVG}text")}
    assert texts >= {"All-reduce", "1K", "16K", "busbw (GB/s)", "jax", "OUT_OF_MEMORY", "ceiling"}


def test_every_colour_that_is_drawn_is_one_that_the_style_sheet_knows() -> None:
    root = Tree.fromstring(svg(chart(), SMALL, standalone=False))
    assert not list(root.iter(f"{SVG}style"))
    drawn = {(kind, one.get(kind, "none")) for one in root.iter() for kind in ("fill", "stroke")}
    used = {(kind, colour) for kind, colour in drawn if colour not in ("none", "transparent")}
    assert used >= {("fill", LIGHT["text"]), ("stroke", LIGHT["grid"]), ("fill", LIGHT["band-1"])}
    assert all(f'[{kind}="{of}"]{{{kind}:var(--busbw-' in style_sheet() for kind, of in used)
    # Nothing fills the background.
    assert ("fill", LIGHT["background"]) not in used


def test_the_style_sheet_has_both_themes_for_every_role() -> None:
    light, dark = style_sheet().split("@media (prefers-color-scheme:dark)")
    assert all(f"--busbw-{role}:{colour}" in light for role, colour in LIGHT.items())
    assert all(f"--busbw-{role}:{colour}" in dark for role, colour in DARK.items())
    assert variables(DARK, "[data-theme=dark]").startswith("[data-theme=dark]{--busbw-")
    assert "<" not in style_sheet() and "url(" not in style_sheet()


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at < len(content):
        end = at + 8 + int.from_bytes(content[at : at + 4])
        chunk, check = content[at + 4 : end], content[end : end + 4]
        assert int.from_bytes(check) == zlib.crc32(chunk)
        yield chunk[:4], chunk[4:]
        at = end + 4


def test_a_png_says_who_wrote_it_and_is_as_wide_as_asked() -> None:
    chunks = list(_chunks(png(chart(), SMALL, scale=2)))
    assert int.from_bytes(chunks[0][1][:4]) == 800
    assert (b"tEXt", b"Software\x00busbw figure") in chunks
    assert chunks[-1][0] == b"IEND"


def test_only_our_own_pictures_are_ours() -> None:
    ours = [svg(chart(), SMALL), png(chart(), SMALL).decode(errors="replace")]
    assert all(map(is_picture, ours))
    others = [f"<p>{ours[0]}</p>", "<svg></svg>", "busbw figure", ours[1].replace("figure", "x")]
    assert not any(map(is_picture, others))


def test_what_vl_convert_cannot_draw_is_an_error_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ValueError("no such scale")

    broken = SimpleNamespace(vegalite_to_svg=fails, vegalite_to_png=fails)
    monkeypatch.setitem(sys.modules, "vl_convert", broken)
    for draw in (svg, png):
        with pytest.raises(PictureError, match="cannot draw this picture: no such scale"):
            draw(chart(), SMALL)
