"""The back end of JAX: its devices, meshes over these devices, and recordings of its profiler.

The functions of this module also accept devices that are not attached, for which programs are only
compiled.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.machine import (
    DEFAULT_VIRTUAL_RANKS,
    DeviceSet,
    GroupMember,
    axis_extents,
    count_device_groups,
)
from busbw.model.words import Clock, DeviceClass, Placement
from busbw.worker import host

from ..base import RecordingReader, TimedCollective, unavailable
from ..framework import (
    FrameworkBackend,
    cpu_allocator_setting,
    package_versions,
    usable_clocks,
)
from ..recordings import events_of_profile_data, timed_collectives
from ..values import CaseValues
from . import versions
from .collective import REPLICATED
from .injection import calibrate_delay, delay_or_none
from .program import JaxProgram

# The name of this back end's programs in protocols. The name changes if the programs change.
PROGRAM_NAME = "chain2"
# The words of protocols for the buffers that a program uses.
_BUFFER_WORDS = {
    DeviceClass.CPU: "two-buffers",
    DeviceClass.GPU: "one-buffer-by-two",
    DeviceClass.TPU: "one-buffer",
}


class JaxBackend(FrameworkBackend):
    """The back end of JAX, which measures the collectives of `jax.lax` on a class of device."""

    name = "jax"
    missing_device_errors = (RuntimeError,)

    def __init__(
        self, device: DeviceClass | None, ranks: int | None, member: GroupMember | None = None
    ) -> None:
        super().__init__(device, member)
        local_ranks = (ranks or DEFAULT_VIRTUAL_RANKS) // self._processes
        jax.config.update("jax_num_cpu_devices", local_ranks)
        if member is not None:
            host.check_gpu_count(member, device, local_ranks if ranks else None)
            versions.join_group(member, local_ranks if ranks else None)
        elif variables.PROGRAMS_VARIABLE in os.environ:
            versions.use_compilation_cache(os.environ[variables.PROGRAMS_VARIABLE])
        self._word_exchange: JaxAllGather | None = None
        self.program_errors = (jax.errors.JaxRuntimeError, MemoryError)
        self.framework_path = os.path.dirname(jax.__file__)
        self.versions = jax_package_versions()
        if device is DeviceClass.CPU:
            # JAX and its compiler allocate memory of their own when they run the first program. If
            # the first case were this program, its measured peak would exceed the predicted peak.
            jax.block_until_ready(jax.jit(abs)(np.float32(1)))

    def _gather_words(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        self._word_exchange = self._word_exchange or JaxAllGather(self.devices())
        return self._word_exchange(words)

    def _describe_devices(self, device: DeviceClass) -> DeviceSet:
        member = self._member
        devices = describe_devices(
            device, jax.devices(device.value), hosts=member.hosts if member else None
        )
        is_shared = member is not None and bool(member.shared_devices) and device is DeviceClass.GPU
        return replace(devices, shared=is_shared)

    def _needed_host_bytes(self, case: Case) -> int:
        """Return the bytes that all ranks of `case` need for inputs, results and XLA's copies."""
        collective = COLLECTIVES[case.collective]
        inputs = collective.input_bytes(case.payload_bytes, case.group_size)
        outputs = collective.output_bytes(case.payload_bytes, case.group_size)
        temporary = 0
        if not collective.is_copy_free_on_cpus:
            temporary = 2 * case.payload_bytes
        if case.clock is Clock.DISPATCH and case.placement == Placement.OUT_OF_PLACE.value:
            # The result of the previous call is released only after the next result exists.
            temporary += outputs
        return case.ranks * (inputs + outputs + temporary)

    def _make_program(
        self, case: Case, injection: Injection | None, values_type: type[CaseValues]
    ) -> JaxProgram:
        is_virtual = self.device is DeviceClass.CPU
        delay = delay_or_none(case, injection)
        mesh = self.mesh(case)
        program = JaxProgram(
            case,
            mesh,
            is_virtual=is_virtual,
            has_delay=delay is not None,
            values_type=values_type,
        )
        if delay is not None:
            ranks_per_core = len(mesh.local_devices) / host.usable_cores() if is_virtual else 1.0
            calibrate_delay(program, delay, self.all_gather, ranks_per_core=ranks_per_core)
        return program

    def devices(self) -> Sequence[Any]:
        """Return all devices of the measured class, including devices of other processes."""
        return list(jax.devices(self.device.value if self.device else None))

    def mesh(self, case: Case) -> Mesh:
        """Return the mesh of devices on which a case runs. Raises MeasuringError as `make_mesh`."""
        return make_mesh(case, self.devices())

    @contextlib.contextmanager
    def record_profile(self, folder: Path) -> Iterator[RecordingReader]:
        with versions.run_profiler(folder, self.device):
            yield partial(read_collectives, folder)


def read_collectives(folder: Path, end_by_begin: Mapping[str, str]) -> list[TimedCollective]:
    """Return the collectives, with their times, in all recordings of JAX's profiler in `folder`.

    `end_by_begin` maps the name of the instruction that begins a collective to the name of the
    instruction that ends the collective (`Program.end_by_begin_instruction`).
    """
    events = [
        event
        for path in folder.rglob("*.xplane.pb")
        for event in events_of_profile_data(jax.profiler.ProfileData.from_file(str(path)))
    ]
    return [collective for collective, _ in timed_collectives(events, end_by_begin)]


def describe_devices(
    device: DeviceClass,
    devices: Sequence[Any],
    *,
    processes: int | None = None,
    hosts: int | None = None,
) -> DeviceSet:
    """Return the DeviceSet of `devices`.

    The DeviceSet has the kind and number of the devices, the strategies and clocks that can be used
    on the devices, and the names of the program and the allocator for protocols.

    Args:
        device: the class of the devices.
        devices: all devices of the class, as `jax.devices` returns them.
        processes: the number of processes; None for the number that JAX reports.
        hosts: the number of hosts; None if each process runs on a different host.

    """
    is_virtual = device is DeviceClass.CPU
    if processes is None:
        processes = jax.process_count()
    return DeviceSet(
        device=device,
        device_kind=host.cpu_model() if is_virtual else devices[0].device_kind,
        ranks=len(devices),
        any_ranks=is_virtual,
        program=f"{PROGRAM_NAME}-{_BUFFER_WORDS[device]}",
        allocator=_allocator_setting(device),
        strategies={"default": "psum", "psum": "psum"},
        clocks=usable_clocks(device, has_readable_profiler=versions.has_readable_profiler()),
        mesh=_torus_extents_text(devices) if device is DeviceClass.TPU else "",
        cores=host.usable_cores() if is_virtual else None,
        processes=processes,
        hosts=hosts or processes,
    )


def make_mesh(case: Case, devices: Sequence[Any]) -> Mesh:
    """Return the mesh of JAX's devices on which `case` runs, with a device for each rank.

    The mesh has the first of the available `devices`. Raises MeasuringError UNAVAILABLE if there
    are fewer `devices` than ranks, or if the processes or the slices (linked sets of TPUs) of the
    devices do not fit the mesh of the case.
    """
    if len(devices) < case.ranks:
        raise unavailable(f"{case.ranks} ranks requested, {len(devices)} devices")
    used = list(devices[: case.ranks])
    if not case.axes:
        return Mesh(np.array(used), ("ranks",))
    axes, parts = axis_extents(case.mesh), count_device_groups(case.mesh)
    shape = tuple(axes.values())
    if parts == 1:
        return Mesh(mesh_utils.create_device_mesh(shape, used), tuple(axes))
    return Mesh(_arrange_devices_in_rows(used, parts).reshape(shape), tuple(axes))


def _arrange_devices_in_rows(devices: Sequence[Any], row_count: int) -> Any:
    """Arrange devices in `row_count` rows of equal length.

    A row has all devices of one process or more, so no process is in two rows. All devices of a row
    are in the same slice, a set of TPUs with links of their own. Returns a flat numpy array of the
    devices, one row after the other. Raises MeasuringError UNAVAILABLE if such rows are impossible.
    """
    processes = len({device.process_index for device in devices})
    order = sorted(
        devices, key=lambda device: (_slice_index(device), device.process_index, device.id)
    )
    size = len(devices) // row_count
    rows = [order[begin : begin + size] for begin in range(0, len(order), size)]
    if any(len(set(map(_slice_index, row))) > 1 for row in rows):
        slices = len(set(map(_slice_index, devices)))
        raise unavailable(f"{slices} slices are not {row_count} equal parts of the mesh")
    if any(len({device.process_index for device in row}) * row_count != processes for row in rows):
        raise unavailable(f"{processes} processes are not {row_count} equal parts of the mesh")
    return np.concatenate([mesh_utils.create_device_mesh((size,), row) for row in rows])


def _slice_index(device: Any) -> int:
    """Return the index of the slice of TPUs to which a device belongs, 0 for other devices."""
    return getattr(device, "slice_index", None) or 0


def jax_package_versions() -> dict[str, str]:
    """Return the versions of the packages of JAX and its compilers, by the package's name."""
    cuda = [f"jax-cuda{major}-{part}" for major in (12, 13) for part in ("plugin", "pjrt")]
    return package_versions("jax", "jaxlib", "libtpu", *cuda)


def _allocator_setting(device: DeviceClass) -> str:
    """Return how JAX allocates the memory of a class of device, as a word for protocols.

    On accelerators the word is ``preallocated`` if JAX takes most memory at its start, and
    ``grown`` if JAX takes memory when it is needed. On CPUs it is the word of
    `cpu_allocator_setting`, such as ``malloc``.
    """
    if device is DeviceClass.CPU:
        return cpu_allocator_setting()
    is_preallocated = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false"
    return "preallocated" if is_preallocated else "grown"


def _torus_extents_text(devices: Sequence[Any]) -> str:
    """Return the number of TPUs along each axis of the torus that links `devices`.

    The result is a text such as ``2x4``. All `devices` must be TPUs, which have coordinates in the
    torus. A third axis with a single TPU is left out.
    """
    coordinates = [device.coords for device in devices]
    extents = [max(axis) - min(axis) + 1 for axis in zip(*coordinates)]
    while len(extents) > 2 and extents[-1] == 1:
        extents.pop()
    return "x".join(str(extent) for extent in extents)


class JaxAllGather:
    """A callable that exchanges words between the processes of a group, by JAX's collectives.

    A word is an unsigned integer of 32 bits. Only the first device of each process takes part.
    `devices` are the devices of all processes.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        # In reversed order, the first device of each process overwrites its other devices.
        first = {device.process_index: device for device in reversed(devices)}
        mesh = Mesh(np.array([first[index] for index in sorted(first)]), ("processes",))
        self._by_process = NamedSharding(mesh, PartitionSpec("processes"))
        # XLA adds an all-gather to this identity function, because its result is on all devices.
        self._gather = jax.jit(lambda rows: rows, out_shardings=NamedSharding(mesh, REPLICATED))

    def __call__(self, words: Sequence[int]) -> list[list[int]]:
        """Send `words`, and return the words of each process, in the order of their indices."""
        shape = (self._by_process.mesh.size, len(words))
        row = np.array([words], np.uint32)
        rows = jax.make_array_from_callback(shape, self._by_process, lambda index: row)
        (shard,) = self._gather(rows).addressable_shards
        gathered: list[list[int]] = np.asarray(shard.data).tolist()
        return gathered
