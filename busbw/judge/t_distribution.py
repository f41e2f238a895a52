"""Student's t: how far a mean of few launches may lie from the truth. Numbers in, numbers out."""

from __future__ import annotations

import math


def tail(value: float, freedom: float) -> float:
    """P(T > `value`) for Student's t with `freedom` degrees, which need not be whole.

    By the regularised incomplete beta function: P(T > t) = I_x(f/2, 1/2) / 2, x = f / (f + t^2).
    """
    if value < 0:
        return 1 - tail(-value, freedom)
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


def quantile(level: float, freedom: float) -> float:
    """The t that is exceeded with probability `level` (0 < level < 1), to a millionth."""
    if level > 0.5:
        return -quantile(1 - level, freedom)
    low, high = 0.0, 1.0
    while tail(high, freedom) > level:
        low, high = high, 2 * high
    while high - low > 1e-6 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > level else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), by its continued fraction (NIST Digital Library, 8.17.22) and symmetry."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(x) + b * math.log1p(-x)) / a
    return front / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float, terms: int = 300) -> float:
    """1 + d1/(1 + d2/(1 + ...)), from its far end."""
    value = 1.0
    for place in range(terms, 0, -1):
        half = place // 2
        if place % 2:
            d = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            d = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        value = 1 + d / value
    return value
