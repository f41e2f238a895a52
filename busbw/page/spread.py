"""How far launches, processes and ranks of a session differ, relative to their medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from busbw.model.case import Spec
from busbw.model.launch import Measurement, Run
from busbw.report.reading import Session

from .chart import Axis, Chart, Rule, Scale, Series, Style
from .curves import MOST_CURVES, PAYLOAD, Curve, curves_of, names_of, shared_text

_DEVIATION = Axis(name="difference from the median", unit="%")
_RATIO = Axis(name="time over the median")
# What a log of ranks can show side by side.
_MOST_MEMBERS = 64


def launches(session: Session) -> Chart | None:
    """Every launch of every case against the case's median; None where no case has several."""
    curves = [one for one in curves_of(session) if any(map(_deviations, _times(one)))]
    if not curves or len(curves) > MOST_CURVES:
        return None
    named = dict(zip(names_of(curves), curves, strict=True))
    series = tuple(
        Series(
            name=name,
            style=Style.DOTS,
            points=tuple(
                (cell.case.payload_bytes, off)
                for cell, times in zip(one.cells, _times(one))
                for off in _deviations(times)
            ),
        )
        for name, one in named.items()
    )
    return Chart(
        title="Launches",
        subtitle=f"{shared_text(curves)}. Each launch is a worker process of its own.",
        x=PAYLOAD,
        y=_DEVIATION,
        series=series,
        rules=(Rule(label="median", at=0.0),),
    )


def _times(curve: Curve) -> list[Sequence[float]]:
    return [one.verdict.now.times_s if one.verdict.now else () for one in curve.cells]


def _deviations(times_s: Sequence[float]) -> list[float]:
    """In per cent of the median; nothing for a single launch."""
    if len(times_s) < 2:
        return []
    median = statistics.median(times_s)
    return [100 * (one / median - 1) for one in times_s]


def processes(session: Session) -> Chart | None:
    """What each process of a group takes for its own work; None where there is a single one."""
    hosts = session.process_hosts

    def name(index: int) -> str:
        return f"{index} ({hosts[index]})" if index < len(hosts) and hosts[index] else str(index)

    return _members(
        session,
        lambda run: run.process_own_s,
        name,
        title="Processes",
        axis="process",
        subtitle="The time of a process between two calls, where it waits for no other, over the "
        "median of all processes. A point for each payload; the others wait for the slowest.",
    )


def ranks(session: Session) -> Chart | None:
    return _members(
        session,
        lambda run: run.rank_times_s,
        str,
        title="Ranks",
        axis="rank",
        subtitle="The time of a rank in the collective over the median of all ranks. A point for "
        "each payload. The rank that comes last waits for no other: its time is the shortest.",
    )


def _members(
    session: Session,
    times: Callable[[Run], Sequence[float]],
    name: Callable[[int], str],
    *,
    title: str,
    axis: str,
    subtitle: str,
) -> Chart | None:
    curves = curves_of(session)[:MOST_CURVES]
    series = [
        Series(name=label, style=Style.DOTS, points=points)
        for label, curve in zip(names_of(curves), curves)
        if (points := tuple(_points(curve, session.measurements, times, name)))
    ]
    if not series:
        return None
    return Chart(
        title=title,
        subtitle=subtitle,
        x=Axis(name=axis, scale=Scale.CATEGORY),
        y=_RATIO,
        series=tuple(series),
        rules=(Rule(label="median", at=1.0),),
    )


def _points(
    curve: Curve,
    measurements: Mapping[Spec, Measurement],
    times: Callable[[Run], Sequence[float]],
    name: Callable[[int], str],
) -> Iterator[tuple[str, float]]:
    """The median over launches of each member's ratio to the others, for each payload."""
    for cell in curve.cells:
        measured = measurements.get(cell.verdict.spec)
        found = [times(run) for run in measured.runs] if measured else []
        # Nothing is a multiple of no time at all.
        found = [each for each in found if not each or statistics.median(each) > 0]
        count = min(map(len, found), default=0)
        if not 2 <= count <= _MOST_MEMBERS:
            continue
        ratios = [[one / statistics.median(each) for one in each] for each in found]
        for index in range(count):
            yield name(index), statistics.median(each[index] for each in ratios)
