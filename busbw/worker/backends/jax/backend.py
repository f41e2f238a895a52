"""JAX's devices, meshes over them, and the recordings of its profiler.

The functions take devices that are attached, and devices that are only described.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.model import variables
from busbw.model.case import Case
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Injection
from busbw.model.machine import VIRTUAL_RANKS, DeviceSet, axes_of, parts_of
from busbw.model.words import Device
from busbw.worker import host, process, sharing

from ..base import Reader, unavailable
from ..framework import FrameworkBackend, clocks, package_versions
from . import collective, versions
from .collective import EVERYWHERE
from .injection import calibrate, delay_of
from .program import JaxProgram

PROGRAM = "chain2"
_BUFFERS = {
    Device.CPU: "two-buffers",
    Device.GPU: "one-buffer-by-two",
    Device.TPU: "one-buffer",
}


class JaxBackend(FrameworkBackend):
    """The collectives of `jax.lax` over every device of one class, in one process or several."""

    name = "jax"
    missing_errors = (RuntimeError,)

    def __init__(
        self, device: Device | None, ranks: int | None, member: ClusterMember | None = None
    ) -> None:
        super().__init__(device, member)
        local_ranks = (ranks or VIRTUAL_RANKS) // self._processes
        jax.config.update("jax_num_cpu_devices", local_ranks)
        if member is not None:
            sharing.check_gpu_count(member, device, local_ranks if ranks else None)
            versions.join(member, local_ranks if ranks else None)
        elif variables.PROGRAMS in os.environ:
            versions.keep_programs(os.environ[variables.PROGRAMS])
        self._exchange: Exchange | None = None
        self.errors = (jax.errors.JaxRuntimeError, MemoryError)
        self.framework_path = os.path.dirname(jax.__file__)
        self.versions = versions_of_packages()
        if device is Device.CPU:
            # JAX and its compiler allocate memory for themselves in the first program. Allocated in
            # the first case, it would make the measured peak exceed the predicted one.
            jax.block_until_ready(jax.jit(abs)(np.float32(1)))

    def _gather_words(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        self._exchange = self._exchange or Exchange(self.devices())
        return self._exchange(words)

    def _device_set(self, device: Device) -> DeviceSet:
        member = self._member
        hosts = member.hosts if member else None
        devices = device_set(device, jax.devices(device.value), hosts=hosts)
        is_shared = member is not None and bool(member.shared_devices) and device is Device.GPU
        return replace(devices, shared=is_shared)

    def _host_bytes(self, case: Case) -> int:
        return collective.host_bytes(case)

    def _program(self, case: Case, injection: Injection | None) -> JaxProgram:
        is_virtual, delay = self.device is Device.CPU, delay_of(case, injection)
        mesh = self.mesh(case)
        program = JaxProgram(case, mesh, is_virtual=is_virtual, is_delayed=delay is not None)
        if delay is not None:
            ranks_per_core = len(mesh.local_devices) / host.cores() if is_virtual else 1.0
            calibrate(program, delay, self.slowest_s, ranks_per_core=ranks_per_core)
        return program

    def devices(self) -> Sequence[Any]:
        """Return all devices of the class that is measured, also those of other processes."""
        return list(jax.devices(self.device.value if self.device else None))

    def mesh(self, case: Case) -> Mesh:
        """Return the mesh that a case runs over."""
        return mesh_of(case, self.devices())

    @contextlib.contextmanager
    def record(self, folder: Path) -> Iterator[Reader]:
        if not versions.has_readable_profiler():
            raise unavailable("this JAX is too old to read recordings of its profiler")
        from . import profile

        with versions.recording(folder, self.device):
            yield partial(profile.read, folder)


def device_set(
    device: Device,
    devices: Sequence[Any],
    *,
    processes: int | None = None,
    hosts: int | None = None,
) -> DeviceSet:
    """Describe the devices of a class.

    Args:
        device: the class.
        devices: all of its devices.
        processes: the number of processes, None for that of JAX.
        hosts: the number of hosts, None if there is one for each process.

    """
    is_virtual = device is Device.CPU
    processes = jax.process_count() if processes is None else processes
    return DeviceSet(
        device=device,
        device_kind=host.cpu_model() if is_virtual else devices[0].device_kind,
        ranks=len(devices),
        any_ranks=is_virtual,
        program=f"{PROGRAM}-{_BUFFERS[device]}",
        allocator=_allocator(device),
        strategies={"default": "psum", "psum": "psum"},
        clocks=clocks(device, is_recorded=versions.has_readable_profiler()),
        mesh=_torus_text(devices) if device is Device.TPU else "",
        cores=host.cores() if is_virtual else None,
        processes=processes,
        hosts=hosts or processes,
    )


def mesh_of(case: Case, devices: Sequence[Any]) -> Mesh:
    """Return the mesh that `case` runs over. Raises MeasuringError if there are too few devices."""
    if len(devices) < case.ranks:
        raise unavailable(f"{case.ranks} ranks requested, {len(devices)} devices")
    used = list(devices[: case.ranks])
    if not case.axes:
        return Mesh(np.array(used), ("ranks",))
    axes, parts = axes_of(case.mesh), parts_of(case.mesh)
    shape = tuple(axes.values())
    if parts == 1:
        return Mesh(mesh_utils.create_device_mesh(shape, used), tuple(axes))
    return Mesh(_by_host(used, parts).reshape(shape), tuple(axes))


def _by_host(devices: Sequence[Any], parts: int) -> Any:
    """Return the devices in `parts` rows of whole processes, each row in one slice.

    Raises MeasuringError if that is impossible.
    """
    processes = len({device.process_index for device in devices})
    order = sorted(devices, key=lambda device: (_slice_of(device), device.process_index, device.id))
    size = len(devices) // parts
    rows = [order[begin : begin + size] for begin in range(0, len(order), size)]
    if any(len(set(map(_slice_of, row))) > 1 for row in rows):
        slices = len(set(map(_slice_of, devices)))
        raise unavailable(f"{slices} slices are not {parts} equal parts of the mesh")
    if any(len({device.process_index for device in row}) * parts != processes for row in rows):
        raise unavailable(f"{processes} processes are not {parts} equal parts of the mesh")
    return np.concatenate([mesh_utils.create_device_mesh((size,), row) for row in rows])


def _slice_of(device: Any) -> int:
    return getattr(device, "slice_index", None) or 0


def versions_of_packages() -> dict[str, str]:
    """Return the versions of JAX and of the packages of its compilers."""
    cuda = [f"jax-cuda{major}-{part}" for major in (12, 13) for part in ("plugin", "pjrt")]
    return package_versions("jax", "jaxlib", "libtpu", *cuda)


def _allocator(device: Device) -> str:
    if device is Device.CPU:
        return process.allocator()
    is_preallocated = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false"
    return "preallocated" if is_preallocated else "grown"


def _torus_text(devices: Sequence[Any]) -> str:
    coordinates = [device.coords for device in devices]
    extents = [max(axis) - min(axis) + 1 for axis in zip(*coordinates)]
    while len(extents) > 2 and extents[-1] == 1:
        extents.pop()
    return "x".join(str(extent) for extent in extents)


class Exchange:
    """Sends words of every process to every process, with the first device of each process."""

    def __init__(self, devices: Sequence[Any]) -> None:
        first: dict[int, Any] = {}
        for device in devices:
            first.setdefault(device.process_index, device)
        mesh = Mesh(np.array([first[index] for index in sorted(first)]), ("processes",))
        self._by_process = NamedSharding(mesh, PartitionSpec("processes"))
        self._everywhere = NamedSharding(mesh, EVERYWHERE)
        self._programs: dict[int, Callable[[jax.Array], jax.Array]] = {}

    def __call__(self, words: Sequence[int]) -> list[list[int]]:
        """Return the words of all processes, in the order of their indices."""
        shape = (self._by_process.mesh.size, len(words))
        row = np.array([words], np.uint32)
        rows = jax.make_array_from_callback(shape, self._by_process, lambda index: row)
        if len(words) not in self._programs:
            # Another sharding of the result makes XLA add a collective.
            jitted = jax.jit(lambda rows: rows, out_shardings=self._everywhere)
            self._programs[len(words)] = jitted.lower(rows).compile()
        (shard,) = self._programs[len(words)](rows).addressable_shards
        gathered: list[list[int]] = np.asarray(shard.data).tolist()
        return gathered
