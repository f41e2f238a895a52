"""The heat map of a machine: what each case takes from night to night, over what it took at first.

A night's time is over that of the case's own first nights, and not over its baseline, which moves
when a loss is accepted: what was accepted stays in sight.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from busbw.model.words import Outcome, payload_text, plural

from ..heatmap import Gap, Heatmap, HeatmapCell, HeatmapMark, HeatmapRow
from ..nights import FIRST_NIGHTS, CaseNight, CaseNights, MachineNights

# A year of nights is what a picture has room for.
_MOST_NIGHTS = 400
# Ends of bins: the first of these whose middle bin holds the usual noise.
_EDGES = ((0.03, 0.06, 0.12, 0.25), (0.06, 0.12, 0.25, 0.5), (0.12, 0.25, 0.5, 1.0))
_WIDEST = (0.25, 0.5, 1.0, 2.0)
_DEVIATIONS = 2.0
# The median of absolute differences of normal values, in their standard deviations.
_MEDIAN_STEP = 0.954


def ratios(machine: MachineNights) -> Heatmap:
    """The heat map of a machine that has cases; those measured in turn come last."""
    rows = [row for one in machine.series if not one.in_turn for row in _grouped(one.cases, "")]
    for one in machine.series:
        if one.in_turn:
            rows += _grouped(one.cases, f", {one.name}")
    return _heatmap(machine, rows)


def _grouped(cases: Sequence[CaseNights], name: str) -> list[tuple[str, CaseNights]]:
    """By what all sizes share, in the order of sizes; with the protocol where there are several."""
    protocols: dict[str, set[str]] = {}
    for one in cases:
        protocols.setdefault(one.case.group_name, set()).add(one.case.protocol.text)
    found: dict[str, list[CaseNights]] = {}
    for one in sorted(cases, key=lambda one: one.case.payload_bytes):
        group = one.case.group_name
        several = len(protocols[group]) > 1
        group = f"{group}, {one.case.protocol.text}" if several else group
        found.setdefault(group, []).append(one)
    order = [one.case.group_name for one in cases]
    groups = sorted(found.items(), key=lambda item: order.index(item[1][0].case.group_name))
    return [(f"{group}{name}", case) for group, those in groups for case in those]


def _heatmap(machine: MachineNights, cases: Sequence[tuple[str, CaseNights]]) -> Heatmap:
    nights = machine.nights[-_MOST_NIGHTS:]
    begin = len(machine.nights) - len(nights)
    rows = tuple(_row(group, case, begin) for group, case in cases)
    count = plural(len(nights), "night")
    count = f"the newest {count} of {len(machine.nights)}" if begin else count
    span = f"{nights[0].began:%Y-%m-%d} to {nights[-1].began:%Y-%m-%d}"
    title = f"{machine.folder}: time over that of the first {FIRST_NIGHTS} nights"
    subtitle = (
        f"{span}, {count}. A row is a case, a column a night: the median of its launches over the "
        f"median of the case's first {FIRST_NIGHTS} nights. A bar is where its level changed."
    )
    return Heatmap(
        title=title,
        subtitle=subtitle,
        columns=tuple(one.began for one in nights),
        rows=rows,
        edges=_edges([case for _, case in cases]),
        description=" ".join([f"{title}. {subtitle}", *_sentences(rows)]),
    )


def _row(group: str, case: CaseNights, begin: int) -> HeatmapRow:
    first_s = case.first_s
    return HeatmapRow(
        group=group,
        label=payload_text(case.case.payload_bytes),
        cells=tuple(
            Gap.INJECTED if at in case.injected else _cell(night, first_s)
            for at, night in enumerate(case.nights)
        )[begin:],
        marks=tuple(
            HeatmapMark(column=change.night - begin, text=change.sentence)
            for change in case.changes
            if change.night >= begin
        ),
    )


def _cell(night: CaseNight | None, first_s: float | None) -> HeatmapCell:
    if night is None:
        return Gap.MISSING
    if night.outcome is Outcome.FAILED:
        return Gap.FAILED
    if night.outcome is Outcome.OUT_OF_MEMORY:
        return Gap.OUT_OF_MEMORY
    time_s = night.time_s
    return Gap.MISSING if time_s is None or first_s is None else time_s / first_s


def _edges(cases: Sequence[CaseNights]) -> tuple[float, ...]:
    """Bins whose middle one holds what nights usually differ by."""
    steps = [
        abs(math.log(after / before))
        for one in cases
        for before, after in pairwise(one.times_s.values())
    ]
    deviation = statistics.median(steps) / _MEDIAN_STEP if steps else 0.0
    fitting = (one for one in _EDGES if math.log1p(one[0]) >= _DEVIATIONS * deviation)
    return next(fitting, _WIDEST)


def _sentences(rows: Sequence[HeatmapRow]) -> Iterator[str]:
    """What changed, cases with the same words together, and what is without times."""
    found: dict[str, list[str]] = {}
    for row in rows:
        texts = [mark.text for mark in row.marks]
        for gap in (Gap.OUT_OF_MEMORY, Gap.FAILED, Gap.INJECTED):
            count = row.cells.count(gap)
            texts += [f"{gap.value} in {plural(count, 'night')}"] if count else []
        if texts:
            found.setdefault(row.group, []).append(f"{row.label} {'; '.join(texts)}")
    for group, those in found.items():
        yield f"{group}: {', '.join(those)}."
    if not found:
        yield "No level changed."
