"""The collectives of a recording: of which kind, on which device, in which call, and how long.

An event counts where the work is done: the instructions of a TPU, the kernels of a GPU, and on a
CPU what XLA and TensorFlow run themselves. What only starts the work on a device does not count.
"""

from __future__ import annotations

import bisect
import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from busbw import storage
from busbw.collectives.base import GroupSize, group_size_of
from busbw.worker.backends.hlo import module as hlo
from busbw.worker.backends.recordings import (
    DEVICE_TIMES,
    ProfileEvent,
    tensorflow_node_runs,
    timed_collectives,
)

XPLANE = ".xplane.pb"
# A value in JSON may take a hundred bytes of memory, whatever its size in the file.
MOST_VALUES = 20_000_000
UNKNOWN = "collective of unknown kind"
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
_NCCL_BYTES = {
    **dict.fromkeys(("Char", "Byte", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
}
# Characters of an instruction: the time that it takes to read one grows with their square.
_LONGEST_TEXT = 20_000


class Collective(NamedTuple):
    """A collective on a device. `call` is a launch of its program, "" where unknown."""

    kind: str
    payload_bytes: int | None
    groups: GroupSize | None
    instruction: str
    device: str
    call: str
    duration_s: float


def read(path: Path, most_bytes: int) -> list[ProfileEvent]:
    """Return the events of a recording, and one without a name for each plane.

    Raises ValueError for a file that is damaged, or that has or unpacks to more than `most_bytes`.
    """
    content = storage.read(path, most_bytes)
    try:
        return _of_xplane(content) if path.name.endswith(XPLANE) else _of_json(content, most_bytes)
    except ImportError as error:
        raise ValueError(f"reading *{XPLANE} needs JAX: pip install jax") from error
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(f"not a profiler's recording, or a damaged one: {error}") from error


def _of_xplane(content: bytes) -> list[ProfileEvent]:
    from jax.profiler import ProfileData

    from busbw.worker.backends.jax.profile import events_of

    recording = ProfileData.from_serialized_xspace(content)
    planes = [ProfileEvent(plane.name, "", "", 0, 0, {}) for plane in recording.planes]
    return planes + events_of(recording)


def _of_json(content: bytes, most_bytes: int) -> list[ProfileEvent]:
    text = storage.gunzip(content, most_bytes)
    if text.count(b",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values")
    document = json.loads(text)
    rows = document if isinstance(document, list) else document["traceEvents"]
    names = {
        (row["pid"], row["tid"] if row["name"] == "thread_name" else None): str(row["args"]["name"])
        for row in rows
        if row.get("ph") == "M" and row.get("name") in ("process_name", "thread_name")
    }
    planes = [ProfileEvent(name, "", "", 0, 0, {}) for name in names.values()]
    return planes + [_of_row(row, names) for row in rows if row.get("ph") == "X"]


def _of_row(row: Mapping[str, Any], names: Mapping[tuple[Any, Any], str]) -> ProfileEvent:
    process, stats = row.get("pid"), dict(row.get("args") or {})
    place = names.get((process, None), ""), names.get((process, row.get("tid")), "")
    if row.get("cat") == "kernel":
        # PyTorch's profiler names neither planes nor lines.
        place = f"/device:GPU:{stats.get('device', process)}", "Stream"
    stats |= {name: float(stats[name]) for name in DEVICE_TIMES if name in stats}
    times_ps = float(row["ts"]) * 1e6, float(row.get("dur", 0)) * 1e6
    return ProfileEvent(*place, str(row.get("name", "")), *times_ps, stats)


def collectives(events: Sequence[ProfileEvent], host: str) -> list[Collective]:
    """Return the collectives of a host's recording in the order of time.

    Raises ValueError for a number that no profiler writes.
    """
    events = [*events, *_replicas(events)]
    launches = sorted(
        (event.plane, event.start_ps) for event in events if event.line == "XLA Modules"
    )
    on_devices, on_host = list[Collective](), list[Collective]()
    for recorded, first in timed_collectives(events, None):
        kind, payload_bytes, groups = (
            _of_kernel(first)
            if "GPU:" in first.plane
            else _of_instruction(
                first.name[:_LONGEST_TEXT], str(first.stats.get("long_name"))[:_LONGEST_TEXT]
            )
        )
        if kind:
            if not 0 <= recorded.duration_s < 1e6:
                raise ValueError(f"{first.name[:60]!r} takes {recorded.duration_s} s")
            launch = bisect.bisect(launches, (first.plane, first.start_ps))
            collective = Collective(
                kind,
                payload_bytes if 0 < payload_bytes < 10**15 else None,
                groups,
                recorded.instruction,
                f"{host}/{recorded.device}",
                str(first.stats.get("run_id", launch)),
                recorded.duration_s,
            )
            (on_host if first.plane.startswith("/host") else on_devices).append(collective)
    # Where devices did the work, a host has only started it.
    return on_devices or on_host


def _replicas(events: Iterable[ProfileEvent]) -> Iterator[ProfileEvent]:
    """Yield TensorFlow's collectives on a CPU, each as an instruction of its replica.

    The replicas of a collective are nodes of one step, iteration and instance, in the order of
    their numbers.
    """
    instances: dict[tuple[str, ...], dict[tuple[int, str], ProfileEvent]] = defaultdict(dict)
    for event in tensorflow_node_runs(events):
        if "instance_key" in event.stats:
            instance = tuple(str(event.stats.get(key)) for key in _INSTANCE)
            instances[instance][len(event.name), event.name] = event
    for (step, *_), nodes in instances.items():
        for rank, (_, event) in enumerate(sorted(nodes.items())):
            operation = event.name.rpartition(":")[2]
            yield event._replace(name=operation, stats={"device_ordinal": rank, "run_id": step})


def _of_kernel(event: ProfileEvent) -> tuple[str, int, GroupSize | None]:
    """Return what a kernel of a GPU does: by what the recording notes, else by its name."""
    kernel = _NCCL.match(event.name[:80])
    stats = event.stats
    kind = _kind_of(stats.get("Collective name"), stats.get("hlo_op"), kernel and kernel["op"])
    size = stats.get("Group size")
    groups = GroupSize(1, size) if isinstance(size, int) and size > 0 else None
    counts = stats.get("In msg nelems"), stats.get("Out msg nelems")
    elements = max((count for count in counts if isinstance(count, int)), default=0)
    payload_bytes = elements * _NCCL_BYTES.get(str(stats.get("dtype")), 0)
    return kind or (UNKNOWN if kernel and not kernel["op"] else ""), payload_bytes, groups


@functools.lru_cache(maxsize=4096)
def _of_instruction(name: str, text: str) -> tuple[str, int, GroupSize | None]:
    """Return what an instruction does: by the operation in its text, else by its name."""
    kind = _kind_of(name.partition(" = ")[0])
    module = hlo.read_module(f"%noted () -> () {{\n{name}\n{text}\n}}")
    for instruction in module.computations["noted"][:1]:
        # Others have any name, such as all_gather.5 for a copy.
        if not re.fullmatch("(async|(custom-)?call)(-start)?", instruction.op):
            kind = _kind_of(instruction.op, *instruction.called_computations)
        if kind:
            groups = group_size_of(instruction.text)
            # A reduce-scatter gives one of the blocks that it takes.
            blocks = (groups.size if groups else 0) if kind == "reduce_scatter" else 1
            is_known = instruction.op != "fusion" or len(instruction.array_bytes) == 1
            return kind, instruction.result_bytes * blocks * is_known, groups
    return kind, 0, None


def _kind_of(*names: object) -> str:
    letters = (re.sub("[^a-z]", "", str(name).lower()) for name in names)
    return next((str(match.lastgroup) for match in map(_KIND.fullmatch, letters) if match), "")
