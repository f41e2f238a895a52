"""`python -m busbw prediction`: predicted and measured communication in training steps.

Every sentence that says where the prediction holds is made from the figures of the rows.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from busbw.commands import RESULTS, UsageError, usage_error
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.model.verdict import Curve
from busbw.model.words import Clock, payload_text, plural, seconds_text
from busbw.report.renderers import rendered
from busbw.report.renderers.markdown import filled
from busbw.report.session import medians_inside
from busbw.report.table import attributes, text_table
from busbw.session.option import file_option
from busbw.workloads.dense_step import DenseStep

from . import Study
from .curve import MeasuredCurve, OutsideError, TimedCase, TimedFile, kind_of, timed_in

ORDER = 6
_HEAD = ("case", "gradient", "measured", "by the curve", "by the line", "the curve holds at")
_SINGLE = "one_device"
_MIRRORED = "mirrored"

# Launches of one and the same all-reduce differ by 15 to 35 % below 16M, and each side of the
# ratio is a median over a few of them: what is closer than this says nothing against the model.
AGREEMENT = 0.25

# Why a strategy has no curve: its communication differs from what is measured by itself.
_WITHOUT_CURVE = {
    "parameter_server": "no all-reduce, but servers",
    "central_storage": "no all-reduce, but one device",
    "multi_worker_mirrored": "between processes",
}

_DESCRIPTION = """
Compare the all-reduce inside training steps with the time that the all-reduce by itself predicts,
and print a page of Markdown that says where the prediction holds. Example: busbw prediction
training.json
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedStep:
    """A training case: what its communication should take, and what it took.

    `predicted_s` is read from a measured curve, `how` says how; `line` is fitted to that curve. All
    are absent where nothing predicts, and `unpredicted` says why. `last_s` and `first_s` are the
    all-reduce inside of the step, by the profiler, on the rank that reaches it last and on the
    first one. `single_s` is the step of one device that does all the work.
    """

    case: Case
    step_s: float
    predicted_s: float | None = None
    how: str = ""
    line: Curve | None = None
    unpredicted: str = ""
    last_s: float | None = None
    first_s: float | None = None
    single_s: float | None = None

    @property
    def measured_s(self) -> float | None:
        """The last rank's, else what the step takes beyond one device's, which may be negative."""
        if self.last_s is not None:
            return self.last_s
        return None if self.single_s is None else self.step_s - self.single_s

    @property
    def ratio(self) -> float | None:
        """Measured over predicted by the curve; None where one of them is missing."""
        return _over(self.measured_s, self.predicted_s)


def agrees(ratio: float) -> bool:
    """Whether measured and predicted are as close as `AGREEMENT`, whichever is the larger."""
    return 1 / (1 + AGREEMENT) <= ratio <= 1 + AGREEMENT


def _over(part_s: float | None, whole_s: float | None) -> float | None:
    return None if part_s is None or whole_s is None else part_s / whole_s


_OPTIONS = (
    replace(
        RESULTS,
        help="Files that busbw run -m training --results=FILE wrote; several go into one page",
        nargs="+",
    ),
    file_option(
        "curve",
        "Predict from the all-reduces in this file (results or a baseline) instead of those in "
        "each file",
    ),
)


def _question(options: argparse.Namespace) -> list[tuple[TimedFile, TimedFile]]:
    """Each file of results, and the one with its curves."""
    named = None if options.curve is None else timed_in(options.curve)
    files = [timed_in(path) for path in options.results]
    return [(file, named or file) for file in files]


def _sums(question: Sequence[tuple[TimedFile, TimedFile]]) -> list[PredictedStep]:
    """Raises UsageError for a file without steps of several ranks, or a step without a curve."""
    rows: list[PredictedStep] = []
    for file, other in question:
        curves = dict(other.curves().values())
        steps = [one for one in file.cases if not one.case.workload.is_bare]
        several = [one for one in steps if one.case.strategy != _SINGLE]
        if not several:
            what = "no training step of several ranks" if steps else "no time of a training step"
            raise UsageError(f"{file.path}: holds {what}; `-m training` measures them")
        singles = {_work(one.case): one.seconds for one in steps if one.case.strategy == _SINGLE}
        rows += [
            _dense(one, curves, file.path)
            if isinstance(one.case.workload, DenseStep)
            else _under_strategy(one, singles.get(_work(one.case)), curves)
            for one in several
        ]
    return rows


def _work(case: Case) -> tuple[object, ...]:
    """What one device and several have in common."""
    return case.framework, case.workload, case.dtype


def _under_strategy(
    step: TimedCase, single_s: float | None, curves: Mapping[Case, MeasuredCurve]
) -> PredictedStep:
    """Measured by `single_s`; predicted by the ring of its framework, and only if it is one."""
    case = step.case
    row = PredictedStep(case=case, step_s=step.seconds, single_s=single_s)
    if case.strategy != _MIRRORED:
        why = _WITHOUT_CURVE.get(case.strategy, f"no curve of {case.strategy} is measured")
        return replace(row, unpredicted=why)
    # Results may name a framework that is not known.
    framework = FRAMEWORKS.get(case.framework)
    ring = replace(case, strategy=framework.ring if framework else "")
    missing = f"no ring of {case.framework} was measured on {plural(case.ranks, 'rank')}"
    try:
        return _predicted(row, ring, curves, missing)
    except OutsideError as error:
        return replace(row, unpredicted=str(error))


def _dense(step: TimedCase, curves: Mapping[Case, MeasuredCurve], path: Path) -> PredictedStep:
    """Measured by the profiler. Raises UsageError for times that cannot be, or without a curve."""
    case = step.case
    inside = [run.over_ranks_s for run in step.runs if run.over_ranks_s]
    if not all(one.get(name, 0) > 0 for one in inside for name in ("fastest", "slowest")):
        raise UsageError(f"{path}: {case.name}: over_ranks_s: expected seconds above 0")
    last_s, first_s = medians_inside(step.runs)
    row = PredictedStep(case=case, step_s=step.seconds, last_s=last_s, first_s=first_s)
    where = f"{path}: {case.name} on {plural(case.ranks, 'rank')}: "
    with usage_error(OutsideError, where=where):
        return _predicted(row, case, curves, "no all-reduce alone of this kind was measured")


def _predicted(
    row: PredictedStep, case: Case, curves: Mapping[Case, MeasuredCurve], missing: str
) -> PredictedStep:
    """By the curve of the step's own clock, else of the only clock with one; or OutsideError."""
    wanted = kind_of(case)
    others = [replace(wanted, protocol=Protocol(clock=clock)) for clock in Clock]
    found = [curves[one] for one in ([wanted] if wanted in curves else others) if one in curves]
    if len(found) != 1:
        raise OutsideError(missing)
    (curve,) = found
    reading = curve.read(case.payload_bytes)
    return replace(row, predicted_s=reading.seconds, how=reading.how, line=curve.line)


def document(rows: Sequence[PredictedStep]) -> list[dict[str, Any]]:
    """Everything known of each case."""
    return list(map(_known, rows))


def _known(row: PredictedStep) -> dict[str, Any]:
    line_s = None if row.line is None else row.line.seconds(row.case.payload_bytes)
    return {
        "case": row.case.name,
        **attributes(row.case, "ranks", "payload_bytes"),
        **attributes(row, "step_s", "predicted_s", "how", "last_s", "first_s", "single_s"),
        **attributes(row, "measured_s", "ratio", "unpredicted"),
        "line_s": line_s,
        "line_ratio": _over(row.measured_s, line_s),
        "agrees": None if row.ratio is None else agrees(row.ratio),
        "share": _over(row.measured_s, row.step_s),
    }


def prediction_page(
    question: Sequence[tuple[TimedFile, TimedFile]], rows: Sequence[PredictedStep]
) -> list[str]:
    """Lines of Markdown: all payloads of a kind in a row."""
    machines = dict.fromkeys(f"Measured on {_machine(file)}.  " for file, _ in question)
    curves = dict.fromkeys(
        f"Predicted from {other.path}, measured on {_machine(other)}.  "
        for file, other in question
        if other is not file
    )
    ordered = sorted(rows, key=lambda row: (_kind(row.case), row.case.payload_bytes))
    groups = itertools.groupby(ordered, lambda row: _kind(row.case))
    table = text_table(_HEAD, [[kind, *_cells(list(of))] for kind, of in groups])
    return filled(
        resources.files(__package__) / "prediction.md",
        sources=[*machines, *curves],
        percent=[f"{100 * AGREEMENT:.0f} %"],
        table=rendered("markdown", table),
    )


def _machine(file: TimedFile) -> str:
    key = file.key
    return f"{key.device_kind}, {plural(key.cores, 'core')}" if key.cores else key.device_kind


def _kind(case: Case) -> str:
    what = case.group_name
    if not isinstance(case.workload, DenseStep):
        what = f"{case.framework} {case.workload.kind}, {case.strategy}"
    return f"{what}, {plural(case.ranks, 'rank')}"


def _cells(group: Sequence[PredictedStep]) -> list[str]:
    """All after the kind; where nothing predicts, the last one says why."""
    known = document(group)
    sizes = [payload_text(row["payload_bytes"]) for row in known]
    holds = [size for size, row in zip(sizes, known, strict=True) if row["agrees"]]
    reasons = dict.fromkeys(row.unpredicted for row in group if row.unpredicted)
    return [
        ", ".join(sizes),
        ", ".join(_seconds(row["measured_s"]) for row in known),
        *(", ".join(_ratio(row[name]) for row in known) for name in ("ratio", "line_ratio")),
        f"unpredicted: {'; '.join(reasons)}" if reasons else ", ".join(holds) or "nowhere",
    ]


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{'-' if seconds < 0 else ''}{seconds_text(abs(seconds), digits=3)}"


def _ratio(ratio: float | None) -> str:
    """``-`` for a step that takes no longer than one device's: nothing to compare."""
    return f"{ratio:.2f}" if ratio is not None and ratio > 0 else "-"


add_to = Study(
    name="prediction",
    help="Compare predicted with measured communication of training steps",
    description=_DESCRIPTION,
    options=_OPTIONS,
    question=_question,
    sums=_sums,
    page=prediction_page,
    document=lambda question, rows: document(rows),
    document_keys=("predicted_s", "unpredicted"),
    reads=lambda options: [*options.results, *([options.curve] if options.curve else [])],
).add_to
