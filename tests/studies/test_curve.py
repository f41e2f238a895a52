"""A measured curve between its points and beyond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.verdict import Curve
from busbw.studies.curve import MeasuredCurve, OutsideError

LINE = Curve(latency_s=1e-4, bandwidth_bytes_per_s=1e9, rms_log_error=0.0)
POINTS = ((1000, 1e-4), (100_000, 2e-4), (10_000_000, 2e-2))
CURVE = MeasuredCurve(points=POINTS, line=LINE)
BARE = MeasuredCurve(points=POINTS)


def test_at_a_point_it_is_what_was_measured() -> None:
    for size, time_s in POINTS:
        assert BARE.read(size).seconds == time_s
        assert BARE.read(size).how == "measured"


def test_between_two_points_the_logarithm_is_linear() -> None:
    reading = BARE.read(1_000_000)
    assert reading.how == "interpolated"
    # Half way in size from 10^5 to 10^7: half way in time from 2 x 10^-4 to 2 x 10^-2.
    assert reading.seconds == pytest.approx(2e-3)


@pytest.mark.parametrize(("size", "near"), [(10, 0), (10**9, -1)])
def test_outside_it_grows_as_the_line_from_the_nearest_point_and_says_so(
    size: int, near: int
) -> None:
    reading = CURVE.read(size)
    near_size, near_s = POINTS[near]
    assert reading.how == "by latency and bandwidth"
    assert reading.seconds / near_s == pytest.approx(LINE.seconds(size) / LINE.seconds(near_size))


@pytest.mark.parametrize("size", [10, 10**9])
def test_outside_without_a_line_is_an_error_that_names_what_was_measured(size: int) -> None:
    with pytest.raises(OutsideError, match="1000 to 10000000 bytes"):
        BARE.read(size)


@given(st.floats(1.0, 1e12), st.floats(1.0, 100.0))
def test_more_bytes_never_take_less_time(size: float, factor: float) -> None:
    assert CURVE.read(size * factor).seconds >= CURVE.read(size).seconds * (1 - 1e-9)
