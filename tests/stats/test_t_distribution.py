"""Student's t-distribution, against SciPy's figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.stats.variance import t_quantile, t_tail

# scipy.stats.t.isf(level, freedom), scipy 1.17
QUANTILES = [
    (1, 0.25, 1.0),
    (1, 0.0002, 1591.54922),
    (2, 0.05, 2.91998558),
    (3.5, 0.005, 5.08570222),
    (5, 0.25, 0.726686844),
    (5, 0.0002, 8.36341799),
    (8, 0.05, 1.85954804),
    (30, 0.005, 2.74999565),
    (1000, 0.0002, 3.55209662),
]
# scipy.stats.t.sf(value, freedom)
TAILS = [
    (0.5, 1, 0.35241638234956674),
    (2.0, 2, 0.09175170953613698),
    (3.0, 5, 0.015049623948731293),
    (1.5, 4.5, 0.10010954282807676),
    (6, 8, 0.00016169661094257446),
    (0.1, 30, 0.4605048058951356),
    (-1.0, 3, 0.8044988905221148),
]


@pytest.mark.parametrize(("freedom", "level", "value"), QUANTILES)
def test_quantiles_are_those_of_scipy(freedom: float, level: float, value: float) -> None:
    assert t_quantile(level, freedom) == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize(("value", "freedom", "level"), TAILS)
def test_tails_are_those_of_scipy(value: float, freedom: float, level: float) -> None:
    assert t_tail(value, freedom) == pytest.approx(level, rel=1e-9)


@pytest.mark.parametrize("freedom", [1, 2.5, 7, 100])
def test_half_lies_above_nothing_and_the_halves_mirror_each_other(freedom: float) -> None:
    assert t_tail(0.0, freedom) == pytest.approx(0.5)
    assert t_quantile(0.5, freedom) == pytest.approx(0.0, abs=2e-6)
    assert t_quantile(0.9, freedom) == -t_quantile(0.1, freedom)


@settings(deadline=None)
@given(st.floats(min_value=1e-5, max_value=0.5), st.floats(min_value=1, max_value=200))
def test_a_quantile_is_what_its_tail_says(level: float, freedom: float) -> None:
    assert t_tail(t_quantile(level, freedom), freedom) == pytest.approx(level, rel=1e-4)


@settings(deadline=None)
@given(st.floats(min_value=0, max_value=50), st.floats(min_value=0.01, max_value=10))
def test_further_out_lies_less(value: float, further: float) -> None:
    assert t_tail(value + further, 4) < t_tail(value, 4)


# scipy.stats.norm.isf(level)
@pytest.mark.parametrize(
    ("level", "value"), [(0.025, 1.959964), (2.9e-7, 4.997760), (1e-9, 5.997807)]
)
def test_with_infinite_freedom_it_is_the_normal_distribution(level: float, value: float) -> None:
    assert t_quantile(level, math.inf) == pytest.approx(value, abs=1e-5)
    assert t_quantile(level, 1e7) == pytest.approx(value, abs=1e-4)
