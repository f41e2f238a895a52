"""Predicted against measured communication of training steps: the page, its words, its document.

Every sentence that says where the prediction holds is made from the figures of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources

from busbw.model import Case, payload_text, plural, rate_text, seconds_text
from busbw.report import (
    Column,
    Table,
    attributes,
    filled,
    item,
    percent_text,
    rendered,
    rows_of,
    section,
    span_text,
)
from busbw.workloads import DenseStep

from .steps import AGREEMENT, PredictedStep, agrees

# Payloads and, of each, measured over predicted.
_Sizes = Sequence[tuple[int, float]]
_TEXTS = resources.files(__package__)
_PERCENT = f"{100 * AGREEMENT:.0f} %"


def _seconds(seconds: float) -> str:
    sign = "-" if seconds < 0 else ""
    return f"{sign}{seconds_text(abs(seconds), digits=3)}"


def _ratio(ratio: float) -> str:
    return "-" if ratio <= 0 else f"{ratio:.2f}"


def _agreement(ratio: float) -> str:
    if ratio <= 0:
        return "-"
    return "yes" if agrees(ratio) else "no"


def _share(share: float) -> str:
    return "-" if share <= 0 else f"{percent_text(share)} %"


_RECORDED_COLUMNS = (
    Column("payload_bytes", "gradient", text=payload_text),
    Column("predicted_s", "predicted", text=_seconds),
    Column("how", "how"),
    Column("line_s", "by the line", text=_seconds),
    Column("last_s", "last", text=_seconds),
    Column("first_s", "first", text=_seconds),
    Column("ratio", "last / predicted", text=_ratio),
    Column("line_ratio", "last / line", text=_ratio),
    Column("within", f"within {_PERCENT}", text=_agreement),
    Column("share", "of step", text=_share),
)
_STRATEGY_COLUMNS = (
    Column("kind", "case"),
    Column("payload_bytes", "gradient", text=payload_text),
    Column("step_s", "step", text=_seconds),
    Column("single_s", "one device", text=_seconds),
    Column("measured_s", "beyond", text=_seconds),
    Column("predicted_s", "predicted", text=_seconds),
    Column("how", "how", text=lambda how: how or "-"),
    Column("ratio", "beyond / predicted", text=_ratio),
    Column("within", f"within {_PERCENT}", text=_agreement),
    Column("share", "of step", text=_share),
)


def prediction_page(
    rows: Sequence[PredictedStep], machines: Sequence[str], notes: Sequence[str] = ()
) -> list[str]:
    """The whole page; `machines` say where the rows were measured, `notes` where the curves."""
    recorded = [row for row in rows if isinstance(row.case.workload, DenseStep)]
    others = [row for row in rows if not isinstance(row.case.workload, DenseStep)]
    sources = [*(f"Measured on {machine}" for machine in machines), *notes]
    lines = filled(
        _TEXTS / "page.md",
        percent=[_PERCENT],
        sources=[*(f"{source}.  " for source in sources), ""],
        summary=_summary(recorded, others),
    )
    if recorded:
        lines += ["", *filled(_TEXTS / "recorded.md", groups=_recorded_groups(recorded))]
    if others:
        table = _table(_STRATEGY_COLUMNS, others)
        lines += ["", *filled(_TEXTS / "strategies.md", table=rendered("markdown", table))]
    return lines


def prediction_table(rows: Sequence[PredictedStep]) -> Table:
    """Everything known of each case, for a document."""
    known = [_known(row) for row in rows]
    columns = tuple(map(Column, known[0])) if known else ()
    return Table(columns=columns, rows=rows_of(known))


def _known(row: PredictedStep) -> dict[str, object]:
    predicted = ("step_s", "predicted_s", "how", "line_s")
    measured = ("last_s", "first_s", "single_s", "measured_s", "ratio", "line_ratio")
    return {
        "case": row.case.name,
        **attributes(row.case, "ranks", "payload_bytes"),
        **attributes(row, *predicted, *measured),
        "agrees": None if row.ratio is None else agrees(row.ratio),
        **attributes(row, "share", "unpredicted"),
    }


def _groups(rows: Sequence[PredictedStep]) -> Iterator[tuple[str, list[PredictedStep]]]:
    """All payloads of one kind, ascending; kinds in the order of their names."""
    kinds: dict[tuple[str, int], list[PredictedStep]] = {}
    for row in sorted(rows, key=lambda row: row.case.payload_bytes):
        kinds.setdefault((row.case.group_name, row.case.ranks), []).append(row)
    for (name, ranks), group in sorted(kinds.items(), key=lambda kind: kind[0]):
        yield f"{name}, {plural(ranks, 'rank')}", group


def _summary(recorded: Sequence[PredictedStep], others: Sequence[PredictedStep]) -> list[str]:
    lines = []
    for name, group in _groups(recorded):
        sizes = [row.case.payload_bytes for row in group]
        for what, ratios in (
            ("curve", [row.ratio for row in group]),
            ("line", [row.line_ratio for row in group]),
        ):
            known = [(size, ratio) for size, ratio in zip(sizes, ratios) if ratio]
            lines += item(f"{name}: the {what} {_agreeing(known)}.")
    for row in others:
        lines += item(f"{_kind_text(row.case)}: {_one(row)}.")
    return lines


def _agreeing(known: _Sizes) -> str:
    """At which gradients the prediction holds, at which not, and by how much."""
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


def _all(known: _Sizes) -> str:
    sizes = span_text([size for size, _ in known])
    return f"from {sizes}" if len(known) > 1 else f"at {sizes}"


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
    """The sentence on one strategy."""
    measured_s = row.measured_s
    if measured_s is None:
        return "one device's step was not measured, so the communication is unknown"
    if measured_s <= 0:
        spared = seconds_text(-measured_s, digits=3)
        return (
            f"a step does not take longer than one device's, but {spared} less: nothing to compare"
        )
    took = f"a step takes {seconds_text(measured_s, digits=3)} beyond one device's"
    if row.predicted_s is None:
        return f"{took}; not predicted: {row.unpredicted}"
    assert row.ratio is not None
    holds = "holds" if agrees(row.ratio) else "does not hold"
    predicted = seconds_text(row.predicted_s, digits=3)
    return f"{took}, {row.ratio:.2f} times the {predicted} predicted by the curve, which {holds}"


def _recorded_groups(rows: Sequence[PredictedStep]) -> list[str]:
    lines: list[str] = []
    for name, group in _groups(rows):
        line, above = group[0].line, []
        if line is not None:
            latency = seconds_text(line.latency_s, digits=3)
            above = [f"The line: {latency} + gradient / {rate_text(line.bytes_per_s)}.", ""]
        lines += ["", *section(name, _table(_RECORDED_COLUMNS, group), above)]
    return lines[1:]


def _table(columns: tuple[Column, ...], rows: Sequence[PredictedStep]) -> Table:
    shown = ({**_known(row), "kind": _kind_text(row.case), "within": row.ratio} for row in rows)
    return Table(columns=columns, rows=rows_of(shown), missing="-")


def _kind_text(case: Case) -> str:
    return f"{case.framework} {case.workload.kind}, {case.strategy}, {plural(case.ranks, 'rank')}"
