"""Ratios of a session as a chart."""

from __future__ import annotations

from busbw.model.words import Outcome
from busbw.report.chart import Scale
from busbw.report.charts.bandwidth import comparison
from tests.report.written import session, verdict


def test_ratios_stand_over_payloads_with_what_they_were_judged_by() -> None:
    chart = comparison(
        session(
            verdict(4096, 6.0, ratio=1.1, ratio_interval=(1.0, 1.2), limit=1.3),
            verdict(8192, 6.0, ratio=0.9, ratio_interval=(0.8, 1.0), limit=1.4),
            verdict(16384, 6.0),
        )
    )
    assert chart is not None
    ratios, limit = chart.series
    assert ratios.points == ((4096, 1.1), (8192, 0.9))
    assert (limit.name, limit.points) == ("jax psum: limit", ((4096, 1.3), (8192, 1.4)))
    assert chart.bands[0].points == ((4096, 1.0, 1.2), (8192, 0.8, 1.0))
    assert "from 0.9 to 1.1" in chart.description


def test_what_was_judged_to_have_changed_is_marked() -> None:
    chart = comparison(
        session(
            verdict(4096, 6.0, ratio=1.5, outcome=Outcome.REGRESSED),
            verdict(8192, 6.0, ratio=0.5, outcome=Outcome.IMPROVED),
            verdict(16384, 6.0, ratio=1.0),
        )
    )
    assert chart is not None
    assert [(one.label, one.x) for one in chart.marks] == [("REGRESSED", 4096), ("IMPROVED", 8192)]


def test_far_ratios_have_a_logarithmic_axis_and_near_ones_a_linear_one() -> None:
    near = comparison(session(verdict(4096, 6.0, ratio=1.1)))
    far = comparison(session(verdict(4096, 6.0, ratio=0.1), verdict(8192, 6.0, ratio=9.0)))
    assert near is not None and far is not None
    assert (near.y.scale, far.y.scale) == (Scale.LINEAR, Scale.LOG10)


def test_many_curves_have_neither_intervals_nor_limits_and_too_many_no_chart() -> None:
    dtypes = ("float32", "int32", "float16", "bfloat16")
    four = [verdict(4096, 6.0, ratio=1.1, ratio_interval=(1.0, 1.2), dtype=name) for name in dtypes]
    chart = comparison(session(*four))
    assert chart is not None
    assert len(chart.series) == 4 and not chart.bands
    many = [verdict(4096, 6.0, ratio=1.1, ranks=ranks) for ranks in range(2, 16)]
    assert comparison(session(*many)) is None


def test_without_a_ratio_there_is_no_chart() -> None:
    assert comparison(session(verdict(4096, 6.0))) is None
