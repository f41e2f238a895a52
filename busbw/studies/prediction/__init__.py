"""`python -m busbw prediction`: predicted and measured communication in training steps."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import report
from busbw.commands.command import (
    Commands,
    UsageError,
    add_command,
    add_document,
    check_document,
    json_with,
    write_page,
)
from busbw.commands.curve import MeasuredCurve, OutsideError, curves_in, kind_of
from busbw.frameworks import FRAMEWORKS
from busbw.model import Case, Clock, EnvironmentKey, Protocol, payload_text, plural
from busbw.workloads import DenseStep

from .page import prediction_page, prediction_table
from .steps import PredictedStep, steps_in

ORDER = 6
_SINGLE = "one_device"
_MIRRORED = "mirrored"

# Why a strategy has no curve: its communication differs from what is measured by itself.
_WITHOUT_CURVE = {
    "parameter_server": "gradients go to servers and weights come back; no curve of that is "
    "measured, and there is no all-reduce in it",
    "central_storage": "one device adds up the gradients and holds the weights; no curve of that "
    "is measured, and there is no all-reduce in it",
    "multi_worker_mirrored": "its all-reduce goes between processes; the measured curves are of "
    "ranks in one process",
}

_DESCRIPTION = """
Compare the all-reduce inside training steps, from the results of sessions with `-m training`, with
the time that the bare all-reduce predicts, and write a page of Markdown that says where the
prediction holds.
"""

_Curves = Mapping[Case, MeasuredCurve]


def add_to(commands: Commands) -> None:
    """Add this command and its options."""
    parser = add_command(
        commands,
        "prediction",
        run,
        help="predicted and measured communication of training steps",
        description=_DESCRIPTION,
    )
    add = parser.add_argument
    add(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULTS",
        help="what `pytest perf/ -m training --results=FILE` wrote; several go into one page",
    )
    add(
        "--curve",
        type=Path,
        metavar="FILE",
        help="predict from this file's all-reduces, results or a baseline, instead of each "
        "file's own",
    )
    add_document(parser)
    add("--json", action="store_true", help="as JSON instead of a page")


def run(options: argparse.Namespace) -> int:
    """Print or write the page; 0, or 1 if it cannot be written. Raises UsageError."""
    inputs = [*options.results, *([options.curve] if options.curve else [])]
    check_document(options, inputs, json_with("predicted_s", "unpredicted"))
    return write_page(_lines(options), options)


def _lines(options: argparse.Namespace) -> list[str]:
    """The page or the document. Raises UsageError."""
    rows: list[PredictedStep] = []
    machines: dict[str, None] = {}
    notes: list[str] = []
    named = None
    if options.curve is not None:
        key, named = curves_in(options.curve)
        notes.append(f"Predicted from {options.curve}, measured on {_machine(key)}")
    for path in options.results:
        key, steps = steps_in(path)
        rows += _rows(path, steps, curves_in(path)[1] if named is None else named)
        machines[_machine(key)] = None
    if options.json:
        return report.rendered("json", prediction_table(rows))
    return prediction_page(rows, tuple(machines), notes)


def _machine(key: EnvironmentKey) -> str:
    return f"{key.device_kind}, {plural(key.cores, 'core')}" if key.cores else key.device_kind


def _rows(path: Path, steps: Sequence[PredictedStep], curves: _Curves) -> list[PredictedStep]:
    several = [one for one in steps if one.case.strategy != _SINGLE]
    if not several:
        raise UsageError(f"{path}: holds no training step of several ranks")
    return [
        _recorded(one, curves, path)
        if isinstance(one.case.workload, DenseStep)
        else _of_strategy(one, curves, _single_s(one, steps))
        for one in several
    ]


def _recorded(row: PredictedStep, curves: _Curves, path: Path) -> PredictedStep:
    """A step whose all-reduce was recorded. Raises UsageError without a curve."""
    curve = _curve(row.case, curves)
    if curve is None:
        raise UsageError(
            f"{path}: {row.case.name} on {plural(row.case.ranks, 'rank')}: no all-reduce alone "
            "of this kind was measured"
        )
    try:
        return _predicted(row, curve)
    except OutsideError as error:
        raise UsageError(f"{path}: {row.case.name}: {error}") from error


def _of_strategy(step: PredictedStep, curves: _Curves, single_s: float | None) -> PredictedStep:
    """A step of a strategy: only a mirrored one in one process has a curve."""
    case = step.case
    row = PredictedStep(case=case, step_s=step.step_s, single_s=single_s)
    if case.strategy != _MIRRORED:
        no_curve = f"no curve of {case.strategy} is measured"
        return replace(row, unpredicted=_WITHOUT_CURVE.get(case.strategy, no_curve))
    # Results may name a framework that is not known.
    framework = FRAMEWORKS.get(case.framework)
    curve = _curve(replace(case, strategy=framework.ring if framework else ""), curves)
    if curve is None:
        missing = f"no ring of {case.framework} was measured on {plural(case.ranks, 'rank')}"
        return replace(row, unpredicted=missing)
    try:
        return _predicted(row, curve)
    except OutsideError:
        size = payload_text(case.payload_bytes)
        return replace(row, unpredicted=f"{size} is outside of the ring's curve, which has no line")


def _predicted(row: PredictedStep, curve: MeasuredCurve) -> PredictedStep:
    """Raises OutsideError."""
    reading = curve.read(row.case.payload_bytes)
    return replace(row, predicted_s=reading.seconds, how=reading.how, line=curve.line)


def _curve(case: Case, curves: _Curves) -> MeasuredCurve | None:
    """The curve of the step's own clock, else of the only clock with one."""
    wanted = kind_of(case)
    if wanted in curves:
        return curves[wanted]
    others = [replace(wanted, protocol=Protocol(clock=clock)) for clock in Clock]
    found = [curves[one] for one in others if one in curves]
    return found[0] if len(found) == 1 else None


def _single_s(row: PredictedStep, steps: Sequence[PredictedStep]) -> float | None:
    """What one device takes for the same work, in the same session."""
    wanted = (row.case.framework, row.case.workload, row.case.dtype, _SINGLE)
    for one in steps:
        case = one.case
        if (case.framework, case.workload, case.dtype, case.strategy) == wanted:
            return one.step_s
    return None
