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

from .table import Column, Table, TextLine, explained, rows_of

_COLUMNS = (
    Column("strategy", "strategy", width=21, left=True),
    Column("ranks", "ranks", width=6),
    Column("step_s", "step", text=seconds_text, width=10),
    Column("one_device_ratio", "one_device", unit="x", text="{:.2f}".format, width=11),
    Column("epoch_s", "epoch", text=seconds_text, width=10),
    Column("first_epoch_s", "first", text=seconds_text, width=11),
    Column("accuracy", "accuracy", unit="%", text=lambda share: f"{100 * share:.1f}", width=9),
    Column("agree", "agree", width=6),
)

_EXPLAINED = (
    "step: all ranks together over one batch. first: the epoch that holds tracing and connecting.",
    "agree: weights of all ranks, bit for bit, after the first step and at the end (-: one copy)",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _StrategyRow:
    case: Case
    step_s: float
    runs: tuple[TrainingRun, ...]


def strategy_tables(
    verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]
) -> list[Table]:
    """A table for each framework, with a row for each strategy; without any none."""
    found = [one for verdict in verdicts for one in _trained(verdict, measured)]
    frameworks = dict.fromkeys(one.case.framework for one in found)
    tables = [_table([one for one in found if one.case.framework == name]) for name in frameworks]
    return explained(tables, _EXPLAINED)


def _trained(verdict: Verdict, measured: Mapping[Spec, Measurement]) -> list[_StrategyRow]:
    case, measurement = verdict.case, measured.get(verdict.spec)
    if (
        case is None
        or not case.workload.own_strategies
        or verdict.now is None
        or measurement is None
    ):
        return []
    runs = tuple(run.training for run in measurement.runs if run.training is not None)
    return [_StrategyRow(case=case, step_s=verdict.now.median_s, runs=runs)] if runs else []


def _table(alike: Sequence[_StrategyRow]) -> Table:
    alone_s = next((one.step_s for one in alike if _is_alone(one.case)), None)
    return Table(
        title=TextLine(_title(alike[0])),
        columns=_COLUMNS,
        rows=rows_of(_values(one, alone_s) for one in alike),
    )


def _is_alone(case: Case) -> bool:
    return case.strategy == TrainingStrategy.ONE_DEVICE.value


def _title(one: _StrategyRow) -> str:
    run = one.runs[0]
    return (
        f"{one.case.framework}, a small net trained under strategies, {run.steps} steps an epoch, "
        f"{len(run.epochs_s)} epochs:"
    )


def _values(one: _StrategyRow, alone_s: float | None) -> dict[str, object]:
    later_s = [epoch_s for run in one.runs for epoch_s in run.epochs_s[1:]]
    return {
        "strategy": one.case.strategy,
        "ranks": one.case.ranks,
        "step_s": one.step_s,
        "one_device_ratio": None if alone_s is None else one.step_s / alone_s,
        "epoch_s": statistics.median(later_s),
        "first_epoch_s": statistics.median(run.epochs_s[0] for run in one.runs),
        "accuracy": statistics.median(run.accuracy for run in one.runs),
        "agree": "yes" if all(len(run.last_digests) > 1 for run in one.runs) else "-",
    }
