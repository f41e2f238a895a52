"""A measured curve t(S): what a collective took by payload, read at payloads between and beyond.

It comes from the results of a session or from a baseline, which are read strictly. Fits nothing
itself: the line that extends the curve beyond its ends is the judge's fit.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.baselines.document import TIMED, BaselineError, read, read_json
from busbw.commands import UsageError, usage_error
from busbw.judge.curve import fit
from busbw.model.case import Case
from busbw.model.launch import Run
from busbw.model.machine import EnvironmentKey, Protocol
from busbw.model.verdict import Curve
from busbw.model.words import Outcome, plural
from busbw.report.reading import CompiledSession, DocumentError, Session, session_of
from busbw.workloads.collective import Collective

# More names of curves do not fit into a sentence.
_SHOWN_NAMES = 3


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
    line: Curve | None = None

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
            (low, low_s), (high, high_s) = self.points[index - 1 : index + 1]
            share = math.log(payload_bytes / low) / math.log(high / low)
            return Reading(seconds=low_s * (high_s / low_s) ** share, how="interpolated")
        if self.line is None:
            raise OutsideError(
                f"{payload_bytes:.0f} bytes are outside of what was measured, "
                f"{sizes[0]} to {sizes[-1]} bytes, and no line fits those"
            )
        near, near_s = self.points[-1 if index else 0]
        latency_s, bytes_per_s = self.line.latency_s, self.line.bandwidth_bytes_per_s
        far_s = latency_s + payload_bytes / bytes_per_s
        growth = far_s / self.line.seconds(near)
        return Reading(seconds=near_s * growth, how="by latency and bandwidth")


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedCase:
    """A case, its median over launches, and the launches; a baseline has none of these."""

    case: Case
    seconds: float
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedFile:
    """What a file of results or a baseline holds, and where that was measured."""

    path: Path
    key: EnvironmentKey
    cases: tuple[TimedCase, ...]

    def curves(self) -> Mapping[str, tuple[Case, MeasuredCurve]]:
        """Each curve of a bare all-reduce by its name, with what its cases share (`kind_of`)."""
        groups: dict[str, list[TimedCase]] = {}
        for one in self.cases:
            case = one.case
            if case.collective == "all_reduce" and case.workload.is_bare:
                kind = f"{case.dtype}, {case.clock.value} clock, {plural(case.group_size, 'rank')}"
                groups.setdefault(f"{case.group_name}, {kind}", []).append(one)
        return {name: (kind_of(of[0].case), _curve_of(of)) for name, of in groups.items()}

    def curve(self, words: str | None) -> tuple[str, Case, MeasuredCurve]:
        """The one curve whose name has all of `words`, by name and kind. Raises UsageError."""
        curves = self.curves()
        wanted = set((words or "").split())
        fitting = [name for name in sorted(curves) if wanted <= set(name.replace(",", " ").split())]
        if len(fitting) == 1:
            return (fitting[0], *curves[fitting[0]])
        if not curves:
            raise UsageError(f"{self.path}: holds no time of an all-reduce")
        what = "several curves" if fitting else "none of that name"
        those = fitting or sorted(curves)
        some, rest = "; ".join(those[:_SHOWN_NAMES]), those[_SHOWN_NAMES:]
        more = f"; and {plural(len(rest), 'other')}" if rest else ""
        raise UsageError(f"{self.path}: {what}; --curve-case takes words of one of: {some}{more}")


def timed_in(path: Path) -> TimedFile:
    """Raises UsageError that names the location. Cases without a time or that failed are absent."""
    with usage_error(BaselineError, DocumentError):
        raw = read_json(path)
        if isinstance(raw, dict) and "cases" in raw:
            return _of_session(path, session_of(raw, str(path)))
        if not isinstance(raw, dict) or "entries" not in raw:
            raise UsageError(
                f"{path}: neither results of a session (cases) nor a baseline (entries)"
            )
        stored = read(TIMED, path)
    cases = [(one.case, one.level_s) for one in stored.baselines]
    times = tuple(TimedCase(case=case, seconds=time_s) for case, time_s in cases if time_s)
    return TimedFile(path=path, key=stored.key, cases=times)


def _of_session(path: Path, session: Session | CompiledSession) -> TimedFile:
    if isinstance(session, CompiledSession):
        raise UsageError(f"{path}: holds no times, but what was compiled")
    cases = tuple(
        TimedCase(
            case=one.case,
            seconds=statistics.median(one.now.times_s),
            runs=session.measurements[one.spec].runs if one.spec in session.measurements else (),
        )
        for one in session.verdicts
        if one.case and one.now and one.now.times_s and one.outcome is not Outcome.FAILED
    )
    return TimedFile(path=path, key=session.environment.key, cases=cases)


def kind_of(case: Case) -> Case:
    """The case reduced to what all payloads of one kind share, timed by any program."""
    return replace(
        case,
        payload_bytes=0,
        protocol=Protocol(clock=case.clock),
        workload=Collective.around(case.workload),
    )


def _curve_of(group: Sequence[TimedCase]) -> MeasuredCurve:
    points = {one.case.payload_bytes: one.seconds for one in group}
    return MeasuredCurve(points=tuple(sorted(points.items())), line=fit(points))
