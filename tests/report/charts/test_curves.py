"""What charts of bandwidths share: titles, and curves in words."""

from __future__ import annotations

import pytest

from busbw.report.chart import Mark, Series
from busbw.report.charts.curves import collectives_text, sentence


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["all_reduce", "all_reduce"], "All-reduce"),
        (["all_reduce", "all_gather"], "Collectives"),
    ],
)
def test_a_title_names_one_collective_or_says_that_there_are_several(
    names: list[str], title: str
) -> None:
    assert collectives_text(names) == title


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((), "s: no figure."),
        (((1024, 2.0),), "s: 2 GB/s at 1K."),
        (((1024, 2.0), (2048, 3.0)), "s: 2 GB/s at 1K to 3 GB/s at 2K."),
        (
            ((1024, 2.0), (2048, 9.0), (4096, 3.0)),
            "s: 2 GB/s at 1K to 3 GB/s at 4K, at most 9 GB/s at 2K.",
        ),
    ],
)
def test_a_curve_is_said_by_its_ends_and_its_best(
    points: tuple[tuple[int, float], ...], said: str
) -> None:
    assert sentence(Series(name="s", points=points), ()) == said


def test_marks_of_a_curve_are_said_and_those_of_others_are_not() -> None:
    marks = [Mark(label="OUT_OF_MEMORY", x=x, series="s") for x in (2048, 4096)]
    marks.append(Mark(label="REGRESSED", x=1024, y=1.0, series="other"))
    text = sentence(Series(name="s", points=((1024, 2.0),)), marks)
    assert text == "s: 2 GB/s at 1K; OUT_OF_MEMORY at 2K, 4K."
