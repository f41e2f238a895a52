"""Recorded sessions of launch pairs, as values and as files `*.jsonl.gz`, one session a line.

Reading is strict: what is not a whole, comparable recording is refused with its file and line.
"""

from __future__ import annotations

import gzip
import itertools
import math
import statistics
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from busbw import wire
from busbw.stats.launches import LAUNCH_QUANTILE, quantile, shift_of_samples

FOLDER = Path(__file__).parent / "corpus"
SUFFIX = ".jsonl.gz"


class CorpusError(ValueError):
    """A recording that cannot be evidence; the message says where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """What was done to the candidate: `share` 0.05 asks for 5 % more time.

    At one payload, `payload_bytes`; None: at all of them. Draws depend on its text.
    """

    kind: str
    share: float
    payload_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """One worker process at one payload. Sample i was taken right beside the other side's.

    `anchors_s`, of a fixed piece of work taken in between, are in old recordings; no rule uses
    them.
    """

    samples_s: tuple[float, ...]
    anchors_s: tuple[float, ...] = ()

    @cached_property
    def launch_time_s(self) -> float:
        """The p25 of the samples, as everywhere in busbw."""
        return quantile(self.samples_s, LAUNCH_QUANTILE)

    @cached_property
    def mean_s(self) -> float:
        return math.fsum(self.samples_s) / len(self.samples_s)

    @cached_property
    def median_s(self) -> float:
        return statistics.median(self.samples_s)


@dataclass(frozen=True, kw_only=True)
class RecordedLaunch:
    """A launch pair at one payload: both processes alive at once and sampled in turn.

    A pair measures every payload of its session; those share `number`. `first` is the side that
    was started first, "reference" or "candidate".
    """

    number: int
    payload_bytes: int
    first: str
    reference: Side
    candidate: Side

    @cached_property
    def shift(self) -> float:
        """The log ratio of the two sides, as busbw estimates it from samples taken in turn."""
        return shift_of_samples(self.reference.samples_s, self.candidate.samples_s)

    def exchanged(self) -> RecordedLaunch:
        return replace(self, reference=self.candidate, candidate=self.reference)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedSession:
    """Several launch pairs in a row. `recorded` is when it began, in ISO form with its zone.

    `kind` is "injected", or "aa" for the same code on both sides; `load` is the machine's load
    average at the beginning.
    """

    id: str
    recorded: str
    kind: str
    injection: Injection | None
    framework: str
    ranks: int
    load: float
    versions: dict[str, str]
    wall_s: float
    launches: tuple[RecordedLaunch, ...]
    machine: str = ""

    @property
    def payloads(self) -> tuple[int, ...]:
        return tuple(sorted({launch.payload_bytes for launch in self.launches}))


def read(folder: Path = FOLDER) -> tuple[RecordedSession, ...]:
    sessions = [one for path in sorted(folder.glob(f"*{SUFFIX}")) for one in _read_file(path)]
    for name, times in Counter(session.id for session in sessions).items():
        if times > 1:
            raise CorpusError(f"{folder}: session {name} is there more than once")
    return tuple(sorted(sessions, key=lambda one: (datetime.fromisoformat(one.recorded), one.id)))


def by_injection(
    sessions: Sequence[RecordedSession],
) -> dict[Injection | None, list[RecordedSession]]:
    """The sessions of each injection: unchanged ones first, then by kind and share."""
    groups: dict[Injection | None, list[RecordedSession]] = {}
    for session in sessions:
        groups.setdefault(session.injection, []).append(session)
    return dict(sorted(groups.items(), key=lambda group: _order(group[0])))


def _order(injection: Injection | None) -> tuple[str, float, int]:
    one = injection or Injection(kind="", share=0.0)
    return one.kind, one.share, one.payload_bytes or 0


def _read_file(path: Path) -> list[RecordedSession]:
    try:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: {error}") from error
    sessions = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            sessions.append(wire.from_json(RecordedSession, wire.parsed(line), "session"))
            for objection in _objections(sessions[-1]):
                raise CorpusError(f"session {sessions[-1].id}: {objection}")
        except ValueError as error:
            raise CorpusError(f"{path}, line {number}: {error}") from error
    return sessions


def _objections(session: RecordedSession) -> Iterator[str]:
    if session.kind != ("injected" if session.injection else "aa"):
        yield f"kind is {session.kind} and injection is {session.injection}"
    try:
        if datetime.fromisoformat(session.recorded).tzinfo is None:
            yield f"recorded {session.recorded} has no time zone"
    except ValueError as error:
        yield f"recorded: {error}"
    measured = Counter((one.number, one.payload_bytes) for one in session.launches)
    if not measured:
        yield "no launches"
    for number, payload in itertools.product({of for of, _ in measured}, session.payloads):
        if measured[number, payload] != 1:
            yield f"launch {number} has payload {payload} {measured[number, payload]} times"
    for one in session.launches:
        before, now = one.reference.samples_s, one.candidate.samples_s
        positive = all(0 < time_s < math.inf for time_s in (*before, *now))
        if not before or len(before) != len(now) or not positive:
            where = f"launch {one.number}, payload {one.payload_bytes}"
            yield f"{where}: the sides want as many samples as each other, all positive"
