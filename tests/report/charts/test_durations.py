"""Training steps and strategies as charts."""

from __future__ import annotations

from dataclasses import replace

from busbw.report.charts.curves import steps, strategies
from tests import build
from tests.report.written import session, verdict


def test_a_step_has_a_curve_over_the_gradient_in_milliseconds() -> None:
    timed = [
        replace(verdict(size, 6.0, step="dense"), now=build.summary(median_s=time_s))
        for size, time_s in ((4096, 1e-3), (8192, 2e-3))
    ]
    chart = steps(session(*timed, verdict(4096, 6.0)))
    assert chart is not None
    (series,) = chart.series
    assert series.points == ((4096, 1.0), (8192, 2.0))
    assert "1 ms to 2 ms" in chart.description


def test_each_launch_of_a_strategy_is_a_dot() -> None:
    timed = [
        replace(
            verdict(143656, 6.0, step="cnn", framework="tensorflow", strategy=name, ranks=ranks),
            now=build.summary(times_s=(1e-3, 3e-3)),
        )
        for name, ranks in (("one_device", 1), ("mirrored", 4))
    ]
    chart = strategies(session(*timed))
    assert chart is not None
    (series,) = chart.series
    assert series.points == (
        ("one_device", 1.0),
        ("one_device", 3.0),
        ("mirrored", 1.0),
        ("mirrored", 3.0),
    )
    assert steps(session(*timed)) is None


def test_a_session_without_training_has_neither() -> None:
    found = session(verdict(4096, 6.0))
    assert steps(found) is None and strategies(found) is None


def test_one_that_gave_no_time_has_no_point() -> None:
    assert steps(session(verdict(4096, None, step="dense"))) is None
