"""The figures of a verdict: its numbers, such as its time, its busbw or its ratio.

Each figure is declared once, with its name, its unit, its computation, and its format in tables.
Tables, results with their schema, CSV, metrics, JUnit XML and pages use these declarations. So a
new figure appears in all of them.
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

from .table import Column, Table, make_rows, percent_text


@dataclass(frozen=True, slots=True)
class Figure(Column):
    """A number of a verdict, such as its busbw: a column of tables, and a value in documents.

    Documents are files of results, CSV, JUnit XML and metrics. Results, CSV and JUnit XML name the
    figure by `id`, and metrics by `metric`.

    Attributes:
        compute: Returns the number from a verdict, or None if the verdict has no such number.
        is_verbose: Whether tables contain the figure only with -v.
        in_documents: Whether documents contain the figure.
        metric: The name of the figure in metrics, in which a unit is spelled out; if empty, the id.

    """

    _: KW_ONLY
    compute: Callable[[Verdict], Any]
    is_verbose: bool = False
    in_documents: bool = True
    metric: str = ""


def figure_values_for_documents(verdict: Verdict) -> dict[str, Any]:
    """Return the values of a verdict's figures that documents contain, by the id of the figure.

    A value is None if the verdict has no such number.
    """
    figures = figures_of(verdict)
    return {figure.id: figure.compute(verdict) for figure in figures if figure.in_documents}


def figures_of(verdict: Verdict) -> tuple[Figure, ...]:
    """Return the figures of a verdict: TIMED_FIGURES, unless an extension replaces or adds figures.

    An extension has tables that map the name of an extra value to figures. If such a name is in the
    verdict's `extra`, the figures of its table FIGURES replace TIMED_FIGURES, and the figures of
    its table COLUMNS are added at the end.
    """
    replaced, added = extensions.load_table("FIGURES"), extensions.load_table("COLUMNS")
    figures = next((replaced[name] for name in verdict.extra if name in replaced), TIMED_FIGURES)
    columns = (figure for name in verdict.extra for figure in added.get(name, ()))
    return (*figures, *columns)


def _microseconds_text(seconds: float) -> str:
    """Return `seconds` in microseconds, with a single decimal."""
    return f"{seconds * 1e6:.1f}"


def _gb_per_s_text(gb_per_s: float) -> str:
    """Return a bandwidth with three decimals or, below 0.01 GB/s, two significant digits."""
    return f"{gb_per_s:.3f}" if gb_per_s >= 0.01 else f"{gb_per_s:.2g}"


def _ceiling_percent_text(fraction: float) -> str:
    """Return `fraction` as whole per cent or, below 10 %, per cent with two significant digits."""
    return percent_text(fraction) if fraction >= 0.1 else f"{100 * fraction:.2g}"


def _launch_range_text(differences: tuple[float, float]) -> str:
    """Return the range of launches in whole per cent of the median: (-0.01, 0.12) is ``-1+12``.

    `differences` are the relative differences of the fastest and of the slowest launch to the
    median.
    """
    fastest, slowest = differences
    return f"-{abs(100 * fastest):.0f}+{100 * slowest:.0f}"


def _launch_range(verdict: Verdict) -> tuple[float, float] | None:
    """Return the relative differences of the fastest and of the slowest launch to the median.

    For example (-0.01, 0.12). Returns None if the verdict has no times.
    """
    times = verdict.now
    if times is None:
        return None
    return times.best_s / times.median_s - 1, times.worst_s / times.median_s - 1


def declare_figure_of_field(
    find_part: Callable[[Verdict], object], id: str, heading: str = "", **options: Any
) -> Figure:
    """Return a figure whose value is the field `id` of a verdict, or of a part of the verdict.

    Args:
        find_part: A function that returns the part of a verdict, or the verdict itself. If the part
            is None, the value of the figure is None.
        id: The name of the field, and of the figure.
        heading: The heading of the column; empty for a figure that tables do not show.
        options: Other fields of the Figure.

    """
    compute = lambda verdict: getattr(find_part(verdict), id, None)  # noqa: E731
    return Figure(id, heading, compute=compute, **options)


_verdict_figure = partial(declare_figure_of_field, lambda verdict: verdict)
_summary_figure = partial(declare_figure_of_field, operator.attrgetter("now"))

# How tables show the figures of each unit.
_MICROSECONDS: dict[str, Any] = {
    "unit": "us",
    "text": _microseconds_text,
    "is_fitted_to_cells": True,
}
_GB_PER_S: dict[str, Any] = {
    "unit": "GB/s",
    "text": _gb_per_s_text,
    "width": 7,
    "is_fitted_to_cells": True,
}
_RATIO: dict[str, Any] = {"width": 5, "is_fitted_to_cells": True}

TIMED_FIGURES = (
    _summary_figure("median_s", "time", **_MICROSECONDS, width=7, metric="time_seconds"),
    _summary_figure("best_s", "best", **_MICROSECONDS, width=7, is_verbose=True),
    _summary_figure("worst_s"),
    _summary_figure("spread"),
    _summary_figure("algbw_gb_per_s", "algbw", **_GB_PER_S),
    _summary_figure("busbw_gb_per_s", "busbw", **_GB_PER_S),
    _verdict_figure("ceiling_share", "ceil", unit="%", text=_ceiling_percent_text, width=4),
    Figure(
        "range",
        "range",
        unit="%",
        text=_launch_range_text,
        width=6,
        is_fitted_to_cells=True,
        compute=_launch_range,
        in_documents=False,
    ),
    _summary_figure("dispatch_s", "per call", **_MICROSECONDS, width=8, is_verbose=True),
    Figure(
        "baseline_median_s",
        "baseline",
        **_MICROSECONDS,
        width=8,
        compute=lambda verdict: verdict.baseline.median_s if verdict.baseline else None,
    ),
    _verdict_figure("ratio", "ratio", text="{:.2f}".format, **_RATIO),
    _verdict_figure("limit", "limit", text=ratio_text, **_RATIO),
)


# The labels that describe the case of a CSV row or of a metric. Both also have the case's id.
CASE_LABELS: Mapping[str, Callable[[Verdict], object]] = {
    "framework": lambda verdict: verdict.spec.framework,
    "collective": lambda verdict: verdict.spec.collective,
    "strategy": lambda verdict: verdict.case.strategy if verdict.case else verdict.spec.strategy,
    "dtype": lambda verdict: verdict.spec.dtype,
    "payload_bytes": lambda verdict: verdict.spec.payload_bytes,
    "ranks": lambda verdict: verdict.case.ranks if verdict.case else verdict.spec.ranks,
}


def figures_table(verdicts: Sequence[Verdict]) -> Table:
    """Return the table that the CSV document contains, with a row for each verdict.

    The columns are the id of the case, its labels (CASE_LABELS), the unrounded values of the
    figures, and the outcome.
    """
    figures = dict.fromkeys(
        name for verdict in verdicts for name in figure_values_for_documents(verdict)
    )
    names = ("case", *CASE_LABELS, *figures, "outcome")
    rows = (
        {
            **dict.fromkeys(names),
            "case": verdict.spec.id,
            **{name: label(verdict) for name, label in CASE_LABELS.items()},
            **figure_values_for_documents(verdict),
            "outcome": verdict.outcome.value,
        }
        for verdict in verdicts
    )
    return Table(columns=tuple(map(Column, names)), rows=make_rows(rows))
