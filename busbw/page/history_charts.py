"""The history of a case as a chart, and that of a machine as a heat map.

The chart has every launch or, of many nights, the least and greatest of each; the levels, what
changed, and nights without a time. In the heat map a night's time is over that of the case's own
first nights, and not over its baseline, which moves when a loss is accepted: what was accepted
stays in sight.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from busbw.history.lines import Line
from busbw.model.words import Outcome, payload_text, plural, seconds_text

from .chart import (
    Axis,
    Band,
    Chart,
    Direction,
    Gap,
    Heatmap,
    HeatmapCell,
    HeatmapMark,
    HeatmapRow,
    Mark,
    Position,
    Rule,
    Scale,
    Series,
    Style,
)
from .nights import FIRST_NIGHTS, CaseNights, MachineNights, StackChange

# More rules than these would hide the rest: then only those where a level changed.
_MOST_RULES = 15
# Farther from each other, times are shown by their ratios.
_WIDE = 4.0
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_LAUNCHES, _LEVEL = "launches", "level"
# More are a band from the least to the greatest of a night.
_MOST_DOTS = 150


def case_history(machine: MachineNights, case: CaseNights) -> Chart:
    """The chart of a case of that machine. Raises ValueError where it has no night at all."""
    nights = [at for at, one in enumerate(case.nights) if one is not None]
    if not nights:
        raise ValueError(f"{case.case.name}: there is no night")
    unit_s, unit = _unit(case)
    points = tuple(
        (machine.nights[at].began, time_s / unit_s)
        for at, one in enumerate(case.nights)
        if one is not None
        for time_s in one.times_s
    )
    is_long = len(points) > _MOST_DOTS
    times = [y for _, y in points]
    is_wide = bool(times) and max(times) > _WIDE * min(times)
    marks = (*_changes(case, unit_s), *_gaps(machine, case))
    rules, left_out = _rules(machine, case)
    title = f"{case.case.group_name}, {payload_text(case.case.payload_bytes)}: time by night"
    subtitle = _subtitle(machine, case, nights, left_out)
    return Chart(
        title=title,
        subtitle=subtitle,
        x=Axis(name="night", scale=Scale.TIME),
        y=Axis(name="time", unit=unit, scale=Scale.LOG10 if is_wide else Scale.LINEAR),
        series=(
            *([] if is_long else [Series(name=_LAUNCHES, points=points, style=Style.DOTS)]),
            Series(name=_LEVEL, points=tuple(_level(machine, case, unit_s)), style=Style.LINE),
        ),
        bands=(Band(name=_LAUNCHES, points=tuple(_ends(points))),) if is_long else (),
        rules=rules,
        marks=marks,
        description=" ".join([f"{title}. {subtitle}.", *_sentences(case)]),
    )


def _ends(points: Sequence[tuple[datetime, float]]) -> Iterator[tuple[Position, float, float]]:
    """The least and the greatest launch of each night."""
    for began, those in itertools.groupby(points, lambda point: point[0]):
        times = [y for _, y in those]
        yield began, min(times), max(times)


def _unit(case: CaseNights) -> tuple[float, str]:
    newest_s = case.newest_s or 0.0
    return next((one for one in _UNITS if newest_s >= one[0]), _UNITS[-1])


def _level(
    machine: MachineNights, case: CaseNights, unit_s: float
) -> Iterator[tuple[Position, float]]:
    for one in case.levels:
        for at in dict.fromkeys((one.first, one.last)):
            yield machine.nights[at].began, one.level_s / unit_s


def _changes(case: CaseNights, unit_s: float) -> Iterator[Mark]:
    for change, level in zip(case.changes, case.levels[1:], strict=True):
        yield Mark(label=change.text, x=change.began, y=level.level_s / unit_s, series=_LEVEL)


def _gaps(machine: MachineNights, case: CaseNights) -> Iterator[Mark]:
    for at, one in enumerate(case.nights):
        if one is not None and one.outcome in (Outcome.FAILED, Outcome.OUT_OF_MEMORY):
            yield Mark(label=one.outcome.value, x=machine.nights[at].began)


def _rules(machine: MachineNights, case: CaseNights) -> tuple[tuple[Rule, ...], int]:
    found: Sequence[StackChange] = machine.series_of(case).stack_changes
    first = next(at for at, one in enumerate(case.nights) if one is not None)
    found = [one for one in found if one.night > first]
    changed = {one.night for one in case.changes}
    kept = [one for one in found if one.night in changed or len(found) <= _MOST_RULES]
    # Where there is no room for all labels, those of changed levels are written.
    kept.sort(key=lambda one: one.night not in changed)
    rules = tuple(
        Rule(
            label=", ".join(one.changes),
            at=machine.nights[one.night].began,
            direction=Direction.VERTICAL,
        )
        for one in kept
    )
    return rules, len(found) - len(kept)


def _subtitle(
    machine: MachineNights, case: CaseNights, nights: Sequence[int], left_out: int
) -> str:
    first, last = (machine.nights[at].began for at in (nights[0], nights[-1]))
    said = [machine.folder]
    said += [case.series] if machine.series_of(case).in_turn else []
    said.append(f"{first:%Y-%m-%d} to {last:%Y-%m-%d}, {plural(len(nights), 'night')}")
    if case.levels:
        said.append(f"newest level {seconds_text(case.levels[-1].level_s)}")
    if left_out:
        said.append(f"versions changed in {plural(left_out, 'other night')}")
    return " · ".join(said)


def _sentences(case: CaseNights) -> Iterator[str]:
    for change in case.changes:
        yield f"{change.sentence}."
    for outcome in (Outcome.OUT_OF_MEMORY, Outcome.FAILED):
        count = sum(one is not None and one.outcome is outcome for one in case.nights)
        if count:
            yield f"{outcome.value} in {plural(count, 'night')}."
    if not case.changes:
        yield "The level did not change."


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
    rows = tuple(_heatmap_row(group, case, begin) for group, case in cases)
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
        description=" ".join([f"{title}. {subtitle}", *_heatmap_sentences(rows)]),
    )


def _heatmap_row(group: str, case: CaseNights, begin: int) -> HeatmapRow:
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


def _cell(night: Line | None, first_s: float | None) -> HeatmapCell:
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


def _heatmap_sentences(rows: Sequence[HeatmapRow]) -> Iterator[str]:
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
