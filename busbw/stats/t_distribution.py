"""Student's t-distribution: its tail, and the bound that is exceeded with a given probability."""

from __future__ import annotations

import functools
import math

_TINY = 1e-300
_MOST_TERMS = 10_000


def t_tail(value: float, freedom: float) -> float:
    """P(T > `value`) for Student's t with `freedom` degrees, which need not be whole.

    By the regularised incomplete beta function: P(T > t) = I_x(f/2, 1/2) / 2, x = f / (f + t^2).
    With infinitely many degrees it is the normal distribution's.
    """
    if value < 0:
        return 1 - t_tail(-value, freedom)
    if math.isinf(freedom):
        return math.erfc(value / math.sqrt(2)) / 2
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


@functools.lru_cache(maxsize=4096)
def t_quantile(level: float, freedom: float) -> float:
    """The t that is exceeded with probability `level` (0 < level < 1), to a millionth."""
    if level > 0.5:
        return -t_quantile(1 - level, freedom)
    low, high = 0.0, 1.0
    while t_tail(high, freedom) > level:
        low, high = high, 2 * high
    while high - low > 1e-6 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > level else (low, middle)
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


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), by Lentz's method as Thompson and Barnett modified it."""
    value, upper, lower, term = 1.0, 1.0, 0.0, 0
    while True:
        term += 1
        half = term // 2
        if term % 2:
            d = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            d = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        lower = 1 / ((1 + d * lower) or _TINY)
        upper = (1 + d / upper) or _TINY
        value *= upper * lower
        if abs(upper * lower - 1) < 1e-15 or term == _MOST_TERMS:
            return value
