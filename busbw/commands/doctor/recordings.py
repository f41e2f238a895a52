"""The recording of a profiler in the file of `busbw doctor`: compressed, without secrets and homes.

What is masked keeps its length, which the format counts.
"""

from __future__ import annotations

import base64
import os
import statistics
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from busbw import files
from busbw.model import variables
from busbw.model.words import bytes_text, plural, seconds_text
from busbw.traces.collectives import WantedEvents, collectives
from busbw.traces.iterations import iterations
from busbw.traces.xplane import read_xplane

# Of one that is kept, in gzip and unpacked.
_MOST_BYTES, _MOST_UNPACKED = 1_000_000, 64_000_000
_GZIP = 31


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """The `*.xplane.pb` of a case, in gzip and base64; "" where `problem` says why it is not kept.

    ``base64 -d | gunzip`` unpacks it for `busbw trace` and for XProf.
    """

    case: str
    content: str = ""
    problem: str = ""


def kept(folder: Path) -> tuple[Recording, ...]:
    """The smallest one of each framework of those that workers left below `folder`."""
    smallest: dict[str, tuple[str, Path]] = {}
    for path in sorted(folder.rglob("*.xplane.pb"), key=lambda one: one.stat().st_size):
        case = path.relative_to(folder).parts[0].partition("@")[0]
        smallest.setdefault(case.partition(".")[0], (case, path))
    found = tuple(_read(case, path) for case, path in smallest.values())
    return found or (Recording(case="", problem="the profiler left no *.xplane.pb"),)


def _read(case: str, path: Path) -> Recording:
    try:
        return _packed(case, files.content(path, _MOST_UNPACKED))
    except files.InputError as error:
        return Recording(case=case, problem=f"it {error}")


def _packed(case: str, whole: bytes) -> Recording:
    packing = zlib.compressobj(9, wbits=_GZIP)
    public = variables.public_bytes(whole, os.environ, os.path.expanduser("~"))
    content = packing.compress(public) + packing.flush()
    if len(content) > _MOST_BYTES:
        sizes = f"{bytes_text(len(whole))}, compressed {bytes_text(len(content))}"
        return Recording(case=case, problem=f"it is too large: {sizes}")
    return Recording(case=case, content=base64.b64encode(content).decode())


def texts(recordings: Iterable[Recording]) -> Iterator[tuple[str, bool]]:
    """What busbw's own reader makes of each, and whether it cannot."""
    for one in recordings:
        name = f"recording: {one.case}: " if one.case else "recording: "
        try:
            yield name + (f"not kept: {one.problem}" if one.problem else _text(one.content)), False
        except (ValueError, zlib.error) as error:
            yield f"{name}{error}", True


def _text(packed: str) -> str:
    """Raises zlib.error, and ValueError for whatever else is no recording."""
    unpacking = zlib.decompressobj(_GZIP)
    content = unpacking.decompress(base64.b64decode(packed, validate=True), _MOST_UNPACKED)
    if not unpacking.eof:
        raise ValueError(f"it is cut, or unpacks to more than {bytes_text(_MOST_UNPACKED)}")
    found = collectives(read_xplane(content, keep=WantedEvents()))
    paired = iterations([one for one in found if one.kind == "all_reduce"])
    if not paired:
        raise ValueError("no all_reduce in it beyond the warm-up")
    slowest_s = statistics.median(one.slowest_s for one in paired)
    return (
        f"{bytes_text(len(content))}, {len(paired)} all_reduce on "
        f"{plural(len(paired[0].durations_s), 'rank')}, {seconds_text(slowest_s)} by the slowest"
    )
