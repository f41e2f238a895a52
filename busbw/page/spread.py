"""How far launches, processes and ranks of a session differ."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from busbw.model.launch import Run
from busbw.report.reading import Session

from .chart import Axis, Chart, Kind, Point, Scale, series
from .curves import MOST_CURVES, PAYLOAD, Curve, curves_of, named, shared_text

_DEVIATION = Axis(name="difference from the median", unit="%")
_RATIO = Axis(name="time over the median")
# What a log of ranks can show side by side.
_MOST_MEMBERS = 64


def launches(session: Session) -> Chart | None:
    """Every launch of every case against the case's median; None where no case has several."""
    curves = [one for one in curves_of(session) if list(_deviations(one))]
    if not curves or len(curves) > MOST_CURVES:
        return None
    rows = [
        row
        for name, of in named(curves).items()
        for row in series(name, _deviations(of), Kind.DOTS)
    ]
    return Chart(
        title="Launches",
        subtitle=f"{shared_text(curves)}. Each launch is a worker process of its own.",
        x=PAYLOAD,
        y=_DEVIATION,
        points=(*rows, Point(kind=Kind.LEVEL, name="median", y=0.0)),
    )


def _deviations(curve: Curve) -> Iterator[tuple[int, float]]:
    """In per cent of the median; nothing for a single launch."""
    for one in curve.verdicts:
        times_s = one.now.times_s if one.now is not None else ()
        if len(times_s) > 1:
            median = statistics.median(times_s)
            yield from ((one.spec.payload_bytes, 100 * (time / median - 1)) for time in times_s)


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
    curves = named(curves_of(session)[:MOST_CURVES])
    rows = [
        Point(kind=Kind.DOTS, name=label, x=name(index), y=ratio)
        for label, curve in curves.items()
        for index, ratio in _ratios(curve, times)
    ]
    if not rows:
        return None
    return Chart(
        title=title,
        subtitle=subtitle,
        x=Axis(name=axis, scale=Scale.CATEGORY),
        y=_RATIO,
        points=(*rows, Point(kind=Kind.LEVEL, name="median", y=1.0)),
    )


def _ratios(curve: Curve, times: Callable[[Run], Sequence[float]]) -> Iterator[tuple[int, float]]:
    """The median over launches of each member's ratio to the others, for each payload."""
    for one in curve.verdicts:
        measured = curve.session.measurements.get(one.spec)
        found = [times(run) for run in measured.runs] if measured else []
        # Nothing is a multiple of no time at all.
        found = [each for each in found if not each or statistics.median(each) > 0]
        count = min(map(len, found), default=0)
        if 2 <= count <= _MOST_MEMBERS:
            medians = [statistics.median(each) for each in found]
            for index in range(count):
                ratios = [each[index] / median for each, median in zip(found, medians)]
                yield index, statistics.median(ratios)
