"""Training under strategies side by side: the same net, examples and batches, so the same work.

Takes what was measured in one session; predicts and judges nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.model import (
    Case,
    Measurement,
    Spec,
    TrainingRun,
    TrainingStrategy,
    Verdict,
    seconds_text,
)

_WIDTHS = (-21, 6, 10, 11, 10, 11, 9, 6)
_HEAD = ("strategy", "ranks", "step", "one_device", "epoch", "first", "accuracy", "agree")
_UNITS = ("", "", "", "x", "", "", "%", "")

_EXPLAINED = (
    "step: all ranks together over one batch. first: the epoch that holds tracing and connecting.",
    "agree: weights of all ranks, bit for bit, after the first step and at the end (-: one copy)",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    case: Case
    step_s: float
    runs: tuple[TrainingRun, ...]


def strategy_lines(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[str]:
    """A heading and a line a strategy for each framework; without any no lines."""
    rows = [row for verdict in verdicts for row in _rows(verdict, measured)]
    lines: list[str] = []
    for framework in dict.fromkeys(row.case.framework for row in rows):
        alike = [row for row in rows if row.case.framework == framework]
        lines += ["", _heading(framework, alike[0]), _line(_HEAD), _line(_UNITS).rstrip()]
        alone_s = next((row.step_s for row in alike if _is_alone(row.case)), None)
        lines += [_line(_cells(row, alone_s)).rstrip() for row in alike]
    return [*lines, *_EXPLAINED] if lines else []


def _rows(verdict: Verdict, measured: Mapping[Spec, Measurement]) -> list[_Row]:
    case, measurement = verdict.case, measured.get(verdict.spec)
    if (
        case is None
        or not case.workload.own_strategies
        or verdict.now is None
        or measurement is None
    ):
        return []
    runs = tuple(run.training for run in measurement.runs if run.training is not None)
    return [_Row(case=case, step_s=verdict.now.median_s, runs=runs)] if runs else []


def _is_alone(case: Case) -> bool:
    return case.strategy == TrainingStrategy.ONE_DEVICE.value


def _heading(framework: str, row: _Row) -> str:
    run = row.runs[0]
    return (
        f"{framework}, a small net trained under strategies, {run.steps} steps an epoch, "
        f"{len(run.epochs_s)} epochs:"
    )


def _cells(row: _Row, alone_s: float | None) -> list[str]:
    return [
        row.case.strategy,
        str(row.case.ranks),
        seconds_text(row.step_s),
        f"{row.step_s / alone_s:.2f}" if alone_s is not None else "",
        seconds_text(statistics.median(_later_s(row))),
        seconds_text(statistics.median(run.epochs_s[0] for run in row.runs)),
        f"{100 * statistics.median(run.accuracy for run in row.runs):.1f}",
        "yes" if all(len(run.last_digests) > 1 for run in row.runs) else "-",
    ]


def _later_s(row: _Row) -> list[float]:
    """Seconds of every epoch after the first, of all launches."""
    return [epoch_s for run in row.runs for epoch_s in run.epochs_s[1:]]


def _line(cells: Sequence[str]) -> str:
    """The cells below their heads; a negative width is aligned to the left."""
    return " ".join(
        f"{cell:<{-width}}" if width < 0 else f"{cell:>{width}}"
        for cell, width in zip(cells, _WIDTHS)
    )
