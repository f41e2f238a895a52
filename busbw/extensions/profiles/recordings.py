"""Read a profiler's recording, and find its collectives: their kind, device, call and duration.

A collective is found by the event on the device that does the work: an instruction of a TPU, a
kernel of a GPU, and on a CPU an operation of XLA or TensorFlow. Events on the host that only start
work on a device are left out.
"""

from __future__ import annotations

import bisect
import functools
import json
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from busbw import storage
from busbw.collectives.base import RankGroups, rank_groups_of_line
from busbw.worker.backends import hlo
from busbw.worker.backends.recordings import (
    DEVICE_TIME_STATS,
    ProfileEvent,
    events_of_profile_data,
    tensorflow_collective_runs,
    timed_collectives,
)

XPLANE_SUFFIX = ".xplane.pb"
# A value of JSON may take a hundred bytes of memory, even if it is a single digit in the file.
MAX_JSON_VALUES = 20_000_000
UNKNOWN_KIND = "collective of unknown kind"
# The names of collectives, of which only the letters are compared: names of instructions
# (XLA), primitives (JAX), nodes (TensorFlow), kernels (NCCL) and operations (PyTorch).
_COLLECTIVE_NAME_PATTERN = re.compile(
    r"(?:(?P<all_reduce>allreduce|crossreplicasum|psum|pmax|pmin|collectivereduce)"
    r"|(?P<all_gather>allgather|collectivegather)"
    r"|(?P<reduce_scatter>(?:all)?reducescatter|psumscatter|collectivereducescatter)"
    r"|(?P<all_to_all>(?:ragged)?alltoall|collectivealltoall)"
    r"|(?P<permute>(?:collective|p)permute|sendrecv))"
    r"(?:v|base|invariant|coalesced|into|tensor|cloned?|remat|inmegacore|fusion|call|start|done)*"
)
# A kernel of NCCL or RCCL, whose name contains the collective, except for generic kernels.
_NCCL_KERNEL_NAME_PATTERN = re.compile(
    r"nccl\w*Kernel\w*_Generic|mscclKernel"
    r"|nccl(?:\w*Kernel(?:Debug)?_)?(?P<op>[A-Z][a-z]+[A-Z][a-z]+)"
)
_NCCL_DTYPE_BYTES = {
    "Char": 1,
    "Byte": 1,
    "Bool": 1,
    "Float8_e4m3fn": 1,
    "Float8_e5m2": 1,
    "Half": 2,
    "BFloat16": 2,
    "Short": 2,
    "Float": 4,
    "Int": 4,
    "Double": 8,
    "Long": 8,
}
# Longer texts of instructions are cut, because the time to read a text grows with its square.
_MAX_INSTRUCTION_CHARACTERS = 20_000


class RecordedCollective(NamedTuple):
    """A single run of a collective on one device, as a profiler recorded it.

    Attributes:
        kind: The kind of collective, such as ``all_reduce``, or UNKNOWN_KIND.
        payload_bytes: The payload; None if the recording lacks the payload.
        groups: The number and size of the groups of ranks; None if the recording lacks groups.
        instruction: The name of the instruction in the program.
        device: The name of the device, ``<host>/<number>``.
        call: A name for the call of the program that ran the collective. Collectives of the same
            call on a device have the same name.
        duration_s: The time on the device in seconds.

    """

    kind: str
    payload_bytes: int | None
    groups: RankGroups | None
    instruction: str
    device: str
    call: str
    duration_s: float


def read_events(path: Path, max_bytes: int) -> list[ProfileEvent]:
    """Return the events in a file of a recording: a file of XProf (`*.xplane.pb`), or a JSON trace.

    An event without a name is added for each plane (a device or a host), so that a device without
    events is known. Raises ValueError if the file is damaged, if the file has more than `max_bytes`
    packed or unpacked, or if reading the file needs JAX, and JAX is not installed.
    """
    content = storage.read(path, max_bytes)
    with (
        storage.reraise_as(
            ValueError, ImportError, where="reading *.xplane.pb needs `pip install jax`: "
        ),
        storage.reraise_as(
            ValueError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            where="not a profiler's recording, or a damaged one: ",
        ),
    ):
        return (
            _events_of_xplane(content)
            if path.name.endswith(XPLANE_SUFFIX)
            else _events_of_json(content, max_bytes)
        )


def _events_of_xplane(content: bytes) -> list[ProfileEvent]:
    """Return the events of a recording of XProf, after an event without a name for each plane.

    `content` is the content of a file ``*.xplane.pb``. A plane is a device or a host.
    """
    from jax.profiler import ProfileData

    # jaxlib 0.12 makes types of which Python 3.12 warns, and ends the process if that is an error.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        recording = ProfileData.from_serialized_xspace(content)
        return [
            *(ProfileEvent(plane.name, "", "", 0, 0, {}) for plane in recording.planes),
            *events_of_profile_data(recording),
        ]


def _events_of_json(content: bytes, max_bytes: int) -> list[ProfileEvent]:
    """Return the events of a JSON trace, after an event without a name for each plane.

    `content` is the content of the file, and may be packed by gzip. A plane is a device or a host.
    Raises ValueError if the unpacked trace has more than `max_bytes`, or too many values.
    """
    text = storage.gunzip(content, max_bytes)
    if text.count(b",") > MAX_JSON_VALUES:
        raise ValueError(f"it has more than {MAX_JSON_VALUES} values")
    document = json.loads(text)
    rows = document if isinstance(document, list) else document["traceEvents"]
    planes = {r["pid"]: str(r["args"]["name"]) for r in rows if r.get("name") == "process_name"}
    # A line is a queue of a device, or a thread of a host.
    lines = {
        (row["pid"], row["tid"]): str(row["args"]["name"])
        for row in rows
        if row.get("name") == "thread_name"
    }
    events = [ProfileEvent(plane, "", "", 0, 0, {}) for plane in planes.values()]
    for row in (row for row in rows if row.get("ph") == "X"):
        process, stats = row.get("pid"), dict(row.get("args") or {})
        place = planes.get(process, ""), lines.get((process, row.get("tid")), "")
        if row.get("cat") == "kernel":
            # PyTorch's profiler gives no names to planes and lines.
            place = f"/device:GPU:{stats.get('device', process)}", "Stream"
        stats |= {name: float(stats[name]) for name in DEVICE_TIME_STATS if name in stats}
        times_ps = float(row["ts"]) * 1e6, float(row.get("dur", 0)) * 1e6
        events.append(ProfileEvent(*place, str(row.get("name", "")), *times_ps, stats))
    return events


def find_collectives(events: Sequence[ProfileEvent], host: str) -> list[RecordedCollective]:
    """Return the collectives among the `events` that were recorded on `host`, in order of time.

    If a device ran a collective, events on the host itself are left out. Events whose duration is
    negative or above 1e6 s are left out, too, because profilers write no such durations.
    """
    events = [*events, *_tensorflow_replica_events(events)]
    launches = sorted(
        (event.plane, event.start_ps) for event in events if event.line == "XLA Modules"
    )
    on_devices, on_host = list[RecordedCollective](), list[RecordedCollective]()
    for recorded, event in timed_collectives(events, None):
        kind, payload_bytes, groups = (
            _kind_payload_and_groups_of_kernel(event)
            if "GPU:" in event.plane
            else _kind_payload_and_groups_of_instruction(
                event.name[:_MAX_INSTRUCTION_CHARACTERS],
                str(event.stats.get("long_name"))[:_MAX_INSTRUCTION_CHARACTERS],
            )
        )
        if kind and 0 <= recorded.duration_s < 1e6:
            launch = bisect.bisect(launches, (event.plane, event.start_ps))
            (on_host if event.plane.startswith("/host") else on_devices).append(
                RecordedCollective(
                    kind,
                    payload_bytes if 0 < payload_bytes < 10**15 else None,
                    groups,
                    recorded.instruction,
                    f"{host}/{recorded.device}",
                    str(event.stats.get("run_id", launch)),
                    recorded.duration_s,
                )
            )
    # If devices did the work, the host only started it, and its events do not count.
    return on_devices or on_host


def _tensorflow_replica_events(events: Iterable[ProfileEvent]) -> Iterator[ProfileEvent]:
    """Yield TensorFlow's collectives on a CPU, as if each replica were a device of its own.

    Each replica runs its own node of TensorFlow's graph. The nodes that run the same collective at
    the same time have the same step, iteration and instance. These nodes are sorted by the number
    in their names. A node's place in this order is the number of the device in its yielded event.
    """
    instances: dict[tuple[str, ...], dict[tuple[int, str], ProfileEvent]] = defaultdict(dict)
    for event in tensorflow_collective_runs(events):
        if "instance_key" in event.stats:
            instance = tuple(
                str(event.stats.get(key))
                for key in ("step_id", "frame_id", "iter_id", "instance_key")
            )
            instances[instance][len(event.name), event.name] = event
    for (step, *_), nodes in instances.items():
        for rank, (_, event) in enumerate(sorted(nodes.items())):
            yield event._replace(
                name=event.name.rpartition(":")[2],
                stats={"device_ordinal": rank, "run_id": step},
            )


def _kind_payload_and_groups_of_kernel(event: ProfileEvent) -> tuple[str, int, RankGroups | None]:
    """Return the kind of a GPU kernel's collective, its payload in bytes, and its groups of ranks.

    The kind is empty if the kernel runs no collective, and UNKNOWN_KIND for a kernel of NCCL whose
    name does not say which collective it runs. An unknown payload is 0, and unknown groups are
    None. Arguments that the recording has for the kernel take precedence over the kernel's name.
    """
    kernel = _NCCL_KERNEL_NAME_PATTERN.match(event.name[:80])
    stats = event.stats
    kind = _first_collective_kind(
        stats.get("Collective name"), stats.get("hlo_op"), kernel and kernel["op"]
    )
    size = stats.get("Group size")
    groups = RankGroups(1, size) if isinstance(size, int) and size > 0 else None
    counts = stats.get("In msg nelems"), stats.get("Out msg nelems")
    elements = max((count for count in counts if isinstance(count, int)), default=0)
    payload_bytes = elements * _NCCL_DTYPE_BYTES.get(str(stats.get("dtype")), 0)
    return kind or (UNKNOWN_KIND if kernel and not kernel["op"] else ""), payload_bytes, groups


@functools.lru_cache(maxsize=4096)
def _kind_payload_and_groups_of_instruction(
    name: str, hlo_text: str
) -> tuple[str, int, RankGroups | None]:
    """Return the kind of an instruction's collective, its payload in bytes, and its rank groups.

    The kind is empty if the instruction is no collective. An unknown payload is 0, and unknown
    groups are None. The operation in `hlo_text`, the HLO of the instruction, takes precedence over
    `name`, the name of the instruction. `name` may be HLO, too.
    """
    kind = _first_collective_kind(name.partition(" = ")[0])
    module = hlo.read_module(f"%noted () -> () {{\n{name}\n{hlo_text}\n}}")
    for instruction in module.computations["noted"][:1]:
        # The name of an instruction of another kind says nothing: all_gather.5 may be a copy.
        if not re.fullmatch("(async|(custom-)?call)(-start)?", instruction.op):
            kind = _first_collective_kind(instruction.op, *instruction.called_computations)
        if kind:
            groups = rank_groups_of_line(instruction.text)
            # The result of a reduce-scatter is one of the blocks of its payload.
            blocks = (groups.size if groups else 0) if kind == "reduce_scatter" else 1
            is_known = instruction.op != "fusion" or len(instruction.array_bytes) == 1
            return kind, instruction.result_bytes * blocks * is_known, groups
    return kind, 0, None


def _first_collective_kind(*candidate_names: object) -> str:
    """Return the kind of the first of `candidate_names` that names a collective, or an empty text.

    For example, the name ``psum.7`` has the kind ``all_reduce``.
    """
    letters = (re.sub("[^a-z]", "", str(name).lower()) for name in candidate_names)
    return next(
        (
            str(match.lastgroup)
            for match in map(_COLLECTIVE_NAME_PATTERN.fullmatch, letters)
            if match
        ),
        "",
    )
