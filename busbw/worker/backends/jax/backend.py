"""JAX: its devices, which of its programs measures a case, and the recordings of its profiler.

Attached devices and those of a topology are the same values.
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
from ..framework import AbstractFramework, clocks, package_versions
from . import collective, versions
from .injection import calibrate, delay_of
from .program import EVERYWHERE, JaxProgram

PROGRAM = "chain2"
_BUFFERS = {
    Device.CPU: "two-buffers",
    Device.GPU: "one-buffer-by-two",
    Device.TPU: "one-buffer",
}


class JaxBackend(AbstractFramework):
    """The collectives of `jax.lax` over every device of one class, in one process or several."""

    name = "jax"
    refusals = (RuntimeError,)
    turns = True

    def __init__(
        self, device: Device | None, ranks: int | None, member: ClusterMember | None = None
    ) -> None:
        super().__init__(device, member)
        own = (ranks or VIRTUAL_RANKS) // (member.count if member else 1)
        jax.config.update("jax_num_cpu_devices", own)
        if member is not None:
            sharing.check_enough(member, device, own if ranks else None)
            versions.join(member, own if ranks else None)
        elif variables.PROGRAMS in os.environ:
            versions.keep_programs(os.environ[variables.PROGRAMS])
        self._exchange: Exchange | None = None
        self.errors = (jax.errors.JaxRuntimeError, MemoryError)
        self.framework_path = os.path.dirname(jax.__file__)
        self.versions = versions_of_packages()
        if device is Device.CPU:
            # What JAX and its compiler take for themselves is there before a case is measured,
            # or the first one's peak would be far from its prediction.
            jax.block_until_ready(jax.jit(abs)(np.float32(1)))

    def _gathered(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        self._exchange = self._exchange or Exchange(self.device)
        return self._exchange(words)

    def _device_set(self, device: Device) -> DeviceSet:
        member = self._member
        found = device_set(
            device, jax.devices(device.value), hosts=member.hosts if member else None
        )
        shared = member is not None and bool(member.shared_devices) and device is Device.GPU
        return replace(found, shared=shared)

    def _host_bytes(self, case: Case) -> int:
        return collective.host_bytes(case)

    def _program(self, case: Case, injection: Injection | None) -> JaxProgram:
        virtual, delay = self.device is Device.CPU, delay_of(case, injection)
        mesh = self._mesh(case)
        work = collective.work_of(case, mesh, virtual=virtual)
        program = JaxProgram(case, mesh, work, delayed=delay is not None)
        if delay is not None:
            ranks_per_core = len(mesh.local_devices) / host.cores() if virtual else 1.0
            calibrate(program, delay, self.slowest, ranks_per_core=ranks_per_core)
        return program

    def _soaked(self, case: Case) -> JaxProgram:
        mesh, virtual = self._mesh(case), self.device is Device.CPU
        return JaxProgram(case, mesh, collective.work_of(case, mesh, virtual=virtual, soaking=True))

    def devices(self) -> Sequence[Any]:
        """Return all devices of the class that is measured on, those of other processes too."""
        found: Sequence[Any] = jax.devices(self.device.value if self.device else None)
        return found

    def _mesh(self, case: Case) -> jax.sharding.Mesh:
        devices = self.devices()
        return mesh_of(case, [*devices[self.turned :], *devices[: self.turned]])

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[Reader]:
        """Record with JAX's profiler, without Python's own calls: they would be most events."""
        if not versions.has_readable_profiler():
            raise unavailable("this JAX is too old to read recordings of its profiler")
        from . import profile

        with versions.recording(folder, self.device):
            yield partial(profile.read, folder)


def device_set(
    device: Device,
    found: Sequence[Any],
    *,
    processes: int | None = None,
    hosts: int | None = None,
) -> DeviceSet:
    """`processes` None: as many as JAX runs in; `hosts` None: one for each of these."""
    virtual = device is Device.CPU
    processes = jax.process_count() if processes is None else processes
    return DeviceSet(
        device=device,
        device_kind=host.cpu_model() if virtual else found[0].device_kind,
        ranks=len(found),
        any_ranks=virtual,
        program=f"{PROGRAM}-{_BUFFERS[device]}",
        allocator=_allocator(device),
        strategies={"default": "psum", "psum": "psum"},
        clocks=clocks(device, recorded=versions.has_readable_profiler()),
        mesh=_mesh_text(found) if device is Device.TPU else "",
        cores=host.cores() if virtual else None,
        processes=processes,
        hosts=hosts or processes,
    )


def mesh_of(case: Case, devices: Sequence[Any]) -> jax.sharding.Mesh:
    """The mesh that `case` runs over. Raises MeasuringError where there are too few devices."""
    if len(devices) < case.ranks:
        raise unavailable(f"{case.ranks} ranks asked for, {len(devices)} devices")
    taking_part = list(devices[: case.ranks])
    if not case.axes:
        return jax.sharding.Mesh(np.array(taking_part), ("ranks",))
    axes, parts = axes_of(case.mesh), parts_of(case.mesh)
    if parts == 1:
        laid_out = mesh_utils.create_device_mesh(tuple(axes.values()), taking_part)
    else:
        laid_out = _by_host(taking_part, parts).reshape(tuple(axes.values()))
    return jax.sharding.Mesh(laid_out, tuple(axes))


def _by_host(devices: Sequence[Any], parts: int) -> Any:
    """Raises MeasuringError where a part is not of whole processes, or not within one slice."""
    processes = len({device.process_index for device in devices})
    slices = [getattr(device, "slice_index", None) or 0 for device in devices]
    order = sorted(zip(slices, devices), key=lambda one: (one[0], one[1].process_index, one[1].id))
    each = len(devices) // parts
    rows = [order[begin : begin + each] for begin in range(0, len(order), each)]
    if any(len({at for at, _ in row}) > 1 for row in rows):
        raise unavailable(f"{len(set(slices))} slices are not {parts} equal parts of the mesh")
    if any(len({one.process_index for _, one in row}) * parts != processes for row in rows):
        raise unavailable(f"{processes} processes are not {parts} equal parts of the mesh")
    return np.concatenate(
        [mesh_utils.create_device_mesh((each,), [device for _, device in row]) for row in rows]
    )


def versions_of_packages() -> dict[str, str]:
    cuda = [f"jax-cuda{major}-{part}" for major in (12, 13) for part in ("plugin", "pjrt")]
    return package_versions("jax", "jaxlib", "libtpu", *cuda)


def _allocator(device: Device) -> str:
    if device is Device.CPU:
        return process.allocator()
    preallocated = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false"
    return "preallocated" if preallocated else "grown"


def _mesh_text(devices: Sequence[Any]) -> str:
    coordinates = [device.coords for device in devices]
    extents = [max(axis) - min(axis) + 1 for axis in zip(*coordinates)]
    while len(extents) > 2 and extents[-1] == 1:
        extents.pop()
    return "x".join(str(extent) for extent in extents)


Words = Sequence[int]


class Exchange:
    """Words of every process to every process, by one device of each."""

    def __init__(self, device: Device | None) -> None:
        first: dict[int, Any] = {}
        for one in jax.devices(device.value if device else None):
            first.setdefault(one.process_index, one)
        mesh = Mesh(np.array([first[index] for index in sorted(first)]), ("processes",))
        self._each = NamedSharding(mesh, PartitionSpec("processes"))
        self._everywhere = NamedSharding(mesh, EVERYWHERE)
        self._programs: dict[int, Callable[[jax.Array], jax.Array]] = {}

    def __call__(self, words: Words) -> list[list[int]]:
        shape = (self._each.mesh.size, len(words))
        own = np.array([words], np.uint32)
        rows = jax.make_array_from_callback(shape, self._each, lambda index: own)
        if len(words) not in self._programs:
            # What is laid out otherwise afterwards is a collective between.
            jitted = jax.jit(lambda rows: rows, out_shardings=self._everywhere)
            self._programs[len(words)] = jitted.lower(rows).compile()
        (shard,) = self._programs[len(words)](rows).addressable_shards
        found: list[list[int]] = np.asarray(shard.data).tolist()
        return found
