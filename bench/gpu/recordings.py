"""Keep the profiler's recording of one case, and list its kernels with what they are known as."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from busbw.model import variables
from busbw.model.words import MIB
from busbw.traces.collectives import collectives
from busbw.traces.event import TraceError
from busbw.traces.recognition import Recognizer
from busbw.traces.xplane import read_xplane

from ..processes import BenchError

MOST_BYTES = 2 * MIB
_MOST_NAMES = 40


def keep(folder: Path, path: Path) -> dict[str, Any]:
    """Copy the smallest recording below `folder` to `path`, and return what is in it.

    Raises BenchError if there is none that can be read. A recording of more than `MOST_BYTES` is
    read but not copied.
    """
    recordings = sorted(folder.rglob("*.xplane.pb"), key=lambda recording: recording.stat().st_size)
    if not recordings:
        raise BenchError("the profiler left no *.xplane.pb")
    content = recordings[0].read_bytes()
    name = path.name
    if len(content) > MOST_BYTES:
        name = f"not kept: it is larger than {MOST_BYTES} bytes"
    else:
        # Masked secrets keep their length, which the format counts.
        path.write_bytes(variables.public_bytes(content, os.environ, os.path.expanduser("~")))
    try:
        return {"bytes": len(content), "file": name, **contents(content)}
    except TraceError as error:
        raise BenchError(f"{name} cannot be read: {error}") from error


def contents(recording: bytes) -> dict[str, Any]:
    """Return the number of events by plane, kernels that may be collectives, and collectives."""
    trace, recognizer = read_xplane(recording, keep=lambda *_: True), Recognizer()
    counts, kinds = Counter[tuple[str, str]](), dict[str, str]()
    for event in trace.events:
        recognized = recognizer.recognize(event)
        if recognized is not None or "nccl" in event.name.lower():
            counts[event.plane, event.name] += 1
            kinds[event.name] = recognized.kind if recognized is not None else ""
    return {
        "planes": dict(Counter(event.plane for event in trace.events)),
        "kernels": [
            {"plane": plane, "name": name, "count": count, "known_as": kinds[name]}
            for (plane, name), count in counts.most_common(_MOST_NAMES)
        ],
        "collectives": dict(Counter(collective.kind for collective in collectives(trace))),
    }
