"""How shares, slowdowns and rows are written on the page. Text only; computes nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from busbw.model import payload_text

from .corpus import Injection

WIDTH = 98


def percent(share: float) -> str:
    """A share as per cent; decimals only near the ends, where they matter."""
    # A bound that is 0 may come as a rounding error.
    value = 100 * share if share > 1e-12 else 0.0
    if 0 < value < 1:
        return f"{value:.1g} %"
    decimals = 1 if 1 <= value < 10 or 90 < value < 100 else 0
    return f"{value:.{decimals}f}".replace(".0", "") + " %"


def change(ratio: float) -> str:
    """A ratio of times as a signed change in per cent."""
    return f"{100 * (ratio - 1):+.1f} %"


def injection_text(injection: Injection) -> str:
    """The slowdown that was asked for, and where if not at every payload."""
    asked = f"+{100 * injection.share:.3g} %"
    if injection.payload_bytes is not None:
        asked += f" at {payload_text(injection.payload_bytes)}"
    return f"{asked} ({injection.kind})"


def row(*cells: str) -> str:
    """One row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def paragraph(text: str) -> Iterator[str]:
    """The lines of a paragraph."""
    yield from textwrap.wrap(text, WIDTH)


def item(text: str) -> Iterator[str]:
    """The lines of a list's item."""
    yield from textwrap.wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ")
