"""The figures of a verdict, each declared once: its name, how it is computed and shown, and where.

Tables, results with their schema, CSV, metrics, JUnit and pages walk these declarations: a figure
that is added here is in all of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from busbw import extensions
from busbw.model.verdict import Verdict
from busbw.model.words import ratio_text

from .table import Column, Table, percent_text, rows_of


@dataclass(frozen=True, slots=True)
class Figure(Column):
    """A column of tables, and a number of documents; `compute` returns it, None for no value.

    `id` is its name in documents. Metrics have the same name with whole units, unless `metric` has
    another name. A figure that is not `in_documents` is in tables alone. A figure without a heading
    is in no table, and a figure that `is_verbose` only with -v.
    """

    _: KW_ONLY
    compute: Callable[[Verdict], Any]
    is_verbose: bool = False
    in_documents: bool = True
    metric: str = ""


def figure_values(verdict: Verdict) -> dict[str, Any]:
    """Return the value of each figure of a verdict by the figure's id."""
    return {figure.id: figure.compute(verdict) for figure in figures_of(verdict)}


def document_figures(verdict: Verdict) -> dict[Figure, Any]:
    """Return the values of the figures that documents have."""
    figures = figures_of(verdict)
    return {figure: figure.compute(verdict) for figure in figures if figure.in_documents}


def figures_of(verdict: Verdict) -> tuple[Figure, ...]:
    """Return the figures of times, and the figures of the extra values of a verdict.

    An extension declares them by the name of the extra value: in its table FIGURES they replace
    the figures of times, in its table COLUMNS they follow.
    """
    replaced, added = extensions.load_table("FIGURES"), extensions.load_table("COLUMNS")
    figures = next((replaced[name] for name in verdict.extra if name in replaced), TIMED_FIGURES)
    columns = (figure for name in verdict.extra for figure in added.get(name, ()))
    return (*figures, *columns)


def _us_text(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def _rate_text(gb_per_s: float) -> str:
    """Return three decimals, or two significant digits of a slower rate."""
    return f"{gb_per_s:.3f}" if gb_per_s >= 0.01 else f"{gb_per_s:.2g}"


def _share_text(share: float) -> str:
    """Return the share of the ceiling in per cent, with two significant digits below ten."""
    return percent_text(share) if share >= 0.1 else f"{100 * share:.2g}"


def _range_text(shares: tuple[float, float]) -> str:
    """Return how far the fastest and the slowest launch are from the time, such as ``-1+12``."""
    fastest, slowest = shares
    return f"-{abs(100 * fastest):.0f}+{100 * slowest:.0f}"


def _range(verdict: Verdict) -> tuple[float, float] | None:
    times = verdict.now
    if times is None:
        return None
    return times.best_s / times.median_s - 1, times.worst_s / times.median_s - 1


def _declare_field(
    part: Callable[[Verdict], object], id: str, heading: str = "", **options: Any
) -> Figure:
    """Declare the figure that is the field `id` of a part of the verdict; None without the part."""
    compute = lambda verdict: getattr(part(verdict), id, None)  # noqa: E731
    return Figure(id, heading, compute=compute, **options)


_verdict = partial(_declare_field, lambda verdict: verdict)
_summary = partial(_declare_field, operator.attrgetter("now"))

_US: dict[str, Any] = {"unit": "us", "text": _us_text, "fits": True}
_RATE: dict[str, Any] = {"unit": "GB/s", "text": _rate_text, "width": 7, "fits": True}
_RATIO: dict[str, Any] = {"width": 5, "fits": True}
_PERCENT: dict[str, Any] = {"unit": "%", "text": _share_text, "width": 4}
_RANGE: dict[str, Any] = {"unit": "%", "text": _range_text, "width": 6, "fits": True}

TIMED_FIGURES = (
    _summary("median_s", "time", **_US, width=7, metric="time_seconds"),
    _summary("best_s", "best", **_US, width=7, is_verbose=True),
    _summary("worst_s"),
    _summary("spread"),
    _summary("algbw_gb_per_s", "algbw", **_RATE),
    _summary("busbw_gb_per_s", "busbw", **_RATE),
    _verdict("ceiling_share", "ceil", **_PERCENT),
    Figure("range", "range", **_RANGE, compute=_range, in_documents=False),
    _summary("dispatch_s", "per call", **_US, width=8, is_verbose=True),
    Figure(
        "baseline_median_s",
        "baseline",
        **_US,
        width=8,
        compute=lambda verdict: verdict.baseline.median_s if verdict.baseline else None,
    ),
    _verdict("ratio", "ratio", text="{:.2f}".format, **_RATIO),
    _verdict("limit", "limit", text=ratio_text, **_RATIO),
)


# The labels of a row or a metric, which say its case in addition to the id.
IDENTITY: Mapping[str, Callable[[Verdict], object]] = {
    "framework": lambda verdict: verdict.spec.framework,
    "collective": lambda verdict: verdict.spec.collective,
    "strategy": lambda verdict: verdict.case.strategy if verdict.case else verdict.spec.strategy,
    "dtype": lambda verdict: verdict.spec.dtype,
    "payload_bytes": lambda verdict: verdict.spec.payload_bytes,
    "ranks": lambda verdict: verdict.case.ranks if verdict.case else verdict.spec.ranks,
}


def is_csv(text: str) -> bool:
    """Return whether `text` begins as the CSV of `figures_table` does."""
    return text.startswith(f"case,{','.join(IDENTITY)},")


def figures_table(verdicts: Sequence[Verdict]) -> Table:
    """Return the figures that documents have as raw values, a row for each case."""
    figures = dict.fromkeys(
        figure.id for verdict in verdicts for figure in document_figures(verdict)
    )
    names = ("case", *IDENTITY, *figures, "outcome")
    rows = (
        {
            **dict.fromkeys(names),
            "case": verdict.spec.id,
            **{name: label(verdict) for name, label in IDENTITY.items()},
            **{figure.id: value for figure, value in document_figures(verdict).items()},
            "outcome": verdict.outcome.value,
        }
        for verdict in verdicts
    )
    return Table(columns=tuple(map(Column, names)), rows=rows_of(rows))
