"""What a profiler wrote, read by ourselves: where a framework brings no reader of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from busbw.traces import Keep, Trace, read_chrome, read_xplane

# What was recorded, of every host: the events that are kept. Raises TraceError.
Reader = Callable[[Keep], Sequence[Trace]]


def read_files(folder: Path, keep: Keep) -> list[Trace]:
    """The recordings below `folder`: xplane files, or where there are none, the viewer's.

    Raises TraceError for one that is damaged.
    """
    planes = sorted(folder.rglob("*.xplane.pb"))
    if planes:
        return [read_xplane(path.read_bytes(), host=path.name, keep=keep) for path in planes]
    others = sorted(folder.rglob("*.trace.json.gz"))
    return [read_chrome(path.read_bytes(), host=path.name, keep=keep) for path in others]
