"""The history of a case as a chart, and that of a machine as a heat map.

The chart has every launch or, of many nights, the least and greatest of each; the levels, what
changed, and nights without a time. In the heat map a night's time is over that of the case's own
first nights, and not over its baseline, which moves when a loss is accepted: what was accepted
stays in sight.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from busbw.history.lines import Line, Series
from busbw.model.words import Outcome, payload_text, plural, seconds_text

from .chart import (
    Axis,
    Chart,
    Gap,
    Heatmap,
    HeatmapCell,
    HeatmapRow,
    Kind,
    Point,
    Scale,
    mark,
    series,
)
from .nights import FIRST_NIGHTS, CaseNights, MachineNights

# More of them would hide the rest: then only those where a level changed.
_MOST_MOMENTS = 15
# Farther from each other, times are shown by their ratios.
_WIDE = 4.0
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
# More launches are a band from the least to the greatest of a night.
_MOST_DOTS = 150


def case_history(machine: MachineNights, case: CaseNights) -> Chart:
    """The chart of a case of that machine. Raises ValueError where it has no night at all."""
    if not case.nights:
        raise ValueError(f"{case.case.name}: there is no night")
    unit_s, unit = next((one for one in _UNITS if (case.newest_s or 0.0) >= one[0]), _UNITS[-1])
    times = [time_s / unit_s for line in case.nights.values() for time_s in line.times_s]
    is_wide = bool(times) and max(times) > _WIDE * min(times)
    began = [one.began for one in machine.nights]
    levels = [
        (began[at], one.level_s / unit_s)
        for one in case.levels
        for at in dict.fromkeys((one.first, one.last))
    ]
    lost = filter(_is_lost, case.nights.values())
    changes = zip(case.changes, case.levels[1:], strict=True)
    moments, left_out = _moments(machine, case)
    title = f"{case.case.group_name}, {payload_text(case.case.payload_bytes)}: time by night"
    subtitle = _subtitle(machine, case, left_out)
    return Chart(
        title=title,
        subtitle=subtitle,
        x=Axis(name="night", scale=Scale.TIME),
        y=Axis(name="time", unit=unit, scale=Scale.LOG10 if is_wide else Scale.LINEAR),
        points=(
            *_launches(case, unit_s, is_long=len(times) > _MOST_DOTS),
            *series("level", levels, Kind.LINE),
            *moments,
            *(mark(c.text, c.began, to.level_s / unit_s, "level") for c, to in changes),
            *(mark(one.outcome.value, one.began, None) for one in lost),
        ),
        description=" ".join([f"{title}. {subtitle}.", *_sentences(case)]),
    )


def _launches(case: CaseNights, unit_s: float, *, is_long: bool) -> Iterator[Point]:
    name = "launches"
    lines = case.nights.values()
    nights = [(one.began, [time_s / unit_s for time_s in one.times_s]) for one in lines]
    if not is_long:
        dots = [(began, time) for began, times in nights for time in times]
        yield from series(name, dots, Kind.DOTS)
        return
    for x, times in nights:
        if times:
            yield Point(kind=Kind.BAND, name=name, x=x, y=min(times), y2=max(times))


def _is_lost(night: Line) -> bool:
    return night.outcome in (Outcome.FAILED, Outcome.OUT_OF_MEMORY)


def _moments(machine: MachineNights, case: CaseNights) -> tuple[list[Point], int]:
    """What changed when, and how many of these are left out."""
    first = min(case.nights)
    found = {at: changes for at, changes in case.stack_changes.items() if at > first}
    changed = {one.night for one in case.changes}
    kept = [at for at in found if at in changed or len(found) <= _MOST_MOMENTS]
    # Where there is no room for all labels, those of changed levels are written.
    kept.sort(key=lambda at: at not in changed)
    moments = [
        Point(kind=Kind.MOMENT, name=", ".join(found[at]), x=machine.nights[at].began)
        for at in kept
    ]
    return moments, len(found) - len(kept)


def _subtitle(machine: MachineNights, case: CaseNights, left_out: int) -> str:
    first, *_ = lines = list(case.nights.values())
    said = [machine.folder]
    said += [case.series.text] if case.series.stack else []
    count = plural(len(lines), "night")
    said.append(f"{first.began:%Y-%m-%d} to {lines[-1].began:%Y-%m-%d}, {count}")
    if case.levels:
        said.append(f"newest level {seconds_text(case.levels[-1].level_s)}")
    if left_out:
        said.append(f"versions changed in {plural(left_out, 'other night')}")
    return " · ".join(said)


def _sentences(case: CaseNights) -> Iterator[str]:
    for change in case.changes:
        yield f"{change.sentence}."
    for outcome in (Outcome.OUT_OF_MEMORY, Outcome.FAILED):
        count = sum(one.outcome is outcome for one in case.nights.values())
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
    nights = machine.nights[-_MOST_NIGHTS:]
    begin = len(machine.nights) - len(nights)
    rows = tuple(_heatmap_row(group, case, begin) for group, case in _grouped(machine.cases))
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
        edges=_edges(machine.cases),
        description=" ".join([f"{title}. {subtitle}", *_heatmap_sentences(rows)]),
    )


def _grouped(cases: Sequence[CaseNights]) -> list[tuple[str, CaseNights]]:
    """By what all sizes share, in the order of sizes; with the protocol where there are several."""
    protocols: dict[tuple[Series, str], set[str]] = {}
    for one in cases:
        kind = one.series, one.case.group_name
        protocols.setdefault(kind, set()).add(one.case.protocol.text)
    order = list(protocols)
    found: dict[str, list[CaseNights]] = {}

    def place(one: CaseNights) -> tuple[bool, int]:
        return bool(one.series.stack), order.index((one.series, one.case.group_name))

    for one in sorted(cases, key=place):
        name = one.case.group_name
        name += f", {one.case.protocol.text}" if len(protocols[one.series, name]) > 1 else ""
        name += f", {one.series.text}" if one.series.stack else ""
        found.setdefault(name, []).append(one)
    return [
        (name, case)
        for name, those in found.items()
        for case in sorted(those, key=lambda one: one.case.payload_bytes)
    ]


def _heatmap_row(group: str, case: CaseNights, begin: int) -> HeatmapRow:
    first_s = case.first_s
    cells = [
        Gap.INJECTED if at in case.injected else _cell(case.nights.get(at), first_s)
        for at in range(begin, case.count)
    ]
    changes = [one for one in case.changes if one.night >= begin]
    return HeatmapRow(
        group=group,
        label=payload_text(case.case.payload_bytes),
        cells=tuple(cells),
        marks=tuple((one.night - begin, one.sentence) for one in changes),
    )


def _cell(night: Line | None, first_s: float | None) -> HeatmapCell:
    if night is not None and _is_lost(night):
        return Gap(night.outcome.value)
    time_s = None if night is None else night.time_s
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
        texts = [text for _, text in row.marks]
        for gap in (Gap.OUT_OF_MEMORY, Gap.FAILED, Gap.INJECTED):
            count = row.cells.count(gap)
            texts += [f"{gap.value} in {plural(count, 'night')}"] if count else []
        if texts:
            found.setdefault(row.group, []).append(f"{row.label} {'; '.join(texts)}")
    for group, those in found.items():
        yield f"{group}: {', '.join(those)}."
    if not found:
        yield "No level changed."
