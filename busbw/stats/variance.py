"""Variances, each with the degrees of freedom that it is known with, and how they moderate another.

Numbers in, numbers out.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Variance:
    """A variance with the degrees of freedom that it is known with; infinite: exactly."""

    value: float
    freedom: float


def squares_of(values: Sequence[float]) -> float:
    """The sum of squares of at least one value about their mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def variance_of(values: Sequence[float]) -> Variance:
    freedom = len(values) - 1
    return Variance(value=squares_of(values) / freedom, freedom=freedom)


def successive_variance(values: Sequence[float]) -> Variance:
    """The variance by half the mean square of successive differences, of at least two values.

    A slow drift hardly adds to it (J. von Neumann, "Distribution of the ratio of the mean square
    successive difference to the variance", 1941), and a step nothing: of four differences or more
    the largest is left out, with its expectation. Of n differences it is as certain as a sample
    variance with 2/3 n degrees of freedom.
    """
    squares = [(after - before) ** 2 for before, after in itertools.pairwise(values)]
    count = float(len(squares))
    if count >= _LEAST_TRIMMED:
        squares.remove(max(squares))
        count -= _expected_largest(len(squares) + 1)
    return Variance(value=math.fsum(squares) / (2 * count), freedom=2 * len(squares) / 3)


# Fewer differences have none to spare.
_LEAST_TRIMMED = 4


@functools.lru_cache(maxsize=1024)
def _expected_largest(count: int) -> float:
    """The mean of the largest of `count` squares of standard normal values.

    The integral of P(largest > x^2) over x^2, by the midpoint rule over x.
    """
    steps, width = 2000, 8.0 / 2000
    middles = ((step + 0.5) * width for step in range(steps))
    return math.fsum(2 * x * width * (1 - math.erf(x / math.sqrt(2)) ** count) for x in middles)


def prior_variance(variances: Sequence[Variance]) -> Variance:
    """What the variances of at least two alike things say of a further one.

    The scaled inverse chi-squared distribution that their true values come from, estimated from
    the mean and the variance of log s^2 (G. K. Smyth, "Linear models and empirical Bayes methods
    for assessing differential expression", 2004, section 6.2): its location, and its weight as
    degrees of freedom, infinite where they differ by no more than chance explains. Each must be
    above 0.
    """
    centred = [
        math.log(one.value) - digamma(one.freedom / 2) + math.log(one.freedom / 2)
        for one in variances
    ]
    mean = math.fsum(centred) / len(centred)
    between = math.fsum((value - mean) ** 2 for value in centred) / (len(centred) - 1)
    within = math.fsum(trigamma(one.freedom / 2) for one in variances) / len(variances)
    if between <= within:
        return Variance(value=math.exp(mean), freedom=math.inf)
    half = _where(trigamma, between - within, error=1e-9)
    return Variance(value=math.exp(mean + digamma(half) - math.log(half)), freedom=2 * half)


def moderated(own: Variance, prior: Variance) -> Variance:
    """`own`, drawn to the `prior` by as much as that weighs: the mean by degrees of freedom."""
    if math.isinf(prior.freedom):
        return prior
    freedom = own.freedom + prior.freedom
    value = (own.freedom * own.value + prior.freedom * prior.value) / freedom
    return Variance(value=value, freedom=freedom)


# Above this the asymptotic series are exact to 1e-10.
_ASYMPTOTIC = 8.0


def digamma(x: float) -> float:
    """The derivative of log Gamma at x > 0, by recurrence and asymptotic series (DLMF 5.11.2)."""
    value = 0.0
    while x < _ASYMPTOTIC:
        value -= 1 / x
        x += 1
    square = 1 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return value + math.log(x) - 1 / (2 * x) - series


def trigamma(x: float) -> float:
    """The second derivative of log Gamma at x > 0, in the same way."""
    value = 0.0
    while x < _ASYMPTOTIC:
        value += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    series = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30))
    return value + 1 / x + square / 2 + square / x * series


def _where(
    falling: Callable[[float], float], value: float, *, error: float, least: float = 0.0
) -> float:
    """The x > 0 where `falling` is `value`, by bisection, to `error` times x or `least`."""
    low, high = 0.0, 1.0
    while falling(high) > value:
        low, high = high, 2 * high
    while high - low > error * max(least, high):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > value else (low, middle)
    return high


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
    return _where(lambda value: t_tail(value, freedom), level, error=1e-6, least=1.0)


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
