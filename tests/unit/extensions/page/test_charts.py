"""Figures have the values of the session, a sentence of them, and are drawn."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.extensions.page import curves
from busbw.extensions.page.charts import CurveChart, DrawingError, draw_svg, read_resource
from busbw.extensions.page.curves import bandwidth_chart, curves_of
from busbw.extensions.page.history import case_history_chart, heat_map
from tests.helpers.results_files import session, verdict
from tests.unit.extensions.page import made

pytest.importorskip("vl_convert")

SVG = "{http://www.w3.org/2000/svg}"


def _drawn_texts(picture: str) -> set[str]:
    return {"".join(element.itertext()) for element in Tree.fromstring(picture).iter(f"{SVG}text")}


def _bandwidth(*verdicts: Any, **changes: Any) -> CurveChart:
    return bandwidth_chart(curves_of(session(*verdicts, **changes)))


def test_a_bandwidth_chart_shows_the_baseline_and_the_range_and_the_outcomes() -> None:
    chart = _bandwidth(verdict(4096, 6.0, **made.SLOW), verdict(8192, None))
    slow, lost, published, _ = chart.rows
    assert slow == {
        "series": "jax psum",
        "x": 4096,
        "y": 6.0,
        "reference": 12.0,
        "low": 10.0,
        "high": 12.0,
        "remark": "REGRESSED",
    }
    assert (lost["y"], lost["remark"]) == (None, "OUT_OF_MEMORY")
    assert published["series"].startswith("published: v2-8")
    assert chart.horizontal_lines == {"ceiling 50 GB/s: links": 50.0}
    texts = _drawn_texts(draw_svg(chart))
    assert {"All-reduce: bus bandwidth", "4K", "REGRESSED", "OUT_OF_MEMORY"} <= texts
    assert {"jax psum", "busbw (GB/s)", "ceiling 50 GB/s: links"} <= texts


def test_the_description_of_a_chart_has_the_range_of_each_curve_and_the_outcomes() -> None:
    chart = _bandwidth(verdict(4096, 6.0), verdict(8192, 7.0), verdict(16384, None))
    assert chart.description.startswith(
        "All-reduce: bus bandwidth. busbw (GB/s): jax psum 6 to 7; published: v2-8"
    )
    assert chart.description.endswith("; OUT_OF_MEMORY at 16K.")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        (({"host": "a"}, {"host": "b"}), ["jax psum, on a", "jax psum, on b"]),
        (({}, {}), ["jax psum (1)", "jax psum (2)"]),
    ],
)
def test_curves_of_several_sessions_are_labelled_by_the_host_that_differs(
    changes: tuple[Any, Any], names: list[str]
) -> None:
    sessions = [session(verdict(4096, 6.0), **change) for change in changes]
    curves_of_all = [curve for one_session in sessions for curve in curves_of(one_session)]
    assert list(curves.curves_by_name(curves_of_all)) == names
    assert not any(row.get("reference") for row in bandwidth_chart(curves_of_all).rows)


def test_a_chart_refuses_more_than_12_curves_and_a_page_splits_them_into_several_charts() -> None:
    many = [verdict(4096, 6.0, ranks=ranks) for ranks in range(2, 15)]
    with pytest.raises(ValueError, match="13 curves, expected at most 12"):
        _bandwidth(*many)
    with pytest.raises(ValueError, match="no bandwidth of a collective by itself"):
        _bandwidth(verdict(4096, None))
    charts = curves.session_charts(session(*many))["Bandwidth and ratios"]
    assert [len({row["series"] for row in drawn.rows}) for drawn in charts] == [4, 4, 4, 4, 2]


def test_charts_of_a_history_show_levels_and_changes_and_gaps() -> None:
    machine = made.changed()
    chart = case_history_chart(machine, machine.cases[0])
    words = [row["remark"] for row in chart.rows]
    assert words[8] == "+50 % since 2026-01-09: jax 0.10.0 -> 0.10.1"
    assert words[5] == "OUT_OF_MEMORY" and chart.rows[5]["y"] is None
    levels = [row["reference"] for row in chart.rows]
    assert levels[7] == pytest.approx(10.01, rel=2e-3) and levels[8] == pytest.approx(15, rel=2e-3)
    before, lost, same, slower = heat_map(machine).rows
    assert (lost["bin"], lost["y"]) == ("OUT_OF_MEMORY", None)
    assert before["x"].startswith("2026-01-01") and before["x2"] == lost["x"]
    assert same["bin"] == "below 0.80" and slower["bin"] == "0.97 to 1.03"
    assert slower["x2"].startswith("2026-01-17")


def test_each_color_of_a_chart_has_a_color_of_the_dark_theme() -> None:
    charts = [heat_map(made.changed()), _bandwidth(verdict(4096, 6.0, **made.SLOW))]
    pictures = "".join(draw_svg(chart, has_style_sheet=False) for chart in charts)
    colors = set(re.findall(r'(?:fill|stroke)="(#\w{6})"', pictures))
    dark_colors = set(re.findall(r'"(#\w{6})"', read_resource("charts.css")))
    assert {"#0b3f78", "#1f2328"} <= colors <= dark_colors


def test_a_chart_that_cannot_be_drawn_is_an_error_that_gives_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no such scale")

    monkeypatch.setitem(sys.modules, "vl_convert", SimpleNamespace(vegalite_to_svg=fail))
    with pytest.raises(DrawingError, match="this figure cannot be drawn: no such scale"):
        draw_svg(_bandwidth(verdict(4096, 6.0)))
