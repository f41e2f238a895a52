"""The collectives of a recording: of which kind, on which device, in which call, and how long.

An event counts where the work is done: the instructions of a TPU, the kernels of a GPU, and on a
CPU what XLA and TensorFlow run themselves. What only starts the work on a device does not count.
"""

from __future__ import annotations

import functools
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from busbw import storage
from busbw.collectives.base import GroupSize, group_size_of
from busbw.worker.backends.hlo import module as hlo

XPLANE = ".xplane.pb"
# A value in JSON may take a hundred bytes of memory, whatever its size in the file.
MOST_VALUES = 20_000_000
_DAMAGE = (
    *(AttributeError, EOFError, LookupError, OSError, OverflowError, RuntimeError, TypeError),
    zlib.error,
)
# Begin and duration of an event by the own clock of a TPU.
_OWN = ("device_offset_ps", "device_duration_ps")
UNKNOWN = "collective of unknown kind"
# Plane and line of what a device does, with its number.
_WORK = re.compile(
    r".*\b(?:TPU(?:[ _]?Core)?[:_ ](?P<tpu>\d{1,9}) XLA Ops|GPU:(?P<gpu>\d{1,9})\b.* ?Stream.*)"
)
# The letters of names of instructions (XLA), primitives (JAX), nodes (TensorFlow), kernels (NCCL)
# and operations (PyTorch).
_KIND = re.compile(
    r"(?:(?P<all_reduce>allreduce|crossreplicasum|psum|pmax|pmin|collectivereduce)"
    r"|(?P<all_gather>allgather|collectivegather)"
    r"|(?P<reduce_scatter>(?:all)?reducescatter|psumscatter|collectivereducescatter)"
    r"|(?P<all_to_all>(?:ragged)?alltoall|collectivealltoall)"
    r"|(?P<permute>(?:collective|p)permute|sendrecv))"
    r"(?:v|base|invariant|coalesced|into|tensor|cloned?|remat|inmegacore|fusion|call|start|done)*"
)
# A kernel of NCCL or RCCL, with its collective unless it runs any.
_NCCL = re.compile(
    r"nccl\w*Kernel\w*_Generic|mscclKernel"
    r"|nccl(?:\w*Kernel(?:Debug)?_)?(?P<op>[A-Z][a-z]+[A-Z][a-z]+)"
)
_INSTANCE = ("step_id", "frame_id", "iter_id", "instance_key")
_NCCL_STATS = ("Group size", "In msg nelems", "Out msg nelems")
_NCCL_BYTES = {
    **dict.fromkeys(("Char", "Byte", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
}
# Characters of an instruction: the time that it takes to read one grows with their square.
_LONGEST_TEXT = 20_000


class Event(NamedTuple):
    """An interval of time on a line (a queue, a thread) of a plane (a device, a host).

    `own_start_s` is the begin by the device's own clock, `start_s` by the clock of all planes.
    """

    plane: str
    line: str
    name: str
    start_s: float
    own_start_s: float
    duration_s: float
    stats: Mapping[str, Any]


def read(path: Path, most_bytes: int) -> list[Event]:
    """Return the events of a recording, and one without a name for each plane.

    Raises ValueError for a file that is damaged, or that has or unpacks to more than `most_bytes`.
    """
    content = storage.read(path, most_bytes)
    try:
        return _of_xplane(content) if path.name.endswith(XPLANE) else _of_json(content, most_bytes)
    except ImportError as error:
        raise ValueError(f"reading *{XPLANE} needs JAX: pip install jax") from error
    except _DAMAGE as error:
        raise ValueError(f"not a profiler's recording, or a damaged one: {error}") from error


def _of_xplane(content: bytes) -> list[Event]:
    from jax.profiler import ProfileData

    recording = ProfileData.from_serialized_xspace(content)
    return [_event(plane.name) for plane in recording.planes] + [
        _event(
            plane.name,
            line.name,
            event.name,
            event.start_ns * 1e-9,
            round(event.duration_ns * 1000) * 1e-12,
            dict(event.stats),
        )
        for plane in recording.planes
        for line in plane.lines
        for event in line.events
    ]


def _of_json(content: bytes, most_bytes: int) -> list[Event]:
    text = storage.unpacked(content, most_bytes)
    if text.count(b",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values")
    document = json.loads(text)
    rows = document if isinstance(document, list) else document["traceEvents"]
    names = {
        (row["pid"], row["tid"] if row["name"] == "thread_name" else None): str(row["args"]["name"])
        for row in rows
        if row.get("ph") == "M" and row.get("name") in ("process_name", "thread_name")
    }
    planes = [_event(name) for name in names.values()]
    return planes + [_of_row(row, names) for row in rows if row.get("ph") == "X"]


def _of_row(row: Mapping[str, Any], names: Mapping[tuple[Any, Any], str]) -> Event:
    process, stats = row.get("pid"), row.get("args") or {}
    place = names.get((process, None), ""), names.get((process, row.get("tid")), "")
    if row.get("cat") == "kernel":
        # PyTorch's profiler names neither planes nor lines.
        place = f"/device:GPU:{stats.get('device', process)}", "Stream"
    begin_s, duration_s = float(row["ts"]) * 1e-6, float(row.get("dur", 0)) * 1e-6
    return _event(*place, str(row.get("name", "")), begin_s, duration_s, dict(stats))


def _event(
    plane: str,
    line: str = "",
    name: str = "",
    start_s: float = 0.0,
    duration_s: float = 0.0,
    stats: Mapping[str, Any] = MappingProxyType({}),
) -> Event:
    own_s = [float(stats[key]) * 1e-12 for key in _OWN if key in stats]
    own_start_s, duration_s = own_s if len(own_s) == len(_OWN) else (start_s, duration_s)
    return Event(plane, line, name, start_s, own_start_s, duration_s, stats)


class Collective(NamedTuple):
    """A collective on a device. `call` is a launch of its program, "" where unknown."""

    kind: str
    payload_bytes: int | None
    groups: GroupSize | None
    device: str
    call: str
    duration_s: float


def collectives(events: Iterable[Event], host: str) -> list[Collective]:
    """Return the collectives of a host's recording in the order of time.

    Raises ValueError for a number that no profiler writes.
    """
    in_time = sorted([*events, *_nodes(events)], key=lambda event: event.start_s)
    launches: dict[str, list[Event]] = defaultdict(list)
    on_devices, on_host = list[Collective](), list[Collective]()
    for event in _joined(in_time):
        if event.line == "XLA Modules":
            launches[event.plane].append(event)
        work = _WORK.fullmatch(f"{event.plane[:80]} {event.line[:80]}")
        device = (work["tpu"] or work["gpu"]) if work else event.stats.get("device_ordinal")
        text = event.name if " = " in event.name else str(event.stats.get("long_name", ""))
        instruction = _instruction(text[:_LONGEST_TEXT])
        kind = _kind_of(event, instruction, is_kernel=bool(work and work["gpu"]))
        if kind and device is not None:
            call = str(event.stats.get("run_id", len(launches[event.plane])))
            sizes = _sizes(event, instruction, kind)
            collective = Collective(kind, *sizes, f"{host}/{device}", call, event.duration_s)
            (on_devices if work else on_host).append(collective)
    # Where devices did the work, a host has only started it.
    return on_devices or on_host


def _joined(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the begin and the end of an instruction that another one waits for as one event."""
    begun: dict[tuple[str, str], Event] = {}
    for event in events:
        name = event.name.partition(" = ")[0]
        phase = re.search(r"-(start|done)\b", name) if event.line == "XLA Ops" else None
        if phase is None:
            yield event
        elif phase[1] == "start":
            begun[event.plane, name] = event
        elif first := begun.pop((event.plane, name.replace("-done", "-start")), None):
            end_s = event.own_start_s + event.duration_s
            yield first._replace(duration_s=end_s - first.own_start_s)


def _nodes(events: Iterable[Event]) -> Iterator[Event]:
    """Yield TensorFlow's collectives on a CPU, each as an instruction of its replica.

    The replicas of a collective are nodes of one step, iteration and instance, in the order of
    their numbers. A node's event goes on after the node has returned its result.
    """
    returns: dict[tuple[str, str], list[float]] = defaultdict(list)
    replicas: dict[tuple[str, ...], dict[tuple[int, str], Event]] = defaultdict(dict)
    for event in events:
        if event.name == "CollectiveExecutor::ExecuteAsync::Done":
            returns[event.line, str(event.stats.get("name"))].append(event.start_s)
        elif event.line.startswith("collective_ops") and "instance_key" in event.stats:
            instance = tuple(str(event.stats.get(key)) for key in _INSTANCE)
            replicas[instance][len(event.name), event.name] = event
    for (step, *_), nodes in replicas.items():
        for rank, (_, event) in enumerate(sorted(nodes.items())):
            node, _, operation = event.name.rpartition(":")
            ends = [
                end - event.start_s for end in returns[event.line, node] if end >= event.start_s
            ]
            yield event._replace(
                name=operation,
                duration_s=min([*ends, event.duration_s]),
                stats={"device_ordinal": rank, "run_id": step},
            )


@functools.lru_cache(maxsize=4096)
def _instruction(text: str) -> hlo.Instruction | None:
    lines = hlo.read(f"%noted () -> () {{\n{text}\n}}").computations["noted"]
    return lines[0] if lines else None


def _kind_of(event: Event, instruction: hlo.Instruction | None, *, is_kernel: bool) -> str:
    """Return the kind of collective, "" for none. What is more reliable is asked first."""
    words = [event.name.partition(" = ")[0]]
    kernel = _NCCL.match(event.name[:80]) if is_kernel else None
    if is_kernel and not event.name.startswith("Mem"):
        noted = [str(event.stats.get(name)) for name in ("Collective name", "hlo_op")]
        words = [*noted, str(kernel and kernel["op"])]
    # Others have any name, such as all_gather.5 for a copy.
    elif instruction and not re.fullmatch("(async|(custom-)?call)(-start)?", instruction.op):
        words = [instruction.op, *instruction.called]
    letters = (re.sub("[^a-z]", "", word.lower()) for word in words)
    kind = next((match.lastgroup for match in map(_KIND.fullmatch, letters) if match), None)
    return kind or (UNKNOWN if kernel and not kernel["op"] else "")


def _sizes(
    event: Event, instruction: hlo.Instruction | None, kind: str
) -> tuple[int | None, GroupSize | None]:
    """Return the larger of a rank's input and output in bytes, and the groups, where noted."""
    if not 0 <= event.duration_s < 1e6:
        raise ValueError(f"{event.name[:60]!r} takes {event.duration_s} s")
    size, *counts = (event.stats.get(name) for name in _NCCL_STATS)
    groups = GroupSize(1, size) if isinstance(size, int) and size > 0 else None
    payload_bytes = max((count for count in counts if isinstance(count, int)), default=0)
    payload_bytes *= _NCCL_BYTES.get(str(event.stats.get("dtype")), 0)
    if instruction:
        groups = group_size_of(instruction.text)
        # A reduce-scatter gives one of the blocks that it takes.
        blocks = (groups.size if groups else 0) if kind == "reduce_scatter" else 1
        is_known = instruction.op != "fusion" or len(instruction.array_bytes) == 1
        payload_bytes = instruction.result_bytes * blocks * is_known
    return payload_bytes if 0 < payload_bytes < 10**15 else None, groups
