"""Training, as measured in one session: steps next to their all-reduces, and strategies.

A step shows how much of it is its all-reduce. Strategies train the same net with the same examples
and batches, so that all of them do the same work. Predicts and judges nothing.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.model.case import Case, CaseKey, Spec
from busbw.model.launch import Measurement, Run
from busbw.model.training import TrainingRun, TrainingStrategy
from busbw.model.verdict import Verdict
from busbw.model.words import payload_text, seconds_text
from busbw.workloads.collective import Collective
from busbw.workloads.dense_step import DenseStep

from .table import Column, Table, TextLine, explained, percent_text, rows_of

_STEP_COLUMNS = (
    Column("payload_bytes", "gradient", text=payload_text, width=8),
    Column("step_s", "step", text=seconds_text, width=10),
    Column("alone_s", "alone", text=seconds_text, width=10),
    Column("alone_share", "of step", unit="%", text=percent_text, width=10),
    Column("last_s", "last", text=seconds_text, width=10),
    Column("first_s", "first", text=seconds_text, width=10),
    Column("overlap_fraction", "hidden", unit="%", text=percent_text, width=10),
)
_STEP_NOTES = (
    "alone: the all-reduce by itself. last, first: inside of the step, by the profiler, on the",
    "rank that came to it last, and on the one that came first and waits for the others.",
    "hidden: how much of it the rank computed meanwhile; empty where the recording does not tell",
)
_STRATEGY_COLUMNS = (
    Column("strategy", "strategy", width=8, fits=True, left=True),
    Column("ranks", "ranks", width=5),
    Column("step_s", "step", text=seconds_text, width=10),
    Column("one_device_ratio", "one_device", unit="x", text="{:.2f}".format, width=10),
    Column("epoch_s", "epoch", text=seconds_text, width=10),
    Column("first_epoch_s", "first", text=seconds_text, width=10),
    Column("accuracy", "accuracy", unit="%", text=lambda share: f"{100 * share:.1f}", width=8),
    Column("agree", "agree", width=5),
)
_STRATEGY_NOTES = (
    "step: all ranks together over one batch. first: the epoch that holds tracing and connecting.",
    "agree: weights of all ranks, bit for bit, after the first step and at the end (-: one copy)",
)

# A case, its median in seconds, and what its launches gave.
_Timed = tuple[Case, float, Sequence[Run]]


def _timed(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[_Timed]:
    return [
        (one.case, one.now.median_s, measured[one.spec].runs if one.spec in measured else ())
        for one in verdicts
        if one.case is not None and one.now is not None
    ]


def step_tables(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[Table]:
    timed, tables = _timed(verdicts, measured), []
    alone_s = {case.key: median_s for case, median_s, _ in timed if case.workload.is_bare}
    steps = [one for one in timed if isinstance(one[0].workload, DenseStep)]
    for kind, alike in itertools.groupby(steps, key=lambda step: step[0].group_name):
        group = list(alike)
        rows = rows_of(_step_values(one, alone_s) for one in group)
        title = TextLine(f"{kind}, {group[0][0].ranks} ranks:")
        tables.append(Table(title=title, columns=_STEP_COLUMNS, rows=rows))
    return explained(tables, _STEP_NOTES)


def _step_values(step: _Timed, all_alone_s: Mapping[CaseKey, float]) -> dict[str, object]:
    case, step_s, runs = step
    alone_s = all_alone_s.get(replace(case.key, workload=Collective.around(case.workload)))
    # Medians over launches. The rank that comes last waits for no other: its all-reduce is the
    # shortest. Not every launch knows the hidden share.
    inside = [run.over_ranks_s for run in runs if run.over_ranks_s]
    hidden = [run.overlap_fraction for run in runs if run.overlap_fraction is not None]
    return {
        "payload_bytes": case.payload_bytes,
        "step_s": step_s,
        "alone_s": alone_s,
        "alone_share": None if alone_s is None else alone_s / step_s,
        "last_s": statistics.median(one["fastest"] for one in inside) if inside else None,
        "first_s": statistics.median(one["slowest"] for one in inside) if inside else None,
        "overlap_fraction": statistics.median(hidden) if hidden else None,
    }


def training_medians(runs: Sequence[TrainingRun]) -> dict[str, object]:
    if not runs:
        return {}
    later_s = [epoch_s for run in runs for epoch_s in run.epochs_s[1:]]
    return {
        "epoch_s": statistics.median(later_s),
        "first_epoch_s": statistics.median(run.epochs_s[0] for run in runs),
        "accuracy": statistics.median(run.accuracy for run in runs),
    }


def strategy_tables(
    verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]
) -> list[Table]:
    found: dict[str, list[tuple[Case, float, list[TrainingRun]]]] = {}
    for case, step_s, launches in _timed(verdicts, measured):
        runs = [run.training for run in launches if run.training is not None]
        if case.workload.own_strategies and runs:
            found.setdefault(case.framework, []).append((case, step_s, runs))
    return explained([_strategy_table(alike) for alike in found.values()], _STRATEGY_NOTES)


def _strategy_table(alike: Sequence[tuple[Case, float, list[TrainingRun]]]) -> Table:
    step_of = {case.strategy: step_s for case, step_s, _ in alike}
    alone_s = step_of.get(TrainingStrategy.ONE_DEVICE.value)
    first, _, (run, *_) = alike[0]
    title = (
        f"{first.framework}, a small net trained under strategies, {run.steps} steps an epoch, "
        f"{len(run.epochs_s)} epochs:"
    )
    rows = rows_of(
        {
            "strategy": case.strategy,
            "ranks": case.ranks,
            "step_s": step_s,
            "one_device_ratio": None if alone_s is None else step_s / alone_s,
            **training_medians(runs),
            "agree": "yes" if all(len(run.last_digests) > 1 for run in runs) else "-",
        }
        for case, step_s, runs in alike
    )
    return Table(title=TextLine(title), columns=_STRATEGY_COLUMNS, rows=rows)
