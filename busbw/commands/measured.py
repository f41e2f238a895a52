"""A measured curve from a file: the results of a session, or a baseline. Read strictly."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import baselines, judge, wire
from busbw.costmodel import Line, MeasuredCurve
from busbw.model import (
    Case,
    EnvironmentKey,
    Protocol,
    StoredCase,
    check_case,
    check_key,
    check_seconds,
)
from busbw.report import RESULTS_SCHEMA
from busbw.workloads import Collective

from .workload import AskedWrongly


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """All payloads of one kind of all-reduce, and where they were measured."""

    name: str
    ranks: int
    hosts: int
    curve: MeasuredCurve


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    case: Case
    seconds: float


def measured_from(path: Path, words: str | None = None) -> Measured:
    """The curve in `path` whose name has all of `words`. Raises AskedWrongly naming the place."""
    key, groups = _groups(path)
    name = _chosen(path, sorted(groups), (words or "").split())
    chosen = groups[name]
    return Measured(
        name=name,
        ranks=chosen[0].case.group_size,
        hosts=key.hosts,
        curve=_curve_of(chosen),
    )


def curves_in(path: Path) -> tuple[EnvironmentKey, Mapping[Case, MeasuredCurve]]:
    """Where `path` was measured, and every curve in it by what its cases share (`kind_of`).

    Raises AskedWrongly naming the place.
    """
    key, groups = _groups(path)
    return key, {kind_of(group[0].case): _curve_of(group) for group in groups.values()}


def kind_of(case: Case) -> Case:
    """What all payloads of one kind share, timed by any program: the case without the rest."""
    return replace(
        case,
        payload_bytes=0,
        protocol=Protocol(clock=case.clock),
        workload=Collective.around(case.workload),
    )


def _groups(path: Path) -> tuple[EnvironmentKey, dict[str, list[_Point]]]:
    """The points of each curve by its name; a training step's time is none of an all-reduce."""
    try:
        key, points = _points(path)
    except (baselines.BaselineError, wire.WireError) as error:
        raise asked_wrongly(path, error) from error
    groups: dict[str, list[_Point]] = {}
    for point in points:
        if point.case.collective == "all_reduce" and point.case.workload.is_bare:
            if point.case.group_size < 2:
                raise AskedWrongly(f"{path}: {point.case.name}: one rank is no all-reduce")
            groups.setdefault(_name(point.case), []).append(point)
    return key, groups


def asked_wrongly(path: Path, error: Exception) -> AskedWrongly:
    """What is wrong with a file as the sentence that the user reads."""
    text = str(error)
    return AskedWrongly(text if text.startswith(str(path)) else f"{path}: {text}")


def _name(case: Case) -> str:
    return f"{case.group_name}, {case.dtype}, {case.clock.value} clock, {case.group_size} ranks"


def _chosen(path: Path, names: Sequence[str], words: Sequence[str]) -> str:
    fitting = [
        name for name in names if all(word in name.replace(",", " ").split() for word in words)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if not names:
        raise AskedWrongly(f"{path}: holds no time of an all-reduce")
    what = "several curves" if fitting else "none of that name"
    raise AskedWrongly(f"{path}: {what}; --curve-case takes words of one of: {'; '.join(names)}")


def _curve_of(group: Sequence[_Point]) -> MeasuredCurve:
    return _curve({one.case.payload_bytes: one.seconds for one in group})


def _curve(points: Mapping[int, float]) -> MeasuredCurve:
    fitted = judge.fit(points)
    line = None
    if fitted is not None:
        line = Line(latency_s=fitted.latency_s, bytes_per_s=fitted.bandwidth_bytes_per_s)
    return MeasuredCurve(points=tuple(sorted(points.items())), line=line)


def _points(path: Path) -> tuple[EnvironmentKey, list[_Point]]:
    raw = baselines.read_json(path)
    if isinstance(raw, dict) and "cases" in raw:
        return _of_results(raw)
    if not isinstance(raw, dict) or "entries" not in raw:
        raise wire.WireError("neither results of a session (cases) nor a baseline (entries)")
    contents = baselines.contents_of(path)
    return contents.key, [
        _Point(case=one.case, seconds=one.level_s)
        for one in contents.baselines
        if one.level_s is not None
    ]


def _of_results(raw: Mapping[str, Any]) -> tuple[EnvironmentKey, list[_Point]]:
    """Cases without a time are left out, as are those that are not sure to be all-reduces."""
    key, timed = timed_cases(raw)
    points = []
    for where, row, case in timed:
        if case.workload.is_bare:
            points.append(_Point(case=case, seconds=case_seconds(row, where)))
    return key, points


TimedCases = Sequence[tuple[str, Mapping[str, Any], Case]]


def timed_cases(raw: Mapping[str, Any]) -> tuple[EnvironmentKey, TimedCases]:
    """The key of results, and each case with a time: its place, its row, itself. Raises WireError.

    Training steps are among them.
    """
    schema = raw.get("schema")
    if type(schema) is not int or not 1 <= schema <= RESULTS_SCHEMA:
        raise wire.WireError(f"schema: this version reads 1 to {RESULTS_SCHEMA}, got {schema!r}")
    environment = _object(raw.get("environment"), "environment")
    key = wire.from_json(EnvironmentKey, environment.get("key"), "environment.key")
    _check(lambda: check_key(key), "environment.key")
    if not isinstance(raw.get("cases"), list):
        raise wire.WireError("cases: expected a list")
    found = []
    for place, row in enumerate(raw["cases"]):
        where = f"cases[{place}]"
        one = _object(row, where)
        timed = one.get("case") is not None and one.get("measured") is not None
        if timed and one.get("outcome") != "FAILED":
            found.append((where, one, _case(one["case"], f"{where}.case")))
    return key, found


def _case(row: Any, where: str) -> Case:
    """A case that can be. Raises WireError."""
    document = dict(_object(row, where))
    document.pop("payload", None)
    stored = wire.from_json(StoredCase, document, where)
    _check(lambda: check_case(stored.case), where)
    return stored.case


def _check(check: Callable[[], None], where: str) -> None:
    """Raises WireError with the place of what a check of the model refuses."""
    try:
        check()
    except ValueError as error:
        raise wire.WireError(f"{where}.{error}") from error


def case_seconds(row: Mapping[str, Any], where: str) -> float:
    """The median over launches of a case in results. Raises WireError."""
    measured = _object(row["measured"], f"{where}.measured")
    times_s = wire.from_json(
        tuple[float, ...], measured.get("times_s"), f"{where}.measured.times_s"
    )
    if not times_s or min(times_s) <= 0:
        raise wire.WireError(f"{where}.measured.times_s: expected seconds above 0")
    for place, time_s in enumerate(times_s):
        checked_seconds(time_s, f"{where}.measured", f"times_s[{place}]")
    return statistics.median(times_s)


def checked_seconds(seconds: float, where: str, name: str) -> float:
    """`seconds`, if anything can take so long. Raises WireError."""
    _check(lambda: check_seconds(name, seconds), where)
    return seconds


def _object(document: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise wire.WireError(f"{where}: expected an object, got {document!r:.60}")
    return document
