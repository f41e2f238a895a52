"""The cells of the table, from sessions of recordings: read, pair, label, summarize.

Whatever cannot be read is a Problem, and the others are read without it. Without a user's rule,
payload and slice come from folder names as the TPU v2 table's project has them:
`mnist_tpuv2n8_bs1024_scale-256` is 1M / 256 on a v2-8.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from busbw import storage
from busbw.collectives.base import GroupSize
from busbw.metrics import parse_payload
from busbw.model.limits import LEAST_S
from busbw.model.words import MIB, payload_text, plural, seconds_text
from busbw.report.traces import Problem, Times, TraceCell, Unknown
from busbw.stats.launches import quantile
from busbw.traces.chrome import MOST_BYTES, read_chrome
from busbw.traces.collectives import WantedEvents, collectives, only_enqueued, ranks_of
from busbw.traces.event import (
    MOST_EVENTS,
    RecordedCollective,
    RecordingTooLargeError,
    Trace,
    TraceError,
)
from busbw.traces.iterations import CutError, Iteration, iterations
from busbw.traces.recognition import UNKNOWN
from busbw.traces.xplane import read_xplane

# The complete one first: trace.json.gz ends with the millionth event.
FORMATS = (".xplane.pb", ".trace.json.gz")
# The same events once more, which JAX writes beside the other formats if it is told to.
PERFETTO = "perfetto_trace.json.gz"
# Devices of a sentence.
_SHOWN = 8
# Folder names of the TPU v2 table's project.
_TPU_V2_NAME = re.compile(r"tpu(?:v2n)?(?P<cores>\d+)a?_bs\d+_(?P<sign>-?)scale(?P<scale>-?\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """The rules of one run of the command, for payloads in bytes and for slices."""

    payload_bytes: int | None = None
    payload_from: re.Pattern[str] | None = None
    slice_from: re.Pattern[str] | None = None

    def payload(self, names: Sequence[str]) -> int | None:
        """None if no rule says it. Raises ValueError for what is no size."""
        if self.payload_bytes is not None:
            return self.payload_bytes
        match = _first(self.payload_from or _TPU_V2_NAME, names)
        if match is None or self.payload_from is None:
            return _scaled(match["sign"], int(match["scale"])) if match else None
        return parse_payload(match["payload"] or "")

    def slice(self, names: Sequence[str]) -> str:
        """Empty if no rule says it."""
        match = _first(self.slice_from or _TPU_V2_NAME, names)
        if match is None or self.slice_from is None:
            return f"v2-{match['cores']}" if match else ""
        return match["slice"] or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stretch:
    """The collectives of one kind, payload and size of group that one session recorded."""

    folder: str
    ranks: int
    found: Sequence[RecordedCollective]
    iterations: Sequence[Iteration]


@dataclass(kw_only=True, slots=True)
class _Session:
    """What several hosts recorded at one time, which devices they had, and whom they `named`."""

    folder: Path
    hosts: Collection[str]
    found: list[RecordedCollective] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    enqueued: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The folder's names that may say what was recorded, the innermost first.

        In TensorBoard's layout a session's folder is named after the time; it and the two above it
        say nothing of what was measured.
        """
        inner = self.folder
        if inner.parent.name == "profile" and inner.parent.parent.name == "plugins":
            inner = inner.parents[2]
        return tuple(folder.name for folder in (inner, *inner.parents) if folder.name)

    def add(self, trace: Trace) -> None:
        self.found += collectives(trace)
        self.there += ranks_of(trace)
        self.named.update(trace.hosts)
        self.enqueued += only_enqueued(trace)


@dataclass(kw_only=True, slots=True)
class Gathering:
    """Sessions are added one by one; at the end it gives the cells.

    `size_limit` is how many bytes of a recording are read, unpacked. What lacks devices or hosts
    that it names itself is read if `partial`.
    """

    labels: Labels
    kinds: Sequence[str]
    ranks: int | None = None
    size_limit: int = MOST_BYTES
    partial: bool = False
    files: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    _stretches: dict[tuple[str, int, str], list[_Stretch]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, folder: Path, hosts: Mapping[str, Sequence[Path]]) -> None:
        """Read a session: each host's files, the best first. That it is cut is noted only once."""
        session = self._read(folder, hosts)
        by_sort: dict[object, list[RecordedCollective]] = defaultdict(list)
        for one in session.found:
            if one.kind in self.kinds:
                by_sort[one.kind, one.payload_bytes, one.groups].append(one)
        cut: list[str] = []
        for of_sort in by_sort.values():
            try:
                self._add(session, of_sort)
            except CutError as error:
                cut.append(str(error))
            except ValueError as error:
                self.note(folder, str(error))
        if cut:
            more = f" ({len(cut) - 1} more payloads, too)" if len(cut) > 1 else ""
            self.note(folder, f"{cut[0]}{more}")

    def _add(self, session: _Session, found: Sequence[RecordedCollective]) -> None:
        kind, groups, folder = found[0].kind, found[0].groups, str(session.folder)
        payload_bytes = found[0].payload_bytes or self.labels.payload(session.names)
        if payload_bytes is None:
            raise ValueError(
                "the recording does not say the payload; give --payload or --payload-from"
            )
        what = f"{kind} of {payload_text(payload_bytes)}"
        paired = iterations(found, there=() if self.partial else session.there)
        absent = _absent(found, session)
        if absent and not self.partial:
            raise CutError(f"{what}: {absent}; --partial reads the rest")
        notes = [*filter(None, [absent]), *_unread_groups(found), *_ends(found)]
        self.warnings += [f"{folder}: {what}: {text}" for text in notes]
        if not paired:
            raise ValueError(f"of {what} only the warm-up was recorded")
        if statistics.median(one.slowest_s for one in paired) < LEAST_S:
            raise ValueError(
                f"half of {kind} took less than a picosecond: the recording is damaged"
            )
        ranks = self._ranks(folder, groups, devices=len(paired[0].durations_s))
        if ranks < 2:
            self.warnings.append(f"{folder}: only one device, so this is not a collective")
        stretch = _Stretch(folder=folder, ranks=ranks, found=found, iterations=paired)
        name = self._column(session, ranks, groups)
        self._stretches[kind, payload_bytes, name].append(stretch)

    def _ranks(self, folder: str, groups: GroupSize | None, *, devices: int) -> int:
        """The size of a group, by the recording itself if it says so."""
        if groups is None:
            if self.ranks and self.ranks > devices:
                self.warnings.append(
                    f"{folder}: --ranks={self.ranks}, but it holds {plural(devices, 'device')}: "
                    "those that are missing may have been slower"
                )
            return self.ranks or devices
        if self.ranks not in (None, groups.ranks):
            self.warnings.append(
                f"{folder}: --ranks={self.ranks}, but the recording says {groups.ranks} ranks in "
                f"groups of {groups.size}, which counts"
            )
        return groups.size

    def _column(self, session: _Session, ranks: int, groups: GroupSize | None) -> str:
        label = self.labels.slice(session.names)
        if groups is None or groups.groups == 1:
            return label or f"{ranks} ranks"
        return f"{label}, groups of {ranks}" if label else f"{ranks} of {groups.ranks} ranks"

    def _read(self, folder: Path, hosts: Mapping[str, Sequence[Path]]) -> _Session:
        session, lost = _Session(folder=folder, hosts=hosts), []
        for host, paths in hosts.items():
            if trace := self._first_readable(host, paths):
                session.add(trace)
            else:
                lost.append(host)
        is_there = any(one.kind in self.kinds for one in session.found)
        if lost and is_there:
            self.warnings.append(f"{folder}: without the devices of {', '.join(lost)}")
        if not is_there and len(lost) < len(hosts):
            text, count = f"no {' or '.join(self.kinds)} in it", session.enqueued
            only = f"; of {count} it only says that a host enqueued them, not the time"
            self.note(folder, text + (only if count else ""))
        if ones := [one for one in session.found if one.kind == UNKNOWN]:
            total_s = sum(one.duration_s for one in ones)
            self.unknown.append(Unknown(folder=str(folder), count=len(ones), total_s=total_s))
            self.warnings.append(
                f"{folder}: {len(ones):,} collectives of unknown kind, {seconds_text(total_s)}, "
                f"such as {ones[0].name}"
            )
        return session

    def _first_readable(self, host: str, paths: Sequence[Path]) -> Trace | None:
        """The first file that can be read: formats of one recording hold the same."""
        for path in paths:
            read = read_xplane
            if not path.name.endswith(FORMATS[0]):
                read = partial(read_chrome, most_bytes=self.size_limit)
            try:
                content = storage.read(path, self.size_limit)
                trace = read(content, host=host, keep=WantedEvents())
            except (TraceError, storage.InputError) as error:
                is_limit = isinstance(error, (RecordingTooLargeError, storage.TooLargeError))
                self.note(path, f"{error} (--size-limit)" if is_limit else str(error))
                continue
            self.files.append(str(path))
            if trace.is_cut:
                why = f"cut, for profilers keep no more than {MOST_EVENTS}"
                self.note(path, f"{trace.recorded} events: {why}")
            return trace
        return None

    def note(self, path: Path, text: str) -> None:
        self.problems.append(Problem(path=str(path), text=text))

    def cells(self) -> list[TraceCell]:
        """One for each kind, payload and slice; sessions of the same one are joined."""
        found = sorted(self._stretches.items())
        for (_, _, name), stretches in found:
            devices = {len(stretch.iterations[0].durations_s) for stretch in stretches}
            if len(devices) > 1:
                counts = " and ".join(map(str, sorted(devices)))
                self.warnings.append(f"{name}: sessions on {counts} devices are joined")
        return [_cell(*key, of) for key, of in found]


def _cell(kind: str, payload_bytes: int, name: str, stretches: Sequence[_Stretch]) -> TraceCell:
    found = [one for stretch in stretches for one in stretch.iterations]
    groups = stretches[0].found[0].groups
    recorded = _by_device((one.rank, one.duration_s) for s in stretches for one in s.found)
    of_devices = _by_device(pair for one in found for pair in one.durations_s.items())
    return TraceCell(
        collective=kind,
        payload_bytes=payload_bytes,
        slice=name,
        ranks=max(stretch.ranks for stretch in stretches),
        all_ranks=groups.ranks if groups else None,
        slowest=_times([one.slowest_s for one in found]),
        # The warm-up included.
        recorded={rank: (len(times), math.fsum(times)) for rank, times in recorded},
        devices={rank: _times(times) for rank, times in of_devices},
        iterations=found,
        folders=[stretch.folder for stretch in stretches],
    )


def _absent(found: Sequence[RecordedCollective], session: _Session) -> str:
    """What lacks these collectives by the recording itself; "" for nothing.

    Replica groups say how many devices take part, else all do that have a plane. A file that names
    one host alone may have any name.
    """
    having = {one.rank for one in found}
    idle = set(session.there) - having
    said = found[0].groups.ranks if found[0].groups else len(having | idle)
    lacking = _listed(idle) if said > len(having) else []
    unseen = said - len(having | idle)
    lacking += [f"{plural(unseen, 'device')} without any record"] if unseen > 0 else []
    if len(session.named) > len(session.hosts):
        lacking += [f"host {one}" for one in sorted(session.named - set(session.hosts))]
    there = f"{said} devices take part, and it holds those of {', '.join(_listed(having))}"
    return f"by the recording itself {there}; missing: {', '.join(lacking)}" if lacking else ""


def _listed(ranks: Collection[str]) -> list[str]:
    """The first of them, ``a/9`` before ``a/10``, and how many more there are."""
    more = [f"{len(ranks) - _SHOWN} more"] if len(ranks) > _SHOWN else []
    return [*sorted(ranks, key=lambda rank: (len(rank), rank))[:_SHOWN], *more]


def _unread_groups(found: Sequence[RecordedCollective]) -> Iterator[str]:
    """That the replica groups of the instructions do not count, with the first of them."""
    unread = {one.unread_groups for one in found} if found[0].groups is None else set()
    for text in sorted(unread - {""})[:1]:
        yield (
            f"{text!r} does not count: accepted are groups of one size, in numbers of up to nine "
            "digits; --ranks says how many ranks there are"
        )


def _ends(found: Sequence[RecordedCollective]) -> Iterator[str]:
    """Of each program whose last launch holds fewer than every other one, that it may be cut."""
    launches: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        if one.rank == found[0].rank:
            launches[one.program][one.call] += 1
    for program, counts in launches.items():
        *others, last = counts.values()
        if others and last < min(others):
            yield (
                f"the last launch of {program.partition('(')[0] or 'a program'} holds {last}, the "
                f"others {min(others)} or more: the recording may end within it"
            )


def _by_device(durations: Iterable[tuple[str, float]]) -> list[tuple[str, list[float]]]:
    """The seconds of each device together, devices in the order of their names."""
    found: dict[str, list[float]] = defaultdict(list)
    for rank, duration_s in durations:
        found[rank].append(duration_s)
    return sorted(found.items())


def _times(durations_s: Sequence[float]) -> Times:
    return Times(
        median_s=statistics.median(durations_s),
        min_s=min(durations_s),
        p25_s=quantile(durations_s, 0.25),
        p90_s=quantile(durations_s, 0.9),
        mean_s=statistics.fmean(durations_s),
    )


def _first(rule: re.Pattern[str], names: Sequence[str]) -> re.Match[str] | None:
    return next((match for name in names if (match := rule.search(name))), None)


def _scaled(sign: str, scale: int) -> int | None:
    """Scale 16 is 16M; -16, which some folders write before the word, is 1M / 16."""
    if scale == 0:
        return None
    return (MIB // abs(scale) or None) if sign or scale < 0 else scale * MIB
