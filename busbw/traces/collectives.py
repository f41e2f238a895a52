"""The collectives of a recording: which events are one, on which device, in which call, how long.

An event counts by its whole name (`names`), the same work only once: a device's kernels before
its instructions, these before what the profiler derives from them, a device's own lines before
what a host did to launch the work. What was recorded in part, at an edge, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .event import Collective, Event, Trace
from .names import PERMUTE, Naming, Phase, Source, naming
from .payload import kind_of_stats, payload_bytes
from .places import Launches, Returns, device_of_plane, host_devices, is_launch, is_return

_DERIVED = re.compile(
    r"Async XLA Ops|(Framework|TensorFlow) (Ops|Name Scope)|XLA (Modules|TraceMe)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """An event that bears a collective's name, or the name of a part of one."""

    event: Event
    said: Naming
    device: int | None
    truth: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Span:
    """A whole collective: the event that began it, and the one that ended it."""

    kind: str
    first: _Piece
    last: _Piece


def is_collective(name: str) -> bool:
    """Whether an event of this name is a collective or a part of one."""
    said = naming(name)
    return said is not None and said.kind != ""


def is_wanted(name: str) -> bool:
    """Whether `collectives` can use an event of this name: the `keep` of a reader.

    Beyond collectives these are launches, by which calls are told apart, what TensorFlow does at
    the end of one, and what only its stats can tell to be one.
    """
    return naming(name) is not None or is_launch(name) or is_return(name)


def collectives(trace: Trace) -> tuple[Collective, ...]:
    """Every whole collective of the recording, by device and in the order of time."""
    spans = _true(_spans(_pieces(trace.events)))
    launches, returns = Launches(trace.events), Returns(trace.events)
    on_host = [span.first.event for span in spans if span.first.device is None]
    devices = dict(zip(map(id, on_host), host_devices(on_host)))
    found = [
        _collective(span, trace.host, devices.get(id(span.first.event)), launches, returns)
        for span in spans
    ]
    return tuple(sorted(found, key=lambda one: (one.device, one.start_s)))


def _pieces(events: Iterable[Event]) -> Iterator[_Piece]:
    for event in events:
        said = naming(event.name)
        device = device_of_plane(event.plane)
        if said and (device is not None or _counts_on_host(event, said)):
            yield _Piece(event=event, said=said, device=device, truth=_truth(event, said, device))


def _counts_on_host(event: Event, said: Naming) -> bool:
    """Whether a host did the work itself; what only starts it elsewhere says not how long it took.

    XLA's CPU client notes the device, its GPU client does not. TensorFlow's CollectiveReduce
    waits for its ring, NcclAllReduce for nothing.
    """
    if said.source is Source.NODE:
        return event.name.rsplit(":", 1)[-1].startswith("Collective")
    return said.source is Source.INSTRUCTION and "device_ordinal" in event.stats


def _truth(event: Event, said: Naming, device: int | None) -> int:
    """The smaller, the closer to the work itself."""
    if device is None:
        return 4
    if "SparseCore" in event.plane:
        return 3
    return 2 if _DERIVED.fullmatch(event.line) else int(said.source)


def _spans(pieces: Iterable[_Piece]) -> list[_Span]:
    """Whole collectives; starts and dones of one device are paired by their number, in time."""
    spans: list[_Span] = []
    open_: dict[tuple[str, int, str], _Piece] = {}
    for piece in sorted(pieces, key=lambda one: one.event.start_s):
        key = (piece.event.plane, piece.truth, piece.said.number)
        if piece.said.phase is Phase.START:
            open_[key] = piece
            continue
        first = open_.pop(key, None) if piece.said.phase is Phase.DONE else piece
        kind = _kind(first, piece) if first else ""
        if first and kind:
            spans.append(_Span(kind=kind, first=first, last=piece))
    return spans


def _kind(first: _Piece, last: _Piece) -> str:
    said = first.said
    if said.source is Source.KERNEL and said.kind == PERMUTE:
        return kind_of_stats(first.event.stats) or PERMUTE
    return said.kind or kind_of_stats(first.event.stats) or kind_of_stats(last.event.stats)


def _true(spans: Sequence[_Span]) -> list[_Span]:
    """Of several records of one device's collectives of one kind, those closest to the work."""
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
    span: _Span, host: str, device: int | None, launches: Launches, returns: Returns
) -> Collective:
    first, last = span.first.event, span.last.event
    stats: Mapping[str, str | int | float] = {**last.stats, **first.stats}
    number = span.first.device if span.first.device is not None else device
    return Collective(
        kind=span.kind,
        name=first.name,
        host=host,
        device=number or 0,
        call=launches.call(first),
        start_s=first.start_s,
        duration_s=_duration_s(first, last, returns),
        payload_bytes=payload_bytes(span.kind, stats),
        place=(first.plane, first.line),
    )


def _duration_s(first: Event, last: Event, returns: Returns) -> float:
    """From the begin of `first` to the end of `last`; of one event, what the profiler says."""
    end_s = returns.end_s(last)
    if first is last and end_s == last.end_s:
        return last.duration_s
    return end_s - first.start_s
