"""With --program=RECORDING: the collectives that a job ran, and how long each took there.

A profiler notes kind, payload and groups, and no dtype: payloads are measured as float32.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from busbw import files
from busbw.collectives import COLLECTIVES
from busbw.model.program import Use
from busbw.traces.chrome import MOST_BYTES, read_chrome
from busbw.traces.collectives import WantedEvents, collectives
from busbw.traces.event import RecordedCollective, Trace, TraceError
from busbw.traces.iterations import iterations
from busbw.traces.xplane import read_xplane

from .option import usage_error

_XPLANE, _CHROME = ".xplane.pb", ".trace.json.gz"


def is_recording(source: str) -> bool:
    return source.endswith((_XPLANE, _CHROME)) or Path(source).is_dir()


def recorded(source: str) -> tuple[tuple[Use, float], ...]:
    """Each collective with its seconds in a step, of the slowest rank. Raises UsageError.

    A call of a program is a step; where calls are not told apart, all of it is one.
    """
    found: dict[object, list[RecordedCollective]] = defaultdict(list)
    with usage_error(TraceError, files.InputError, ValueError, where=f"--program={source}: "):
        for trace in _traces(Path(source)):
            for one in collectives(trace):
                found[one.kind, one.payload_bytes, one.groups].append(one)
        calls = {(one.program, one.call) for alike in found.values() for one in alike}
        if not calls:
            raise ValueError("no collective in it")
        return tuple(_use(alike, len(calls)) for alike in found.values())


def _traces(path: Path) -> list[Trace]:
    """Of every host; of two files of one recording the complete one."""
    there = [path] if path.is_file() else sorted(path.rglob(f"*{_XPLANE}"))
    there = there or sorted(path.rglob(f"*{_CHROME}"))
    if not there:
        dumps = sorted(path.glob("*after_optimizations.txt"))
        hint = f"; it has optimized HLO: name one file, such as {dumps[0]}" if dumps else ""
        raise ValueError(f"no *{_XPLANE} and no *{_CHROME} in it{hint}")
    found = []
    for one in there:
        read = read_xplane if one.name.endswith(_XPLANE) else read_chrome
        content = files.content(one, MOST_BYTES)
        found.append(read(content, host=one.name, keep=WantedEvents()))
    return found


def _use(alike: Sequence[RecordedCollective], steps: int) -> tuple[Use, float]:
    first, ran = alike[0], iterations(alike, drop_first=False)
    ranks = first.groups.size if first.groups else len(ran[0].durations_s)
    use = Use(
        kind=first.kind,
        dtype="float32",
        payload_bytes=first.payload_bytes or 0,
        ranks=ranks,
        groups=first.groups.groups if first.groups else 1,
        reduce_op="sum" if _reduces(first.kind) else "",
        times=max(1, round(len(ran) / steps)),
    )
    return use, use.times * statistics.median(one.slowest_s for one in ran)


def _reduces(kind: str) -> bool:
    return kind in COLLECTIVES and bool(COLLECTIVES[kind].reduce_ops)
