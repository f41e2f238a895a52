"""The recorded corpus: what was measured, as frozen values and as files.

Files are `*.jsonl.gz`, one recorded session a line. Reading is strict: what is not a whole,
comparable recording is refused with the file and the line. Knows no rule and draws nothing;
what is derived from a side's samples is a property of that side.
"""

from __future__ import annotations

import enum
import gzip
import json
import math
import statistics
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from busbw import stats, wire, writing
from busbw.stats import shift_of_samples

FOLDER = Path(__file__).parent / "corpus"
SUFFIX = ".jsonl.gz"
DIGITS = 4


class CorpusError(ValueError):
    """A recording that cannot be evidence; the message says where and why."""


class Kind(str, enum.Enum):
    """What the two sides of a recording are to each other."""

    AA = "aa"
    INJECTED = "injected"


class First(str, enum.Enum):
    """Which side of a launch was started first."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """What was done to the candidate: `share` 0.05 asks for 5 % more time.

    At one payload, `payload_bytes`; None: at all of them.
    """

    kind: str
    share: float
    payload_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """One worker process at one payload. Sample i was taken right beside the other side's.

    `anchors_s` are the times of a fixed piece of work, taken in between by older versions of busbw;
    new recordings have none, and no rule uses them.
    """

    samples_s: tuple[float, ...]
    anchors_s: tuple[float, ...] = ()

    @cached_property
    def launch_time_s(self) -> float:
        """The time of the launch, as everywhere in busbw: the p25 of its samples."""
        return stats.quantile(self.samples_s, stats.LAUNCH_QUANTILE)

    @cached_property
    def mean_s(self) -> float:
        """The mean of the samples."""
        return math.fsum(self.samples_s) / len(self.samples_s)

    @cached_property
    def median_s(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples_s)

    @cached_property
    def least_s(self) -> float:
        """The least sample."""
        return min(self.samples_s)


@dataclass(frozen=True, kw_only=True)
class RecordedLaunch:
    """A launch pair at one payload: both sides' processes alive at once and sampled in turn.

    A pair of processes measures every payload of its session; those share `number`.
    """

    number: int
    payload_bytes: int
    first: First
    reference: Side
    candidate: Side

    @cached_property
    def shift(self) -> float:
        """The log ratio of the two sides, as busbw estimates it from samples taken in turn."""
        return shift_of_samples(self.reference.samples_s, self.candidate.samples_s)

    @cached_property
    def ratios(self) -> tuple[float, ...]:
        """Candidate over reference, for each pair of samples."""
        return tuple(
            now / before for before, now in zip(self.reference.samples_s, self.candidate.samples_s)
        )

    def exchanged(self) -> RecordedLaunch:
        """The same with the sides' names exchanged."""
        other = First.REFERENCE if self.first is First.CANDIDATE else First.CANDIDATE
        return replace(self, first=other, reference=self.candidate, candidate=self.reference)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedSession:
    """Several launch pairs in a row. `recorded` is when it began, in ISO form with its zone.

    `load` is the machine's load average at the beginning; `machine` says in words what it ran on.
    """

    id: str
    recorded: str
    kind: Kind
    injection: Injection | None
    framework: str
    ranks: int
    load: float
    versions: Mapping[str, str]
    wall_s: float
    launches: tuple[RecordedLaunch, ...]
    machine: str = ""

    @property
    def payloads(self) -> tuple[int, ...]:
        """Every payload in bytes, least first."""
        return tuple(sorted({launch.payload_bytes for launch in self.launches}))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Every launch number, in the order of the recording."""
        return tuple(dict.fromkeys(launch.number for launch in self.launches))


def read(folder: Path = FOLDER) -> tuple[RecordedSession, ...]:
    """Every session of every file in `folder`, oldest first."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    sessions = [session for path in paths for session in read_file(path)]
    _refuse_repeated(sessions, str(folder))
    return tuple(sorted(sessions, key=_moment))


def read_file(path: Path) -> tuple[RecordedSession, ...]:
    """The sessions of one file, in its order."""
    try:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: {error}") from error
    sessions = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            session = wire.from_json(RecordedSession, wire.parsed(line), "session")
            _refuse(session)
        except ValueError as error:
            raise CorpusError(f"{path}, line {number}: {error}") from error
        sessions.append(session)
    _refuse_repeated(sessions, str(path))
    return tuple(sessions)


def by_injection(
    sessions: Sequence[RecordedSession],
) -> dict[Injection | None, tuple[RecordedSession, ...]]:
    """The sessions of each injection: unchanged ones first, then by kind and share."""
    groups: dict[Injection | None, list[RecordedSession]] = {}
    for session in sessions:
        groups.setdefault(session.injection, []).append(session)
    return {injection: tuple(groups[injection]) for injection in sorted(groups, key=_order)}


def _order(injection: Injection | None) -> tuple[str, float, int]:
    if injection is None:
        return "", 0.0, 0
    return injection.kind, injection.share, injection.payload_bytes or 0


def append(session: RecordedSession, path: Path) -> None:
    """Add `session` to `path`: the file has all of it or is as before. One writer at a time."""
    if not path.name.endswith(SUFFIX):
        raise CorpusError(f"{path}: a corpus file's name ends in {SUFFIX}")
    _refuse(session)
    held = path.read_bytes() if path.exists() else b""
    if held and session.id in {one.id for one in read_file(path)}:
        raise CorpusError(f"{path}: session {session.id} is already there")
    line = json.dumps(wire.to_json(rounded(session)), separators=(",", ":"), allow_nan=False)
    # Of gzip members one after another, every reader makes one text.
    writing.write(path, held + gzip.compress(f"{line}\n".encode(), mtime=0))


def rounded(session: RecordedSession) -> RecordedSession:
    """The session as a file holds it: every time with four significant digits."""
    launches = tuple(
        replace(one, reference=_rounded(one.reference), candidate=_rounded(one.candidate))
        for one in session.launches
    )
    return replace(session, launches=launches)


def _rounded(side: Side) -> Side:
    return Side(
        samples_s=tuple(_significant(one) for one in side.samples_s),
        anchors_s=tuple(_significant(one) for one in side.anchors_s),
    )


def _significant(time_s: float) -> float:
    return float(f"{time_s:.{DIGITS}g}")


def _moment(session: RecordedSession) -> tuple[datetime, str]:
    return datetime.fromisoformat(session.recorded), session.id


def _refuse_repeated(sessions: Sequence[RecordedSession], where: str) -> None:
    counted = Counter(session.id for session in sessions)
    repeated = [name for name, times in counted.items() if times > 1]
    if repeated:
        raise CorpusError(f"{where}: session {repeated[0]} is there more than once")


def _refuse(session: RecordedSession) -> None:
    """Raise CorpusError for the first thing that makes `session` no evidence."""
    for objection in _objections(session):
        raise CorpusError(f"session {session.id}: {objection}")


def _objections(session: RecordedSession) -> Iterator[str]:
    if (session.kind is Kind.INJECTED) != (session.injection is not None):
        yield f"kind is {session.kind.value} and injection is {session.injection}"
    try:
        if datetime.fromisoformat(session.recorded).tzinfo is None:
            yield f"recorded {session.recorded} has no time zone"
    except ValueError as error:
        yield f"recorded: {error}"
    measured = Counter((launch.number, launch.payload_bytes) for launch in session.launches)
    if not measured:
        yield "no launches"
    for number in session.numbers:
        for payload in session.payloads:
            if measured[number, payload] != 1:
                yield f"launch {number} has payload {payload} {measured[number, payload]} times"
    for launch in session.launches:
        yield from _launch_objections(launch)


def _launch_objections(launch: RecordedLaunch) -> Iterator[str]:
    where = f"launch {launch.number}, payload {launch.payload_bytes}"
    counts = len(launch.reference.samples_s), len(launch.candidate.samples_s)
    if not counts[0] or counts[0] != counts[1]:
        yield f"{where}: {counts[0]} samples of the reference, {counts[1]} of the candidate"
    for side in (launch.reference, launch.candidate):
        if not all(0 < time_s < math.inf for time_s in (*side.samples_s, *side.anchors_s)):
            yield f"{where}: a time that is not positive"
