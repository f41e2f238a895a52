"""`*.trace.json.gz`: the trace viewer's own format, which profilers have written since 2017.

Gzip and JSON of the standard library; times are in microseconds, a device's own duration is in
the argument `device_duration_ps`.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .event import MOST_EVENTS, Event, Trace, TraceError

_US = 1e-6
_PS = 1e-12


def read_chrome(
    content: bytes, *, host: str = "", keep: Callable[[str], bool] | None = None
) -> Trace:
    """The recording in a trace.json.gz file; of its events those whose name `keep` accepts.

    Raises TraceError for what is cut, is no gzip or no JSON, or does not hold a trace's events.
    """
    rows = _rows(_unpacked(content))
    planes, lines = _names(rows)
    complete = [(place, row) for place, row in enumerate(rows) if row.get("ph") == "X"]
    events = tuple(
        _event(row, place, planes, lines)
        for place, row in complete
        if keep is None or keep(str(row.get("name", "")))
    )
    return Trace(
        events=events, host=host, recorded=len(complete), is_cut=len(complete) >= MOST_EVENTS
    )


def _unpacked(content: bytes) -> bytes:
    if not content:
        raise TraceError("the file is empty")
    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise TraceError("the gzip stream is cut: the file is not whole") from error
    except (OSError, zlib.error) as error:
        raise TraceError(f"not a gzip file, or a damaged one: {error}") from error


def _rows(content: bytes) -> list[dict[str, Any]]:
    """The events, as they stand in the file: a list, or an object with a list of that name."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"no whole JSON document: {error}") from error
    rows = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise TraceError("no traceEvents in it: not a profiler's recording")
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise TraceError(f"traceEvents[{place}]: expected an object, got {str(row)[:60]!r}")
    return rows


def _names(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """The names of processes and of their threads, from the events that do nothing else."""
    planes: dict[str, str] = {}
    lines: dict[tuple[str, str], str] = {}
    for row in rows:
        args = row.get("args")
        if row.get("ph") != "M" or not isinstance(args, dict):
            continue
        process, name = str(row.get("pid", "")), str(args.get("name", ""))
        if row.get("name") == "process_name":
            planes[process] = name
        elif row.get("name") == "thread_name":
            lines[process, str(row.get("tid", ""))] = name
    return planes, lines


def _event(
    row: Mapping[str, Any],
    place: int,
    planes: Mapping[str, str],
    lines: Mapping[tuple[str, str], str],
) -> Event:
    process, thread = str(row.get("pid", "")), str(row.get("tid", ""))
    args = row.get("args")
    stats = {
        key: worth
        for key, worth in (args.items() if isinstance(args, dict) else ())
        if isinstance(worth, (str, int, float))
    }
    return Event(
        name=str(row.get("name", "")),
        plane=planes.get(process, process),
        line=lines.get((process, thread), thread),
        start_s=_number(row.get("ts"), f"traceEvents[{place}].ts") * _US,
        duration_s=_duration_s(row, stats, place),
        stats=stats,
    )


def _duration_s(row: Mapping[str, Any], stats: Mapping[str, Any], place: int) -> float:
    if "device_duration_ps" in stats:
        where = f"traceEvents[{place}].args.device_duration_ps"
        return _number(stats["device_duration_ps"], where) * _PS
    return _number(row.get("dur", 0), f"traceEvents[{place}].dur") * _US


def _number(worth: Any, where: str) -> float:
    """A number, also where it was written as text, as the viewer's format does with large ones."""
    try:
        number = float(worth)
    except (TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"{where}: expected a number, got {str(worth)[:60]!r}") from error
    if not math.isfinite(number):
        raise TraceError(f"{where}: expected a finite number, got {worth}")
    return number
