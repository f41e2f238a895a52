"""Write shares with their 95 % intervals, and rows of Markdown."""

from __future__ import annotations

from typing import Literal


def interval(hits: int, among: int, method: Literal["exact", "wilson"]) -> tuple[float, float]:
    """Return the bounds of a share: exact (Clopper and Pearson), or Wilson's for many answers."""
    # Here, since the import takes a second, which no other benchmark needs.
    from scipy.stats import binomtest

    bounds = binomtest(hits, among).proportion_ci(confidence_level=0.95, method=method)
    return float(bounds.low), float(bounds.high)


def percent(share: float) -> str:
    """Return a share in percent, with decimals only near the ends, where they matter."""
    # A bound that is 0 may come as a rounding error.
    value = 100 * share if share > 1e-12 else 0.0
    if 0 < value < 1:
        return f"{value:.1g} %"
    decimals = 1 if 1 <= value < 10 or 90 < value < 100 else 0
    return f"{value:.{decimals}f}".replace(".0", "") + " %"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
