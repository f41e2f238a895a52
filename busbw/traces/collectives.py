"""The collectives of a recording: which events are one, on which device, in which call, how long.

The same work counts once: a device's kernels before its instructions, these before what the
profiler derives, a device's own lines before what a host did to launch the work. Other instructions
of the same rank say how much of a collective computing hid; where the recording holds none, that is
unknown: None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .event import (
    RETURN,
    Event,
    ProgramLaunches,
    RecordedCollective,
    Returns,
    Stats,
    Trace,
    device_of_plane,
    host_devices,
    is_launch,
)
from .recognition import UNKNOWN, Phase, Recognized, Recognizer, Source, parse_name

_DERIVED = re.compile(
    r"Async XLA Ops|(Framework|TensorFlow) (Ops|Name Scope)|XLA (Modules|TraceMe)|(TC )?Overlay"
    r"|Steps|Source [Cc]ode|Host Offload Ops"
)
_SPARSE = re.compile(r"Sparse ?Core")
# Where TensorFlow runs a collective; the thread that only enqueues it writes the same name.
_RUNS = "collective_ops"


class _Piece(NamedTuple):
    """An event that is a collective or a part of one."""

    event: Event
    recognized: Recognized
    device: int | None
    truth: int


class _Span(NamedTuple):
    """A whole collective: the event that began it, and the one that ended it."""

    kind: str
    first: _Piece
    last: _Piece


class WantedEvents:
    """Which events `collectives` can use, by name, plane and stats: the `keep` of a reader.

    Beyond collectives these are launches, by which calls are told apart, what TensorFlow does at
    the end of one, and what only stats can tell to be one.
    """

    def __init__(self) -> None:
        self._recognizer = Recognizer()
        self._names: dict[str, bool] = {}

    def __call__(self, name: str, plane: str = "", stats: Stats | None = None) -> bool:
        if name not in self._names:
            self._names[name] = bool(parse_name(name)) or is_launch(name) or name == RETURN
        return self._names[name] or bool(
            stats and self._recognizer.may_be_collective(name, plane, stats)
        )


def collectives(trace: Trace) -> tuple[RecordedCollective, ...]:
    spans = _true(_spans(_pieces(trace.events)))
    launches, returns = ProgramLaunches(trace.events), Returns(trace.events)
    on_host = [span.first.event for span in spans if span.first.device is None]
    devices = dict(zip(map(id, on_host), host_devices(on_host)))
    found = [
        _collective(span, trace.host, devices.get(id(span.first.event)), launches, returns)
        for span in spans
    ]
    return tuple(sorted(found, key=lambda one: (one.device, one.start_s)))


def ranks_of(trace: Trace) -> tuple[str, ...]:
    """The devices that have a plane of their own, whether or not anything happened there."""
    found = {device_of_plane(plane) for plane in trace.planes}
    return tuple(f"{trace.host}/{one}" for one in sorted(one for one in found if one is not None))


def only_enqueued(trace: Trace) -> int:
    """How many collectives a host enqueued, without a record of how long these took."""
    on_host = (event for event in trace.events if device_of_plane(event.plane) is None)
    parsed = ((event, parse_name(event.name)) for event in on_host)
    nodes = (event for event, one in parsed if one and one.source is Source.NODE)
    return sum(not _counts_on_host(event, Source.NODE) for event in nodes)


def _pieces(events: Iterable[Event]) -> Iterator[_Piece]:
    """There are many events, and few lines: what is known of one is looked up."""
    recognizer = Recognizer()
    known: dict[tuple[str, str, Source], tuple[int | None, int]] = {}
    for event in events:
        recognized = recognizer.recognize(event)
        if recognized is None or event.stats.get("_a"):
            continue
        line = event.plane, event.line, recognized.source
        if line not in known:
            known[line] = device_of_plane(event.plane), _truth(event, recognized.source)
        device, truth = known[line]
        if device is not None or _counts_on_host(event, recognized.source):
            yield _Piece(event, recognized, device, truth)


def _counts_on_host(event: Event, source: Source) -> bool:
    """Whether a host did the work itself; what only starts it elsewhere says not how long it took.

    XLA's CPU client notes the device, its GPU client does not. TensorFlow's CollectiveReduce
    waits for its ring on a line of its own, NcclAllReduce for nothing.
    """
    if source is Source.NODE:
        op = event.name.rsplit(":", 1)[-1]
        return op.startswith("Collective") and event.line.startswith(_RUNS)
    return source is Source.INSTRUCTION and "device_ordinal" in event.stats


def _truth(event: Event, source: Source) -> int:
    """The smaller, the closer to the work itself."""
    if device_of_plane(event.plane) is None:
        return 4
    if _SPARSE.search(event.plane) or _SPARSE.match(event.line):
        return 3
    return 2 if _DERIVED.fullmatch(event.line) else int(source)


def _spans(pieces: Iterable[_Piece]) -> list[_Span]:
    """One that gets its data after it was started begins when it gets them."""
    spans: list[_Span] = []
    open_: dict[tuple[str, int, str], list[_Piece]] = {}
    for piece in sorted(pieces, key=lambda one: one.event.start_s):
        phase = piece.recognized.phase
        if phase is Phase.WHOLE:
            spans.append(_Span(piece.recognized.kind, piece, piece))
            continue
        key = (piece.event.plane, piece.truth, piece.recognized.number)
        if phase is Phase.START:
            open_[key] = [piece]
        elif phase is Phase.UPDATE:
            open_.setdefault(key, []).append(piece)
        elif key in open_:
            begun = open_.pop(key)
            kind = _kind(part.recognized.kind for part in (*begun, piece))
            spans.append(_Span(kind, begun[-1], piece))
    return [span for span in spans if span.kind]


def _kind(of_parts: Iterable[str]) -> str:
    return min(of_parts, key=lambda kind: (kind == "", kind == UNKNOWN))


def _true(spans: Sequence[_Span]) -> list[_Span]:
    best: dict[tuple[int | None, str], int] = {}
    for span in spans:
        key = (span.first.device, span.kind)
        best[key] = min(best.get(key, span.first.truth), span.first.truth)
    on_devices = any(device is not None for device, _ in best)
    return [
        span
        for span in spans
        if span.first.truth == best[span.first.device, span.kind]
        and not (on_devices and span.first.device is None)
    ]


def _collective(
    span: _Span, host: str, device: int | None, launches: ProgramLaunches, returns: Returns
) -> RecordedCollective:
    first, last = span.first.event, span.last.event
    begun, ended = span.first.recognized, span.last.recognized
    number = span.first.device if span.first.device is not None else device
    program, call = launches.program_and_call(first)
    return RecordedCollective(
        kind=span.kind,
        name=first.name,
        host=host,
        device=number or 0,
        call=call,
        start_s=first.start_s,
        duration_s=_duration_s(first, last, returns),
        payload_bytes=begun.payload_bytes or ended.payload_bytes,
        program=program,
        groups=begun.groups or ended.groups,
        unread_groups=begun.unread_groups or ended.unread_groups,
    )


def _duration_s(first: Event, last: Event, returns: Returns) -> float:
    """On the device's own clock, if both events are; of one event, what the profiler says."""
    end_s = returns.end_s(last)
    if first is last and end_s == last.end_s:
        return last.duration_s
    if (first.aligned_s is None) != (last.aligned_s is None):
        return last.shared_end_s - first.shared_s
    return end_s - first.start_s
