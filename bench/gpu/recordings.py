"""The profiler's recording of one case: which kernels it has, which are known, and a small copy."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from busbw.model import variables
from busbw.model.words import MIB
from busbw.traces.collectives import collectives
from busbw.traces.event import Event, TraceError
from busbw.traces.recognition import Recognizer
from busbw.traces.xplane import read_xplane

from .bench import PartError

MOST_BYTES = 2 * MIB
_MOST_NAMES = 40


def kept(folder: Path, into: Path) -> dict[str, Any]:
    """Keep the smallest recording below `folder` as `into`, and return what is in it.

    Raises PartError where there is none, or only larger ones than `MOST_BYTES`.
    """
    found = sorted(folder.rglob("*.xplane.pb"), key=lambda path: path.stat().st_size)
    if not found:
        raise PartError("the profiler left no *.xplane.pb")
    content = found[0].read_bytes()
    # What is masked keeps its length, which the format counts.
    public = variables.public_bytes(content, os.environ, os.path.expanduser("~"))
    said: dict[str, Any] = {"bytes": len(content), "file": into.name}
    if len(content) > MOST_BYTES:
        said["file"] = f"not kept: it is larger than {MOST_BYTES} bytes"
    else:
        into.write_bytes(public)
    try:
        return {**said, **contents(content)}
    except TraceError as error:
        raise PartError(f"{said['file']} cannot be read: {error}") from error


def contents(recording: bytes) -> dict[str, Any]:
    """List names that may be collectives, each with its recognized kind, and planes."""
    trace = read_xplane(recording, keep=lambda *_: True)
    recognizer, counts, known = Recognizer(), Counter[tuple[str, str]](), dict[str, str]()
    planes = Counter(event.plane for event in trace.events)
    for event in trace.events:
        recognized = recognizer.recognize(event)
        if recognized is not None or _is_of_nccl(event):
            counts[event.plane, event.name] += 1
            known[event.name] = recognized.kind if recognized is not None else ""
    return {
        "planes": dict(planes),
        "kernels": [
            {"plane": plane, "name": name, "count": count, "known_as": known[name]}
            for (plane, name), count in counts.most_common(_MOST_NAMES)
        ],
        "collectives": dict(Counter(one.kind for one in collectives(trace))),
    }


def _is_of_nccl(event: Event) -> bool:
    return "nccl" in event.name.lower()
