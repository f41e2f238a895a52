"""What else a rank did during a collective: how much of the collective computing hid.

Other instructions of the same rank count, by the union of their times. What only holds others (a
loop, a call, a program's launch, what the profiler derives) is none, nor is another collective or
a part of one. Where the recording holds no instruction of a rank beside its collectives, nobody
knows: that is None, and never 0.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable

from .attribution import device_of_plane, noted_device
from .event import Event, RecordedCollective, Stats, Trace
from .telling import Telling

# Instructions that stand for all that runs inside of them, on whatever line.
_HOLDER = re.compile(r"%?(?:while|call|conditional|async-\w+)(?:[.\-]\d+)*")
# What clients and thread pools note by the thousand beside the work itself.
_NO_WORK = re.compile(r"end: |ThreadpoolListener|ThunkExecutor|CommonPjRt")
# Lines that hold the work; kernels on a GPU's streams are closer to it than instructions.
_STREAM, _INSTRUCTIONS = re.compile(r"Stream\b.*"), "XLA Ops"

# On a host or on a device of its own, and which one.
_Rank = tuple[bool, int]


def is_work_or_wanted(name: str, plane: str = "", stats: Stats | None = None) -> bool:
    """Whether an event of this name can matter here: the `keep` of a reader."""
    return _NO_WORK.match(name) is None


class Overlap:
    """The instructions of each rank of a recording, without its collectives."""

    def __init__(self, trace: Trace) -> None:
        found: dict[_Rank, list[Event]] = defaultdict(list)
        telling = Telling()
        for event in trace.events:
            rank = _rank(event)
            if rank is not None and not _HOLDER.match(event.name) and telling.of(event) is None:
                found[rank].append(event)
        self._of = {
            rank: sorted(_closest(events), key=lambda event: event.start_s)
            for rank, events in found.items()
        }
        self._starts = {rank: [one.start_s for one in events] for rank, events in self._of.items()}
        self._longest_s = {
            rank: max(one.duration_s for one in events) for rank, events in self._of.items()
        }

    def hidden_s(self, one: RecordedCollective) -> float | None:
        """Seconds of `one` in which its rank did something else, too; None where nobody knows."""
        plane, line = one.place
        rank = (device_of_plane(plane) is None, one.device)
        if rank not in self._of:
            return None
        begin_s, end_s = one.start_s, one.start_s + one.duration_s
        first = bisect.bisect_left(self._starts[rank], begin_s - self._longest_s[rank])
        last = bisect.bisect_left(self._starts[rank], end_s)
        return _covered_s(
            (
                event
                for event in self._of[rank][first:last]
                if not (
                    (event.plane, event.line) == (plane, line)
                    and event.start_s <= begin_s
                    and event.end_s >= end_s
                )
            ),
            begin_s,
            end_s,
        )


def _rank(event: Event) -> _Rank | None:
    """Whose instruction this is; None for what is none, or of nobody knows whom.

    XLA's CPU client notes instruction and device. TensorFlow on the CPU notes no device.
    """
    device = device_of_plane(event.plane)
    if device is not None:
        works = event.line == _INSTRUCTIONS or _STREAM.fullmatch(event.line)
        # A SparseCore does nothing here but parts of collectives.
        return (False, device) if works and "SparseCore" not in event.plane else None
    noted = noted_device(event)
    return (True, noted) if noted is not None and "hlo_op" in event.stats else None


def _closest(events: Iterable[Event]) -> list[Event]:
    """Kernels where there are streams: instructions would be the same work again."""
    events = list(events)
    return [one for one in events if _STREAM.fullmatch(one.line)] or events


def _covered_s(events: Iterable[Event], begin_s: float, end_s: float) -> float:
    """How much of the stretch the events, by their start, cover together."""
    covered_s, until_s = 0.0, begin_s
    for event in events:
        from_s, to_s = max(until_s, event.start_s), min(end_s, event.end_s)
        if to_s > from_s:
            covered_s += to_s - from_s
            until_s = to_s
    return covered_s
