"""Busbw over payload: a curve for each framework and strategy of each session.

The curves of one session have their baselines, and the losses that would not have been flagged;
with more curves than a reader can follow these are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from busbw.model import Outcome, moment_text, plural

from ..chart import Band, Chart, Edge, Mark, Rule, Series, Style
from ..reading import Cell, Session
from .curves import BUSBW, PAYLOAD, collectives_text, sentence

_MOST_CURVES = 12
_MOST_WITH_BASELINES = 3
_MOST_RULES = 3
_LONGEST_SOURCE = 60
_MARKED = (Outcome.REGRESSED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Curve:
    """The cells of one kind in one session, by payload."""

    session: Session
    cells: tuple[Cell, ...]

    @property
    def framework(self) -> str:
        return self.cells[0].case.framework


def bandwidth(sessions: Sequence[Session]) -> Chart:
    """The chart of at least one session. Raises ValueError where there is nothing to draw."""
    curves = [curve for one in sessions for curve in _curves(one)]
    if not any(cell.measured for one in curves for cell in one.cells):
        raise ValueError("no bandwidth of a collective by itself")
    if len(curves) > _MOST_CURVES:
        raise ValueError(f"{len(curves)} curves; accepted are {_MOST_CURVES} in one chart")
    named = dict(zip(_names(curves), curves, strict=True))
    series = [_measured(name, one) for name, one in named.items()]
    marks = tuple(mark for name, one in named.items() for mark in _marks(name, one))
    with_baselines = len(sessions) == 1 and len(curves) <= _MOST_WITH_BASELINES
    baselines = [one for n, c in named.items() for one in _baseline(n, c) if with_baselines]
    bands = [one for n, c in named.items() for one in _bands(n, c) if with_baselines]
    title = f"{collectives_text(one.cells[0].case.collective for one in curves)}: bus bandwidth"
    subtitle = _shared(curves)
    rules, ceilings = _ceilings(named)
    said = [f"{title}. {subtitle}.", *(sentence(one, marks) for one in series)]
    said += [f"{one.label}." for one in rules]
    return Chart(
        title=title,
        subtitle=subtitle,
        x=PAYLOAD,
        y=BUSBW,
        series=(*series, *baselines, *ceilings, *_published(curves)),
        bands=tuple(bands),
        rules=rules,
        marks=marks,
        description=" ".join(said),
    )


def _curves(session: Session) -> list[_Curve]:
    """The cells of bare collectives by what all payloads of a curve share."""
    found: dict[tuple[object, ...], list[Cell]] = {}
    for cell in session.cells:
        if cell.case.workload.is_bare:
            case = cell.case
            place = (case.ranks, case.mesh, case.placement, case.protocol.clock)
            found.setdefault((case.group_name, *place), []).append(cell)
    return [
        _Curve(
            session=session,
            cells=tuple(sorted(cells, key=lambda one: one.case.payload_bytes)),
        )
        for cells in found.values()
    ]


def _points(curve: _Curve, value: Callable[[Cell], float | None]) -> tuple[tuple[int, float], ...]:
    found = {one.case.payload_bytes: value(one) for one in curve.cells}
    return tuple((payload, rate) for payload, rate in found.items() if rate is not None)


def _measured(name: str, curve: _Curve) -> Series:
    return Series(name=name, group=name, points=_points(curve, lambda one: one.measured))


def _baseline(name: str, curve: _Curve) -> list[Series]:
    points = _points(curve, lambda one: one.baseline)
    if not points:
        return []
    named = f"{name}: baseline"
    return [Series(name=named, group=name, points=points, style=Style.LINE)]


def _bands(name: str, curve: _Curve) -> list[Band]:
    """From the baseline down to what would have been flagged, or to the limit where that is all."""
    is_known = any(one.flagged for one in curve.cells)
    points = []
    for one in curve.cells:
        ratio = one.flagged if is_known else one.limit
        if one.baseline is not None and ratio is not None and ratio > 1:
            points.append((one.case.payload_bytes, one.baseline / ratio, one.baseline))
    what = "loss too small to be flagged" if is_known else "loss within the limit"
    return [Band(name=f"{name}: {what}", group=name, points=tuple(points))] if points else []


def _marks(name: str, curve: _Curve) -> list[Mark]:
    return [
        Mark(
            label=one.outcome.value,
            x=one.case.payload_bytes,
            y=one.measured,
            edge=Edge.BOTTOM,
            series=name,
        )
        for one in curve.cells
        if one.outcome in _MARKED
    ]


def _ceilings(named: Mapping[str, _Curve]) -> tuple[tuple[Rule, ...], tuple[Series, ...]]:
    """A rule for each ceiling, or where they change with the payload a line for each curve."""
    found = {
        (round(one.ceiling.bytes_per_s / 1e9, 6), one.ceiling.text)
        for curve in named.values()
        for one in curve.cells
        if one.ceiling is not None
    }
    if len(found) <= _MOST_RULES:
        rules = (Rule(label=f"ceiling {rate:.4g} GB/s: {text}", at=rate) for rate, text in found)
        return tuple(sorted(rules, key=lambda one: one.label)), ()
    lines = (
        Series(name=f"{name}: ceiling", group=name, points=points, style=Style.LINE)
        for name, curve in named.items()
        if (points := _points(curve, _ceiling))
    )
    return (), tuple(lines)


def _ceiling(cell: Cell) -> float | None:
    return None if cell.ceiling is None else cell.ceiling.bytes_per_s / 1e9


def _published(curves: Sequence[_Curve]) -> list[Series]:
    """A series for each source, whichever curves it stands next to."""
    found: dict[str, dict[int, float]] = {}
    for curve in curves:
        for one in curve.cells:
            if one.published is not None:
                of_source = found.setdefault(one.published_source, {})
                of_source.setdefault(one.case.payload_bytes, one.published)
    return [
        Series(
            name=f"published: {source[:_LONGEST_SOURCE]}",
            points=tuple(sorted(points.items())),
            style=Style.DOTS,
        )
        for source, points in found.items()
    ]


# What a curve's name may have, and what is said of all curves where it is the same for all.
_Words = Mapping[str, Callable[[_Curve], str]]
_KIND: _Words = {
    "collective": lambda one: one.cells[0].case.collective.replace("_", "-"),
    "reduce_op": lambda one: one.cells[0].case.reduce_op,
    "placement": lambda one: one.cells[0].case.placement.replace("_", " "),
    "dtype": lambda one: one.cells[0].case.dtype,
    "device": lambda one: one.session.device_kind,
    "ranks": lambda one: f"{one.cells[0].case.group_size} ranks",
    "mesh": lambda one: one.cells[0].case.mesh,
    "axes": lambda one: one.cells[0].case.axes and f"along {one.cells[0].case.axes}",
    "clock": lambda one: f"{one.cells[0].case.clock.value} clock",
}
_WHERE: _Words = {
    "processes": lambda one: plural(one.session.processes, "process"),
    "host": lambda one: one.session.host and f"on {one.session.host}",
    "date": lambda one: f"{one.session.began:%Y-%m-%d}" if one.session.began else "",
}
_LAST: _Words = {
    "time": lambda one: moment_text(one.session.began) if one.session.began else "",
    "commit": lambda one: one.session.commit and f"at {one.session.commit[:12]}",
    "file": lambda one: PurePath(one.session.name).name,
    "path": lambda one: one.session.name,
}


def _names(curves: Sequence[_Curve]) -> list[str]:
    """A name for each curve: framework and strategy, and in what it differs from others."""
    names = [f"{one.framework} {one.cells[0].case.strategy}" for one in curves]
    for words in (*_KIND.values(), *_WHERE.values()):
        found = [words(one) for one in curves]
        if len(set(found)) > 1:
            names = [f"{name}, {one}" if one else name for name, one in zip(names, found)]
    names = _with_versions(names, curves)
    for words in _LAST.values():
        found = [words(one) for one in curves]
        alike = {name: {w for w, other in zip(found, names) if other == name} for name in names}
        names = [
            f"{name}, {word}" if word and len(alike[name]) > 1 else name
            for name, word in zip(names, found)
        ]
    return [
        f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def _with_versions(names: Sequence[str], curves: Sequence[_Curve]) -> list[str]:
    """With the version of a framework of which there are several."""
    versions = [one.session.version(one.framework) for one in curves]
    several = {
        one.framework
        for one in curves
        if len({v for v, other in zip(versions, curves) if other.framework == one.framework}) > 1
    }
    return [
        f"{name}, {version}" if one.framework in several and version else name
        for name, one, version in zip(names, curves, versions)
    ]


def _shared(curves: Sequence[_Curve]) -> str:
    """What is the same for all curves; usual values are left out."""
    said: list[str] = []
    for name in ("device", "ranks", "mesh", "axes", "dtype", "clock", "host", "date"):
        words = {**_KIND, **_WHERE}[name]
        found = {words(one) for one in curves}
        said += found if len(found) == 1 else ()
    versions = {one.framework: set[str]() for one in curves}
    for one in curves:
        versions[one.framework].add(one.session.version(one.framework))
    said += [text for found in versions.values() if len(found) == 1 for text in found]
    return " · ".join(filter(None, said))
