"""What fits where: ticks, ranges, wrapped texts and labels."""

from __future__ import annotations

import pytest

from busbw.report.drawing.layout import (
    Range,
    Size,
    cut,
    legend_columns,
    plain,
    text_px,
    ticks,
    unlike,
    wrapped,
)

from ..charted import BUSBW, PAYLOAD

WHOLE = Range(low=900.0, high=2.0**30 * 1.4, is_log=True)


@pytest.mark.parametrize(("length", "powers"), [(330, range(10, 31, 4)), (940, range(10, 31, 2))])
def test_payloads_have_ticks_at_powers_of_two_as_many_as_fit(length: int, powers: range) -> None:
    assert ticks(PAYLOAD, WHOLE, length) == [2.0**power for power in powers]


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (1.5, 6.3, [2.0, 3.0, 4.0, 5.0, 6.0]),
        (1.01, 1.09, [1.02, 1.04, 1.06, 1.08]),
        (21.0, 24.0, [21.0, 21.5, 22.0, 22.5, 23.0, 23.5, 24.0]),
        (9.0, 9.5, [9.0, 9.1, 9.2, 9.3, 9.4, 9.5]),
    ],
)
def test_rates_that_are_close_have_ticks_too(low: float, high: float, values: list[float]) -> None:
    assert ticks(BUSBW, Range(low=low, high=high, is_log=True), 300) == pytest.approx(values)


def test_rates_have_ticks_at_powers_of_ten_and_between_them_where_there_is_room() -> None:
    found = Range(low=0.8, high=12.0, is_log=True)
    assert ticks(BUSBW, found, 400) == [1.0, 2.0, 5.0, 10.0]
    assert ticks(BUSBW, Range(low=0.01, high=300.0, is_log=True), 200) == pytest.approx(
        [0.01, 0.1, 1.0, 10.0, 100.0]
    )


def test_a_range_has_a_margin_and_a_place_for_each_value() -> None:
    found = Range.of(BUSBW, [1.0, 16.0], before=0.25, after=0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 64.0))
    assert found.at(found.share(3.0)) == pytest.approx(3.0)
    assert (found.share(0.5), found.share(64.0)) == pytest.approx((0.0, 1.0))


def test_text_is_one_line_of_what_xml_may_hold() -> None:
    assert plain("a\n\tb\x00\x1b[31m\u202ec\ud800\ufffe") == "a b [31m c"
    assert plain("x" * 1000) == "x" * 197 + "..."


def test_lines_are_no_wider_than_the_picture_and_no_more_than_allowed() -> None:
    lines = wrapped("word " * 100, 400, font=12, most=3)
    assert len(lines) == 3 and lines[-1].endswith("...")
    assert max(map(len, lines)) * 12 * 0.5 < 400
    assert wrapped("y" * 500, 400, font=12, most=2)[0] == "y" * 62


def test_a_text_that_is_cut_is_as_long_as_there_is_room_and_says_so() -> None:
    whole = "libtpu 0.0.34 -> 0.0.35"
    assert cut(whole, 200, font=11) == whole
    short = cut(whole, 100, font=11)
    assert short.startswith("libtpu 0.0") and short.endswith("...") and text_px(short, 11) <= 100
    assert len(cut(whole, 1, font=11)) <= 4


def test_names_that_are_cut_stay_different() -> None:
    shown = unlike(["n" * 100 + "1", "n" * 100 + "2", "", "\x00"])
    assert len(set(shown.values())) == 4
    assert max(map(len, shown.values())) <= 84


def test_a_legend_has_as_many_columns_as_fit() -> None:
    assert legend_columns(["a" * 10] * 9, 400, font=11) == 4
    assert legend_columns(["a" * 200], 400, font=11) == 1


def test_the_height_follows_from_the_width() -> None:
    assert Size(width=400).plot_height == 240
    assert Size(width=1000).plot_height == 520
