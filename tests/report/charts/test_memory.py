"""The memory of compiled programs as a chart."""

from __future__ import annotations

import pytest

from busbw.model.words import Outcome
from busbw.report.charts.curves import memory
from tests.report.programs import compiled_session, program


def test_a_point_is_the_peak_in_payloads_and_what_does_not_fit_is_marked() -> None:
    chart = memory(
        compiled_session(program(4096, 8192), program(8192, 12288), program(16384, None))
    )
    assert chart is not None
    (series,) = chart.series
    assert (series.name, series.points) == ("v5e:2x4", ((4096, 2.0), (8192, 1.5)))
    (mark,) = chart.marks
    assert (mark.label, mark.x, mark.series) == ("OUT_OF_MEMORY", 16384, "v5e:2x4")
    assert "OUT_OF_MEMORY at 16K" in chart.description


def test_releases_and_kinds_are_named_where_there_are_several() -> None:
    one = program(4096, 8192)
    other = program(4096, 4096, release="libtpu 0.0.43")
    chart = memory(compiled_session(one, other))
    assert chart is not None
    assert [series.name for series in chart.series] == [
        "v5e:2x4, libtpu 0.0.42",
        "v5e:2x4, libtpu 0.0.43",
    ]


def test_of_more_than_fit_those_that_changed_are_shown() -> None:
    usual = [program(4096, 8192, topology=f"v5e:{n}x4") for n in range(1, 15)]
    changed = program(4096, 8192, topology="v6e:2x4", outcome=Outcome.CHANGED)
    chart = memory(compiled_session(*usual, changed))
    assert chart is not None
    assert len(chart.series) == 12 and chart.series[0].name == "v6e:2x4"
    assert "3 others are in the tables only" in chart.subtitle


@pytest.mark.parametrize("verdicts", [(), (program(4096, None),)])
def test_without_a_program_there_is_no_chart(verdicts: tuple[object, ...]) -> None:
    assert memory(compiled_session(*verdicts)) is None  # type: ignore[arg-type]
