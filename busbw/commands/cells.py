"""From sessions of recordings to the cells of the table: read, pair, label, summarize.

Whatever cannot be read is a Problem, and the rest goes on without it.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from busbw import inputs, report, stats, traces
from busbw.model import LEAST_S
from busbw.report import Problem, Times, TraceCell
from busbw.traces import MOST_EVENTS, Collective, Iteration, Trace, TraceError

from .labels import Labels
from .recordings import FORMATS, Session

_XPLANE, _ = FORMATS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stretch:
    """The iterations of one kind and payload that one session recorded."""

    folder: str
    iterations: Sequence[Iteration]

    @property
    def devices(self) -> int:
        return len(self.iterations[0].durations_s)


@dataclass(kw_only=True, slots=True)
class Gathering:
    """Sessions are added one by one; at the end it gives the cells.

    `size_limit` is how many bytes of a recording are read, unpacked.
    """

    labels: Labels
    kinds: Sequence[str]
    ranks: int | None = None
    size_limit: int = traces.MOST_BYTES
    files: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _stretches: dict[tuple[str, int, str], list[_Stretch]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, session: Session) -> None:
        """Read one session; whatever is wrong with it is noted."""
        found = self._read(session)
        if not found:
            return
        by_payload: dict[tuple[str, int | None], list[Collective]] = defaultdict(list)
        for one in found:
            by_payload[one.kind, one.payload_bytes].append(one)
        for (kind, payload_bytes), of_payload in by_payload.items():
            try:
                self._add(session, kind, payload_bytes, of_payload)
            except ValueError as error:
                self._note(session.folder, str(error))

    def _add(
        self, session: Session, kind: str, recorded: int | None, found: Sequence[Collective]
    ) -> None:
        payload_bytes = recorded or self.labels.payload(session.names)
        if payload_bytes is None:
            raise ValueError("nothing says the payload; give --payload or --payload-from")
        paired = traces.iterations(found)
        if not paired:
            raise ValueError(f"of {kind} only the warm-up was recorded")
        if statistics.median(one.slowest_s for one in paired) < LEAST_S:
            raise ValueError(
                f"half of {kind} took less than a picosecond: the recording is damaged"
            )
        stretch = _Stretch(folder=str(session.folder), iterations=paired)
        ranks = self.ranks or stretch.devices
        name = self.labels.slice(session.names) or f"{ranks} ranks"
        if ranks < 2:
            self.warnings.append(f"{session.folder}: one device only, so it is no collective")
        self._stretches[kind, payload_bytes, name].append(stretch)

    def _read(self, session: Session) -> list[Collective]:
        found: list[Collective] = []
        lost = []
        for host, paths in session.hosts.items():
            trace = self._first_readable(host, paths)
            if trace is None:
                lost.append(host)
                continue
            found += [one for one in traces.collectives(trace) if one.kind in self.kinds]
        if lost and found:
            self.warnings.append(f"{session.folder}: without the devices of {', '.join(lost)}")
        if not found and len(lost) < len(session.hosts):
            self._note(session.folder, f"no {' or '.join(self.kinds)} in it")
        return found

    def _first_readable(self, host: str, paths: Sequence[Path]) -> Trace | None:
        """Formats of one recording hold the same: only one of them is taken."""
        for path in paths:
            try:
                trace = _read_file(path, host, self.size_limit)
            except (traces.TooLargeError, inputs.TooLargeError) as error:
                self._note(path, f"{error} (--size-limit)")
                continue
            except (TraceError, inputs.InputError) as error:
                self._note(path, str(error))
                continue
            self.files.append(str(path))
            if trace.is_cut:
                limit = f"profilers keep no more than {MOST_EVENTS}"
                self._note(path, f"{trace.recorded} events: cut, for {limit}")
            return trace
        return None

    def _note(self, path: Path, text: str) -> None:
        self.problems.append(Problem(path=str(path), text=text))

    def cells(self) -> list[TraceCell]:
        """One for each kind, payload and slice; sessions of the same one are joined."""
        cells = []
        for (kind, payload_bytes, name), stretches in sorted(self._stretches.items()):
            devices = {stretch.devices for stretch in stretches}
            if len(devices) > 1:
                self.warnings.append(f"{name}: sessions on {sorted(devices)} devices are joined")
            found = [one for stretch in stretches for one in stretch.iterations]
            cell = TraceCell(
                collective=kind,
                payload_bytes=payload_bytes,
                slice=name,
                ranks=self.ranks or max(devices),
                slowest=_times([one.slowest_s for one in found]),
                devices=_of_devices(found),
                iterations=found,
                folders=[stretch.folder for stretch in stretches],
            )
            cells.append(cell)
        return cells


def _read_file(path: Path, host: str, size_limit: int) -> Trace:
    content = inputs.content(path, size_limit)
    if path.name.endswith(_XPLANE):
        return traces.read_xplane(content, host=host, keep=traces.is_wanted)
    return traces.read_chrome(content, host=host, keep=traces.is_wanted, most_bytes=size_limit)


def _of_devices(found: Sequence[Iteration]) -> dict[str, Times]:
    durations: dict[str, list[float]] = defaultdict(list)
    for one in found:
        for rank, duration_s in one.durations_s.items():
            durations[rank].append(duration_s)
    return {rank: _times(times) for rank, times in sorted(durations.items())}


def _times(durations_s: Sequence[float]) -> Times:
    return report.Times(
        median_s=statistics.median(durations_s),
        min_s=min(durations_s),
        p25_s=stats.quantile(durations_s, 0.25),
        p90_s=stats.quantile(durations_s, 0.9),
        mean_s=statistics.fmean(durations_s),
    )
