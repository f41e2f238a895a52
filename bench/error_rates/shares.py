"""Texts of fractions with their 95 % intervals, and rows of Markdown tables."""

from __future__ import annotations

from typing import Literal


def interval(hit_count: int, total: int, method: Literal["exact", "wilson"]) -> tuple[float, float]:
    """Return the ends of the 95 % interval of the fraction `hit_count` / `total`.

    The method is "exact" (Clopper and Pearson) or "wilson", which is fast for many answers.
    """
    # Imported here, because the import takes a second and other benchmarks do not need it.
    from scipy.stats import binomtest

    bounds = binomtest(hit_count, total).proportion_ci(confidence_level=0.95, method=method)
    return float(bounds.low), float(bounds.high)


def percent(share: float) -> str:
    """Return a fraction as a text in percent, with decimals only near 0 % and 100 %."""
    # A bound of 0 may be slightly above 0 because of rounding.
    value = 100 * share if share > 1e-12 else 0.0
    if 0 < value < 1:
        return f"{value:.1g} %"
    decimals = 1 if 1 <= value < 10 or 90 < value < 100 else 0
    return f"{value:.{decimals}f}".replace(".0", "") + " %"


def row(*cells: str) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"
