"""How an error rate is spent over the looks of a sequential test.

The spending function says how much may be spent by each look; the recursion says which level each
look has then, since what crosses at one look has often crossed at an earlier one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from busbw.stats.variance import t_quantile

# Of the integration by Simpson's rule: intervals, and standard deviations below to begin at.
_INTERVALS = 128
_LOWEST = -7.0


def spent(fraction: float, shape: float) -> float:
    """The share of an error rate that is spent by `fraction` (0 to 1) of the observations.

    (1 - e^(-shape t)) / (1 - e^-shape), of I. K. Hwang, W. J. Shih and J. S. DeCani, "Group
    sequential designs using a family of type I error probability spending functions", 1990: early
    for a shape above 0 (1 is close to Pocock's test), in proportion for 0, late for one below.
    """
    if shape == 0:
        return fraction
    return math.expm1(-shape * fraction) / math.expm1(-shape)


@functools.lru_cache(maxsize=256)
def look_levels(counts: tuple[int, ...], rate: float, shape: float) -> tuple[float, ...]:
    """The one-sided level of the look after each of `counts` observations, in ascending order.

    All looks together then err with probability `rate` (K. K. G. Lan and D. L. DeMets, "Discrete
    sequential boundaries for clinical trials", 1983): at each look the probability to cross its
    bound for the first time is what the spending function gives since the look before. The
    distribution of the sum of those that crossed none is integrated from look to look (P. Armitage,
    C. K. McPherson and B. C. Rowe, "Repeated significance tests on accumulating data", 1969) for
    normal observations of a known variance. Where the variance is estimated, the same levels are
    applied to Student's t (C. Jennison and B. W. Turnbull, "Group Sequential Methods with
    Applications to Clinical Trials", 2000, section 4.4), which is close, not exact.
    """
    by_look = [rate * spent(count / counts[-1], shape) for count in counts]
    found = [by_look[0]]
    sums, weights = _first(counts[0], t_quantile(found[0], math.inf))
    for before, count, least, most in zip(counts, counts[1:], by_look, by_look[1:]):
        added = math.sqrt(count - before)
        bound = _bound(sums, weights, added, most - least, math.sqrt(count))
        found.append(_tail(bound))
        sums, weights = _next(sums, weights, added, bound, math.sqrt(count))
    return tuple(found)


def _first(count: int, bound: float) -> tuple[list[float], list[float]]:
    """Sums below the bound of the first look, and their probabilities."""
    sums, widths = _grid(bound, math.sqrt(count))
    return sums, [
        width * _density(value / math.sqrt(count)) / math.sqrt(count)
        for value, width in zip(sums, widths)
    ]


def _next(
    sums: Sequence[float], weights: Sequence[float], added: float, bound: float, deviation: float
) -> tuple[list[float], list[float]]:
    """The same at the next look, with observations of deviation `added` more."""
    further, widths = _grid(bound, deviation)
    return further, [
        width
        * math.fsum(
            weight * _density((value - before) / added) for before, weight in zip(sums, weights)
        )
        / added
        for value, width in zip(further, widths)
    ]


def _bound(
    sums: Sequence[float],
    weights: Sequence[float],
    added: float,
    wanted: float,
    deviation: float,
) -> float:
    """The bound, in standard deviations, that is crossed with probability `wanted`."""
    low, high = _LOWEST, 40.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        crossing = math.fsum(
            weight * _tail((middle * deviation - before) / added)
            for before, weight in zip(sums, weights)
        )
        low, high = (middle, high) if crossing > wanted else (low, middle)
    return high


def _grid(bound: float, deviation: float) -> tuple[list[float], list[float]]:
    """Simpson's abscissas and weights from the lowest to `bound` standard deviations."""
    step = (bound - _LOWEST) * deviation / _INTERVALS
    values = [_LOWEST * deviation + step * index for index in range(_INTERVALS + 1)]
    inner = [4.0, 2.0] * (_INTERVALS // 2)
    return values, [step / 3 * weight for weight in (1.0, *inner[:-1], 1.0)]


def _density(value: float) -> float:
    return math.exp(-value * value / 2) / math.sqrt(2 * math.pi)


def _tail(value: float) -> float:
    return math.erfc(value / math.sqrt(2)) / 2
