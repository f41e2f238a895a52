"""`python -m busbw prediction`: what communication in training steps should take, and took."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import costmodel, report
from busbw.costmodel import MeasuredCurve
from busbw.frameworks import FRAMEWORKS
from busbw.model import Case, Clock, EnvironmentKey, Protocol, payload_text, plural
from busbw.report import PredictedStep
from busbw.workloads import DenseStep

from . import pages
from .measured import curves_in, kind_of
from .step_results import MeasuredStep, StepResults, steps_in
from .workload import AskedWrongly

_SINGLE = "one_device"
_MIRRORED = "mirrored"
# The all-reduce by which each framework's ranks of one process add up gradients.

# Why a strategy has no curve: its communication is another one than what is measured by itself.
_WITHOUT_CURVE = {
    "parameter_server": "gradients go to servers and weights come back; no curve of that is "
    "measured, and there is no all-reduce in it",
    "central_storage": "one device adds up the gradients and holds the weights; no curve of that "
    "is measured, and there is no all-reduce in it",
    "multi_worker_mirrored": "its all-reduce goes between processes; the measured curves are of "
    "ranks in one process",
}

_DESCRIPTION = """
Hold the all-reduce of training steps, from the results of sessions with `-m training`, against what
the all-reduce by itself predicts, as a page of Markdown that says where the prediction holds.
"""

_Curves = Mapping[Case, MeasuredCurve]


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command and its options."""
    parser = commands.add_parser(
        "prediction",
        help="predicted and measured communication of training steps",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
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
    pages.add_document(parser)
    add("--json", action="store_true", help="as JSON instead of a page")


def run(options: argparse.Namespace) -> int:
    """Print or write the page; 0, 1 if it cannot be written, 2 for files that make none."""
    try:
        _check_document(options)
        lines = _lines(options)
    except (AskedWrongly, pages.Unwritable) as error:
        print(f"busbw prediction: {error}", file=sys.stderr)
        return 2
    return pages.put(lines, options.document, "prediction")


def _check_document(options: argparse.Namespace) -> None:
    """Raises Unwritable; it replaces a page or its JSON, and never what is read."""
    is_page, is_json = pages.is_page("prediction"), pages.json_with("predicted_s", "unpredicted")
    inputs = [*options.results, *([options.curve] if options.curve else [])]
    pages.check(
        "--document",
        options.document,
        "a page of busbw prediction",
        lambda text: is_page(text) or is_json(text),
        inputs,
    )


def _lines(options: argparse.Namespace) -> list[str]:
    """The page or the document. Raises AskedWrongly."""
    rows: list[PredictedStep] = []
    machines: dict[str, None] = {}
    notes: list[str] = []
    named = None
    if options.curve is not None:
        key, named = curves_in(options.curve)
        notes.append(f"Predicted from {options.curve}, measured on {_machine(key)}")
    for path in options.results:
        found = steps_in(path)
        rows += _rows(found, curves_in(path)[1] if named is None else named)
        machines[_machine(found.key)] = None
    if options.json:
        return report.rendered("json", report.prediction_table(rows))
    return report.prediction_page(rows, tuple(machines), notes)


def _machine(key: EnvironmentKey) -> str:
    return f"{key.device_kind}, {plural(key.cores, 'core')}" if key.cores else key.device_kind


def _rows(found: StepResults, curves: _Curves) -> list[PredictedStep]:
    steps = [one for one in found.steps if one.case.strategy != _SINGLE]
    if not steps:
        raise AskedWrongly(f"{found.path}: holds no training step of several ranks")
    return [
        _recorded(one, curves, found.path)
        if isinstance(one.case.workload, DenseStep)
        else _beyond(one, curves, _single_s(one, found.steps))
        for one in steps
    ]


def _recorded(step: MeasuredStep, curves: _Curves, path: Path) -> PredictedStep:
    """A step whose all-reduce the profiler saw: without a curve there is nothing to say."""
    curve = _curve(step.case, curves)
    if curve is None:
        raise AskedWrongly(
            f"{path}: {step.case.name} on {plural(step.case.ranks, 'rank')}: no all-reduce alone "
            "of this kind was measured"
        )
    try:
        reading = curve.read(step.case.payload_bytes)
    except costmodel.OutsideError as error:
        raise AskedWrongly(f"{path}: {step.case.name}: {error}") from error
    row = PredictedStep(
        case=step.case, step_s=step.seconds, last_s=step.last_s, first_s=step.first_s
    )
    return replace(row, predicted_s=reading.seconds, how=reading.how, line=curve.line)


def _ring(framework: str) -> str:
    """The strategy whose all-reduce is a ring; results may name a framework that is not known."""
    known = FRAMEWORKS.get(framework)
    return known.ring if known is not None else ""


def _beyond(step: MeasuredStep, curves: _Curves, single_s: float | None) -> PredictedStep:
    """A step of a strategy: only a mirrored one in one process has a curve that is its own."""
    case = step.case
    row = PredictedStep(case=case, step_s=step.seconds, single_s=single_s)
    if case.strategy != _MIRRORED:
        no_curve = f"no curve of {case.strategy} is measured"
        return replace(row, unpredicted=_WITHOUT_CURVE.get(case.strategy, no_curve))
    ring = replace(case, strategy=_ring(case.framework))
    curve = _curve(ring, curves)
    if curve is None:
        missing = f"no ring of {case.framework} was measured on {plural(case.ranks, 'rank')}"
        return replace(row, unpredicted=missing)
    try:
        reading = curve.read(case.payload_bytes)
    except costmodel.OutsideError:
        size = payload_text(case.payload_bytes)
        return replace(row, unpredicted=f"{size} is outside of the ring's curve, which has no line")
    return replace(row, predicted_s=reading.seconds, how=reading.how, line=curve.line)


def _curve(case: Case, curves: _Curves) -> MeasuredCurve | None:
    """That of the step's own clock, else that of the only clock there is."""
    wanted = kind_of(case)
    if wanted in curves:
        return curves[wanted]
    others = [replace(wanted, protocol=Protocol(clock=clock)) for clock in Clock]
    found = [curves[one] for one in others if one in curves]
    return found[0] if len(found) == 1 else None


def _single_s(step: MeasuredStep, steps: Sequence[MeasuredStep]) -> float | None:
    """What one device takes for the same work, in the same session."""
    for one in steps:
        alike = (one.case.framework, one.case.workload, one.case.dtype)
        same = alike == (step.case.framework, step.case.workload, step.case.dtype)
        if same and one.case.strategy == _SINGLE:
            return one.seconds
    return None
