"""Training steps beside the collectives in them: how much of a step is its all-reduce.

Takes what was measured in one session and puts it side by side; predicts and judges nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.model import Case, Measurement, Spec, Verdict, payload_text, seconds_text
from busbw.workloads import Collective, DenseStep

from .strategies import strategy_lines

_WIDTHS = (8, 10, 10, 10, 10, 10, 10)
_HEAD = ("gradient", "step", "alone", "of step", "last", "first", "hidden")
_UNITS = ("", "", "", "%", "", "", "%")

_EXPLAINED = (
    "alone: the all-reduce by itself. last, first: inside of the step, by the profiler, on the",
    "rank that came to it last, and on the one that came first and waits for the others.",
    "hidden: how much of it the rank computed meanwhile; empty where the recording does not tell",
)


def training_lines(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[str]:
    """Of each kind of training that was measured; without any no lines."""
    return step_lines(verdicts, measured) + strategy_lines(verdicts, measured)


def step_lines(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[str]:
    """A heading and a line a payload for each kind of step; without steps no lines."""
    alone_s = {
        one.case.key: one.now.median_s
        for one in verdicts
        if one.case is not None and one.now is not None and one.case.workload.is_bare
    }
    lines: list[str] = []
    kind = ""
    for verdict in verdicts:
        case = verdict.case
        if case is None or verdict.now is None or not isinstance(case.workload, DenseStep):
            continue
        if case.group_name != kind:
            kind = case.group_name
            lines += ["", f"{kind}, {case.ranks} ranks:", _row(_HEAD), _row(_UNITS).rstrip()]
        alone = alone_s.get(replace(case.key, workload=Collective.around(case.workload)))
        cells = _cells(case, verdict.now.median_s, alone, measured.get(verdict.spec))
        lines.append(_row(cells).rstrip())
    return [*lines, *_EXPLAINED] if lines else []


def _inside(measurement: Measurement | None) -> tuple[float | None, float | None]:
    """Medians over launches of the all-reduce on the rank that came last, and on the first."""
    runs = [run.over_ranks_s for run in measurement.runs if run.over_ranks_s] if measurement else []
    if not runs:
        return None, None
    # Nobody waits on the rank that comes last: its all-reduce is the shortest.
    last, first = ([run[name] for run in runs] for name in ("fastest", "slowest"))
    return statistics.median(last), statistics.median(first)


def _hidden(measurement: Measurement | None) -> str:
    """The median over launches of the share that computing hid, in percent; "" if unknown."""
    runs = measurement.runs if measurement else ()
    shares = [run.hidden_share for run in runs if run.hidden_share is not None]
    return f"{100 * statistics.median(shares):.0f}" if shares else ""


def _cells(
    case: Case, step_s: float, alone_s: float | None, measurement: Measurement | None
) -> list[str]:
    return [
        payload_text(case.payload_bytes),
        seconds_text(step_s),
        _text(alone_s),
        f"{100 * alone_s / step_s:.0f}" if alone_s is not None else "",
        *map(_text, _inside(measurement)),
        _hidden(measurement),
    ]


def _text(seconds: float | None) -> str:
    return "" if seconds is None else seconds_text(seconds)


def _row(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS))
