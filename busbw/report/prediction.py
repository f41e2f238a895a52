"""Predicted against measured communication of training steps: the page, its words, its document.

Every sentence that says where the prediction holds is made of the figures at hand.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from busbw.model import Case, payload_text, plural, rate_text, seconds_text
from busbw.workloads import DenseStep

from .markdown import markdown_table
from .prediction_row import AGREEMENT, PredictedStep, agrees

_WIDTH = 100
_PERCENT = f"{100 * AGREEMENT:.0f} %"

_LEDE = f"""
What the all-reduce by itself takes is held against what it takes inside of training steps that were
measured in the same sessions, or against a curve that was named. *Predicted* is read from the
measured curve: at the payload itself, or between its neighbours. *By the line* is latency + payload
/ bandwidth, fitted to that curve. Within {_PERCENT} of each other they agree: launches of one and
the same all-reduce differ by as much.
"""

_INSIDE = """
*last* and *first* are the all-reduce inside of the step, by the profiler: on the rank that comes to
it last and waits for nobody, and on the one that comes first and waits for the others. What is
compared is *last*. *of step* is its share of the step; other calls are recorded than those that are
timed, so that on a machine that was disturbed it may be above 100 %.
"""

_BEYOND = """
*beyond* is what a step takes longer than one device takes for the same work, all of it. It holds
whatever comes with a strategy, not communication alone; and where ranks have cores of their own,
computing gets shorter by being shared out, so that it is too small. Where it is not above 0,
nothing is left to compare.
"""


def prediction_page(
    rows: Sequence[PredictedStep], machines: Sequence[str], notes: Sequence[str] = ()
) -> list[str]:
    """The whole page; `machines` say where the rows were measured, `notes` where the curves."""
    recorded = [row for row in rows if isinstance(row.case.workload, DenseStep)]
    others = [row for row in rows if not isinstance(row.case.workload, DenseStep)]
    lines = [
        "# Predicted and measured communication",
        "",
        "<!-- Written by `python -m busbw prediction`, not by hand. -->",
        "",
        *(f"Measured on {machine}.  " for machine in machines),
        *(f"{note}.  " for note in notes),
        *_LEDE.splitlines(),
        "",
        "## In short",
        "",
        *_summary(recorded, others),
    ]
    if recorded:
        lines += ["", "## The all-reduce inside of a step", *_INSIDE.splitlines()]
        for name, group in _groups(recorded):
            lines += ["", f"### {name}", "", *_line_text(group[0]), *_inside(group)]
    if others:
        lines += ["", "## What a strategy adds to a step", *_BEYOND.splitlines(), ""]
        lines += _beyond(others)
    return lines


def prediction_document(rows: Sequence[PredictedStep]) -> list[dict[str, Any]]:
    """A dict for each case: plain values, seconds."""
    return [
        {
            "case": row.case.name,
            "ranks": row.case.ranks,
            "payload_bytes": row.case.payload_bytes,
            "step_s": row.step_s,
            "predicted_s": row.predicted_s,
            "how": row.how,
            "line_s": row.line_s,
            "last_s": row.last_s,
            "first_s": row.first_s,
            "single_s": row.single_s,
            "measured_s": row.measured_s,
            "ratio": row.ratio,
            "line_ratio": row.line_ratio,
            "agrees": None if row.ratio is None else agrees(row.ratio),
            "share": row.share,
            "unpredicted": row.unpredicted,
        }
        for row in rows
    ]


def _groups(rows: Sequence[PredictedStep]) -> Iterator[tuple[str, list[PredictedStep]]]:
    """All payloads of one kind, ascending; kinds in the order of their names."""
    ordered = sorted(rows, key=lambda row: (_kind(row.case), row.case.payload_bytes))
    for (name, ranks), group in itertools.groupby(ordered, key=lambda row: _kind(row.case)):
        yield f"{name}, {plural(ranks, 'rank')}", list(group)


def _kind(case: Case) -> tuple[str, int]:
    return case.group_name, case.ranks


def _summary(recorded: Sequence[PredictedStep], others: Sequence[PredictedStep]) -> list[str]:
    lines = []
    for name, group in _groups(recorded):
        for what, ratio_of in (("curve", _by_curve), ("line", _by_line)):
            lines += _item(f"{name}: the {what} {_where(group, ratio_of)}.")
    for row in others:
        lines += _item(f"{_kind_text(row.case)}: {_one(row)}.")
    return lines


def _by_curve(row: PredictedStep) -> float | None:
    return row.ratio


def _by_line(row: PredictedStep) -> float | None:
    return row.line_ratio


def _where(
    group: Sequence[PredictedStep], ratio_of: Callable[[PredictedStep], float | None]
) -> str:
    """At which gradients the prediction holds, at which not, and by how much."""
    known = [(row.case.payload_bytes, ratio) for row in group if (ratio := ratio_of(row))]
    if not known:
        return "cannot be compared: no recording, or too few payloads for a line"
    right = [(size, ratio) for size, ratio in known if agrees(ratio)]
    wrong = [(size, ratio) for size, ratio in known if not agrees(ratio)]
    if not wrong:
        return f"holds {_all(known)} ({_span(known)} the predicted time)"
    if not right:
        return f"holds nowhere: {_all(known)} it takes {_span(known)} the predicted time"
    return (
        f"holds {_side(right, wrong)} ({_span(right)} the predicted time), "
        f"not {_side(wrong, right)} ({_span(wrong)})"
    )


_Sizes = Sequence[tuple[int, float]]


def _all(known: _Sizes) -> str:
    first, last = payload_text(known[0][0]), payload_text(known[-1][0])
    return f"from {first} to {last}" if len(known) > 1 else f"at {first}"


def _side(these: _Sizes, others: _Sizes) -> str:
    """The shortest words for these sizes, ascending, among the others."""
    first, last = these[0][0], these[-1][0]
    if len(these) > 1 and first > others[-1][0]:
        return f"from {payload_text(first)} up"
    if len(these) > 1 and last < others[0][0]:
        return f"up to {payload_text(last)}"
    return f"at {' and '.join(payload_text(size) for size, _ in these)}"


def _span(known: _Sizes) -> str:
    texts = [f"{ratio:.2f}" for ratio in (min(r for _, r in known), max(r for _, r in known))]
    return f"{texts[0]} times" if texts[0] == texts[1] else f"{texts[0]} to {texts[1]} times"


def _one(row: PredictedStep) -> str:
    """What there is to say of a strategy."""
    measured_s = row.measured_s
    if measured_s is None:
        return "one device's step was not measured, so that nothing says what is communication"
    if measured_s <= 0:
        spared = seconds_text(-measured_s, digits=3)
        return f"a step takes no longer than one device's, but {spared} less: nothing to compare"
    took = f"a step takes {seconds_text(measured_s, digits=3)} beyond one device's"
    if row.predicted_s is None:
        return f"{took}; not predicted: {row.unpredicted}"
    assert row.ratio is not None
    holds = "holds" if agrees(row.ratio) else "does not hold"
    predicted = seconds_text(row.predicted_s, digits=3)
    return f"{took}, {row.ratio:.2f} times the {predicted} predicted by the curve, which {holds}"


def _item(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line_text(row: PredictedStep) -> list[str]:
    if row.line is None:
        return []
    latency = seconds_text(row.line.latency_s, digits=3)
    return [f"The line: {latency} + gradient / {rate_text(row.line.bytes_per_s)}.", ""]


def _inside(group: Sequence[PredictedStep]) -> list[str]:
    head = ["gradient", "predicted", "how", "by the line", "last", "first"]
    head += ["last / predicted", "last / line", f"within {_PERCENT}", "of step"]
    return markdown_table(
        head,
        [
            [
                payload_text(row.case.payload_bytes),
                _seconds(row.predicted_s),
                row.how,
                _seconds(row.line_s),
                _seconds(row.last_s),
                _seconds(row.first_s),
                _ratio(row.ratio),
                _ratio(row.line_ratio),
                _agreement(row),
                _share(row),
            ]
            for row in group
        ],
    )


def _beyond(rows: Sequence[PredictedStep]) -> list[str]:
    head = ["case", "gradient", "step", "one device", "beyond", "predicted"]
    head += ["how", "beyond / predicted", f"within {_PERCENT}", "of step"]
    return markdown_table(
        head,
        [
            [
                _kind_text(row.case),
                payload_text(row.case.payload_bytes),
                _seconds(row.step_s),
                _seconds(row.single_s),
                _seconds(row.measured_s),
                _seconds(row.predicted_s),
                row.how or "-",
                _ratio(row.ratio),
                _agreement(row),
                _share(row),
            ]
            for row in rows
        ],
    )


def _kind_text(case: Case) -> str:
    return f"{case.framework} {case.workload.kind}, {case.strategy}, {plural(case.ranks, 'rank')}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    sign = "-" if seconds < 0 else ""
    return f"{sign}{seconds_text(abs(seconds), digits=3)}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None or ratio <= 0 else f"{ratio:.2f}"


def _agreement(row: PredictedStep) -> str:
    if row.ratio is None or row.ratio <= 0:
        return "-"
    return "yes" if agrees(row.ratio) else "no"


def _share(row: PredictedStep) -> str:
    return "-" if row.share is None or row.share <= 0 else f"{100 * row.share:.0f} %"
