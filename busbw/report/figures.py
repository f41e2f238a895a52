"""The figures of a verdict, each declared once: its name, how it is computed and shown, and where.

Tables, results with their schema, CSV, metrics, JUnit and pages walk these declarations: a figure
that is added here is in all of them. What is not a number of one verdict has no place here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from busbw.model.verdict import Verdict
from busbw.model.words import bytes_text, ratio_text

from .table import Column, Table, percent_text, rows_of


class Shown(enum.Enum):
    """Where a table has a figure: always, where a row has one, with -v, or nowhere."""

    ALWAYS = enum.auto()
    IF_THERE = enum.auto()
    VERBOSE = enum.auto()
    NEVER = enum.auto()


@dataclass(frozen=True, slots=True)
class Figure(Column):
    """A column of tables, and a number of documents; `of` computes it, None where there is none.

    `id` is its name in documents, and with whole units in metrics, unless they have a `metric` of
    their own. One that is not `kept` is in tables alone.
    """

    _: KW_ONLY
    of: Callable[[Verdict], Any]
    shown: Shown = Shown.ALWAYS
    kept: bool = True
    metric: str = ""


def values(verdict: Verdict) -> dict[str, Any]:
    """Every figure that a verdict of its kind has, by name."""
    return {one.id: one.of(verdict) for one in figures_of(verdict)}


def kept(verdict: Verdict) -> dict[Figure, Any]:
    """What documents have of it; None where there is none."""
    return {one: one.of(verdict) for one in figures_of(verdict) if one.kept}


def figures_of(verdict: Verdict) -> tuple[Figure, ...]:
    if verdict.soaked is not None:
        return SOAK_FIGURES
    return PROGRAM_FIGURES if verdict.spec.topology else TIMED_FIGURES


def _us_text(seconds: float) -> str:
    """Microseconds, a tenth of them at least."""
    return f"{seconds * 1e6:.1f}"


def _rate_text(gb_per_s: float) -> str:
    """Three digits after the point; two significant ones of what is slower."""
    return f"{gb_per_s:.3f}" if gb_per_s >= 0.01 else f"{gb_per_s:.2g}"


def _share_text(share: float) -> str:
    """Per cent of the ceiling, two significant digits below ten."""
    return percent_text(share) if share >= 0.1 else f"{100 * share:.2g}"


def _range_text(shares: tuple[float, float]) -> str:
    """How far the least and the greatest launch are from the time: ``-1+12``."""
    least, greatest = shares
    return f"-{abs(100 * least):.0f}+{100 * greatest:.0f}"


def _range(verdict: Verdict) -> tuple[float, float] | None:
    now = verdict.now
    return (now.best_s / now.median_s - 1, now.worst_s / now.median_s - 1) if now else None


def _before(verdict: Verdict) -> float | None:
    return verdict.baseline.median_s if verdict.baseline else None


def _now(name: str) -> Callable[[Verdict], Any]:
    return lambda verdict: getattr(verdict.now, name, None)


def _program(name: str) -> Callable[[Verdict], Any]:
    return lambda verdict: getattr(verdict.program and verdict.program.now, name, None)


# How times, rates and ratios are written.
_US: dict[str, Any] = {"unit": "us", "text": _us_text, "fits": True}
_RATE: dict[str, Any] = {"unit": "GB/s", "text": _rate_text, "width": 7, "fits": True}
_RATIO: dict[str, Any] = {"width": 5, "fits": True, "shown": Shown.IF_THERE}

TIMED_FIGURES = (
    Figure("median_s", "time", **_US, width=7, of=_now("median_s"), metric="time_seconds"),
    Figure("best_s", "best", **_US, width=7, of=_now("best_s"), shown=Shown.VERBOSE),
    Figure("worst_s", of=_now("worst_s"), shown=Shown.NEVER),
    Figure("spread", of=_now("spread"), shown=Shown.NEVER),
    Figure("algbw_gb_per_s", "algbw", **_RATE, of=_now("algbw_gb_per_s"), shown=Shown.IF_THERE),
    Figure("busbw_gb_per_s", "busbw", **_RATE, of=_now("busbw_gb_per_s"), shown=Shown.IF_THERE),
    Figure(
        *("ceiling_share", "ceil"),
        unit="%",
        text=_share_text,
        width=4,
        of=lambda verdict: verdict.ceiling_share,
        shown=Shown.IF_THERE,
    ),
    Figure(
        *("range", "range"), unit="%", text=_range_text, width=6, fits=True, of=_range, kept=False
    ),
    Figure("samples", of=_now("samples"), shown=Shown.NEVER),
    Figure("p99_s", "p99", **_US, width=7, of=_now("p99_s"), shown=Shown.VERBOSE),
    Figure("first_call_s", "first", **_US, width=7, of=_now("first_call_s"), shown=Shown.VERBOSE),
    Figure("dispatch_s", "per call", **_US, width=8, of=_now("dispatch_s"), shown=Shown.VERBOSE),
    Figure("baseline_median_s", "baseline", **_US, width=8, of=_before, shown=Shown.IF_THERE),
    Figure("ratio", "ratio", text="{:.2f}".format, **_RATIO, of=lambda verdict: verdict.ratio),
    Figure("limit", "limit", text=ratio_text, **_RATIO, of=lambda verdict: verdict.limit),
)


def _soaked(name: str) -> Callable[[Verdict], Any]:
    return lambda verdict: getattr(verdict.soaked, name, None)


SOAK_FIGURES = (
    Figure("rounds", "rounds", text="{:,}".format, fits=True, width=9, of=_soaked("rounds")),
    Figure(
        *("compared_bytes", "compared"),
        unit="GB",
        text=lambda count: f"{count / 1e9:.3g}",
        fits=True,
        width=8,
        of=_soaked("compared_bytes"),
    ),
    Figure("soaked_s", "time", unit="s", text="{:.0f}".format, fits=True, of=_soaked("seconds")),
)

_BYTES: dict[str, Any] = {"text": bytes_text, "width": 11}
PROGRAM_FIGURES = (
    Figure("temporary_bytes", "temporary", **_BYTES, of=_program("temporary_bytes")),
    Figure("peak_bytes", "peak", **_BYTES, of=_program("peak_bytes")),
)


# What says which case a row or a metric is of, beside its id.
IDENTITY: Mapping[str, Callable[[Verdict], object]] = {
    "topology": lambda verdict: verdict.spec.topology,
    "framework": lambda verdict: verdict.spec.framework,
    "collective": lambda verdict: verdict.spec.collective,
    "strategy": lambda verdict: verdict.case.strategy if verdict.case else verdict.spec.strategy,
    "dtype": lambda verdict: verdict.spec.dtype,
    "payload_bytes": lambda verdict: verdict.spec.payload_bytes,
    "ranks": lambda verdict: verdict.case.ranks if verdict.case else verdict.spec.ranks,
}


def is_csv(text: str) -> bool:
    return text.startswith(f"case,{','.join(IDENTITY)},")


def figures_table(verdicts: Sequence[Verdict]) -> Table:
    """Every figure of every case as raw values, a row for each case."""
    figures = dict.fromkeys(one.id for verdict in verdicts for one in kept(verdict))
    names = ("case", *IDENTITY, *figures, "outcome")
    rows = (
        {
            **dict.fromkeys(names),
            "case": verdict.spec.id,
            **{name: of(verdict) for name, of in IDENTITY.items()},
            **{one.id: value for one, value in kept(verdict).items()},
            "outcome": verdict.outcome.value,
        }
        for verdict in verdicts
    )
    return Table(columns=tuple(map(Column, names)), rows=rows_of(rows))
