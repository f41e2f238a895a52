"""A measured curve t(S): what a collective took by payload, read at payloads between and beyond.

It comes from the results of a session or from a baseline, which are read strictly. Fits nothing
itself: the line that extends the curve beyond its ends is the judge's fit.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import baselines, judge, report, wire
from busbw.model import (
    Case,
    EnvironmentKey,
    Protocol,
    StoredCase,
    check_case,
    check_key,
    check_seconds,
    plural,
)
from busbw.workloads import Collective

from .command import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """t(S) = `latency_s` + S / `bytes_per_s`."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, payload_bytes: float) -> float:
        """The line's time for a payload."""
        return self.latency_s + payload_bytes / self.bytes_per_s


class OutsideError(ValueError):
    """A payload outside of the measured ones, and no line; the message says which were measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A time, and how it was found: measured, interpolated, or by latency and bandwidth."""

    seconds: float
    how: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCurve:
    """Payload bytes and seconds, ascending and without repeats; `line` is None where none fits."""

    points: tuple[tuple[int, float], ...]
    line: Line | None = None

    def read(self, payload_bytes: float) -> Reading:
        """The time for a payload.

        Between two points log t is linear in log S: between a latency, where t does not grow, and
        a bandwidth, where it grows as S, every slope occurs, and relative errors are alike at every
        size. Outside, the time of the nearest point grows or shrinks as the line does: a line
        through all points may pass that one far off, and more bytes never take less time. Raises
        OutsideError where there is none.
        """
        sizes = [size for size, _ in self.points]
        index = bisect_left(sizes, payload_bytes)
        if index < len(sizes) and sizes[index] == payload_bytes:
            return Reading(seconds=self.points[index][1], how="measured")
        if 0 < index < len(sizes):
            return Reading(seconds=self._between(index, payload_bytes), how="interpolated")
        if self.line is None:
            raise OutsideError(
                f"{payload_bytes:.0f} bytes are outside of what was measured, "
                f"{sizes[0]} to {sizes[-1]} bytes, and no line fits those"
            )
        near, near_s = self.points[0 if index == 0 else -1]
        growth = self.line.seconds(payload_bytes) / self.line.seconds(near)
        return Reading(seconds=near_s * growth, how="by latency and bandwidth")

    def _between(self, index: int, payload_bytes: float) -> float:
        (low, low_s), (high, high_s) = self.points[index - 1 : index + 1]
        share = math.log(payload_bytes / low) / math.log(high / low)
        return low_s * math.exp(share * math.log(high_s / low_s))


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedCurve:
    """All payloads of one kind of all-reduce, and where they were measured."""

    name: str
    ranks: int
    hosts: int
    curve: MeasuredCurve


# More names of curves do not fit into a sentence.
_SHOWN_NAMES = 3

_Points = Sequence[tuple[Case, float]]


def curve_in(path: Path, words: str | None = None) -> NamedCurve:
    """The curve in `path` whose name has all of `words`. Raises UsageError naming the location."""
    key, groups = _groups(path)
    name = _chosen(path, sorted(groups), (words or "").split())
    case, _ = groups[name][0]
    curve = _curve_of(groups[name])
    return NamedCurve(name=name, ranks=case.group_size, hosts=key.hosts, curve=curve)


def curves_in(path: Path) -> tuple[EnvironmentKey, Mapping[Case, MeasuredCurve]]:
    """Where `path` was measured, and every curve in it by what its cases share (`kind_of`).

    Raises UsageError naming the location.
    """
    key, groups = _groups(path)
    return key, {kind_of(group[0][0]): _curve_of(group) for group in groups.values()}


def kind_of(case: Case) -> Case:
    """The case reduced to what all payloads of one kind share, timed by any program."""
    return replace(
        case,
        payload_bytes=0,
        protocol=Protocol(clock=case.clock),
        workload=Collective.around(case.workload),
    )


def _groups(path: Path) -> tuple[EnvironmentKey, dict[str, list[tuple[Case, float]]]]:
    """The points of each curve by its name; training steps are left out."""
    with refused(path):
        key, points = _points(path)
    groups: dict[str, list[tuple[Case, float]]] = {}
    for case, seconds in points:
        if case.collective == "all_reduce" and case.workload.is_bare:
            if case.group_size < 2:
                raise UsageError(f"{path}: {case.name}: one rank is no all-reduce")
            ranks = f"{case.group_size} ranks"
            name = f"{case.group_name}, {case.dtype}, {case.clock.value} clock, {ranks}"
            groups.setdefault(name, []).append((case, seconds))
    return key, groups


@contextlib.contextmanager
def refused(path: Path) -> Iterator[None]:
    """Turn what is wrong with the file at `path` into a UsageError that names it."""
    try:
        yield
    except (baselines.BaselineError, wire.WireError) as error:
        text = str(error)
        raise UsageError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _chosen(path: Path, names: Sequence[str], words: Sequence[str]) -> str:
    fitting = [
        name for name in names if all(word in name.replace(",", " ").split() for word in words)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if not names:
        raise UsageError(f"{path}: holds no time of an all-reduce")
    what = "several curves" if fitting else "none of that name"
    those = fitting or names
    some = those[:_SHOWN_NAMES]
    more = f"; and {plural(len(those) - len(some), 'other')}" if len(those) > len(some) else ""
    raise UsageError(f"{path}: {what}; --curve-case takes words of one of: {'; '.join(some)}{more}")


def _curve_of(group: _Points) -> MeasuredCurve:
    points = {case.payload_bytes: seconds for case, seconds in group}
    fitted = judge.fit(points)
    line = None
    if fitted is not None:
        line = Line(latency_s=fitted.latency_s, bytes_per_s=fitted.bandwidth_bytes_per_s)
    return MeasuredCurve(points=tuple(sorted(points.items())), line=line)


def _points(path: Path) -> tuple[EnvironmentKey, _Points]:
    """Cases without a time are left out, as are those that may not be all-reduces."""
    raw = baselines.read_json(path)
    if isinstance(raw, dict) and "cases" in raw:
        key, timed = timed_cases(raw)
        bare = [one for one in timed if one[2].workload.is_bare]
        return key, [(case, case_seconds(row, location)) for location, row, case in bare]
    if not isinstance(raw, dict) or "entries" not in raw:
        raise wire.WireError("neither results of a session (cases) nor a baseline (entries)")
    contents = baselines.contents_of(path)
    stored = contents.baselines
    return contents.key, [(one.case, one.level_s) for one in stored if one.level_s is not None]


TimedCases = Sequence[tuple[str, Mapping[str, Any], Case]]


def timed_cases(raw: Mapping[str, Any]) -> tuple[EnvironmentKey, TimedCases]:
    """The key of results, and each timed case with its location and row. Raises WireError.

    Training steps are among them.
    """
    report.check_results(raw)
    environment = _object(raw.get("environment"), "environment")
    key = wire.from_json(EnvironmentKey, environment.get("key"), "environment.key")
    _check(lambda: check_key(key), "environment.key")
    if not isinstance(raw.get("cases"), list):
        raise wire.WireError("cases: expected a list")
    found = []
    for number, row in enumerate(raw["cases"]):
        location = f"cases[{number}]"
        one = _object(row, location)
        timed = one.get("case") is not None and one.get("measured") is not None
        if timed and one.get("outcome") != "FAILED":
            found.append((location, one, _case(one["case"], f"{location}.case")))
    return key, found


def _case(row: Any, location: str) -> Case:
    """A valid case. Raises WireError."""
    document = dict(_object(row, location))
    document.pop("payload", None)
    stored = wire.from_json(StoredCase, document, location)
    _check(lambda: check_case(stored.case), location)
    return stored.case


def _check(check: Callable[[], None], location: str) -> None:
    """Run a check of the model; raises WireError with the location."""
    try:
        check()
    except ValueError as error:
        raise wire.WireError(f"{location}.{error}") from error


def case_seconds(row: Mapping[str, Any], location: str) -> float:
    """The median over launches of a case in results. Raises WireError."""
    location = f"{location}.measured"
    measured = _object(row["measured"], location)
    times_s = wire.from_json(tuple[float, ...], measured.get("times_s"), f"{location}.times_s")
    if not times_s or min(times_s) <= 0:
        raise wire.WireError(f"{location}.times_s: expected seconds above 0")
    return statistics.median(
        checked_seconds(time_s, location, f"times_s[{number}]")
        for number, time_s in enumerate(times_s)
    )


def checked_seconds(seconds: float, location: str, name: str) -> float:
    """`seconds`, if possible at all. Raises WireError."""
    _check(lambda: check_seconds(name, seconds), location)
    return seconds


def _object(document: Any, location: str) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise wire.WireError(f"{location}: expected an object, got {document!r:.60}")
    return document
