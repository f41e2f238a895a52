"""JAX: which devices it reaches, and cases as `jax_program.JaxProgram`.

The only rooms that import jax are this file and its neighbours `jax_*`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils

from busbw.collectives import COLLECTIVES
from busbw.model import (
    AXES,
    VIRTUAL_RANKS,
    Case,
    Clock,
    Device,
    DeviceSet,
    FailureKind,
    Injection,
    Placement,
    Probe,
    extents_of,
)
from busbw.worker import environ, host

from . import jax_versions
from .base import AbstractBackend, AbstractProgram, MeasuringError, MemoryNeed, World
from .exhausted import is_out_of_memory, out_of_memory
from .jax_beside import beside_of
from .jax_program import JaxProgram

PROGRAM = "chain2"

# A CPU's trace shows its threads' view; an accelerator's is the truest clock there is.
_CLOCKS = {
    Device.CPU: (Clock.HOST, Clock.DISPATCH, Clock.DEVICE),
    Device.GPU: (Clock.DEVICE, Clock.HOST, Clock.DISPATCH),
    Device.TPU: (Clock.DEVICE, Clock.HOST, Clock.DISPATCH),
}


class JaxBackend(AbstractBackend):
    """The collectives of `jax.lax` over every device of one class, in one process."""

    def __init__(self, device: Device | None, ranks: int | None) -> None:
        self._device = device
        self._ranks = ranks
        jax_versions.make_cpu_devices(ranks or VIRTUAL_RANKS)
        self.framework_path = os.path.dirname(jax.__file__)
        self.versions = _versions()
        if device is Device.CPU:
            # What JAX and its compiler take for themselves is there before a case is measured,
            # or the first one's peak would be far from its prediction.
            jax.block_until_ready(jax.jit(abs)(np.float32(1)))

    def now_s(self) -> float:
        """The host's monotonic clock."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """The host's own sleep."""
        time.sleep(seconds)

    def probe(self) -> Probe:
        """The classes of device that JAX reaches; for the others its own words why not."""
        wanted = (self._device,) if self._device else tuple(Device)
        devices, missing = [], {}
        for device in wanted:
            try:
                devices.append(self._device_set(device, jax.devices(device.value)))
            except RuntimeError as error:
                missing[device.value] = str(error).strip().splitlines()[0]
        return Probe(
            framework="jax",
            framework_path=self.framework_path,
            devices=tuple(devices),
            missing=missing,
            versions=self.versions,
            flags=environ.flags(),
        )

    def _device_set(self, device: Device, found: list[Any]) -> DeviceSet:
        virtual = device is Device.CPU
        return DeviceSet(
            device=device,
            device_kind=host.cpu_model() if virtual else found[0].device_kind,
            ranks=len(found),
            any_ranks=virtual,
            protocol=_protocol(device),
            strategies={"default": "psum", "psum": "psum"},
            clocks=_clocks(device),
            mesh=_mesh_text(found) if device is Device.TPU else "",
            cores=host.cores() if virtual else None,
            processes=jax.process_count(),
            hosts=jax.process_count(),
        )

    def world(self) -> World:
        """The devices that JAX would build a mesh of."""
        devices = jax.devices(self._device.value if self._device else None)
        virtual = self._device is Device.CPU
        return World(
            device_kind=host.cpu_model() if virtual else devices[0].device_kind,
            ranks=len(devices),
            processes=jax.process_count(),
        )

    def memory_need(self, case: Case) -> MemoryNeed | None:
        """On the CPU: input and result of each rank, and what XLA's own copies take."""
        if self._device is not Device.CPU:
            return None
        collective = COLLECTIVES[case.collective]
        taken = collective.input_bytes(case.payload_bytes, case.group_size)
        given = collective.output_bytes(case.payload_bytes, case.group_size)
        beside = 0 if collective.copy_free else 2 * case.payload_bytes
        if case.clock is Clock.DISPATCH and case.placement == Placement.OUT_OF_PLACE.value:
            # The last result is let go of only when the next one is there.
            beside += given
        return MemoryNeed(needed_bytes=case.ranks * (taken + given + beside))

    @contextlib.contextmanager
    def prepared(self, case: Case, injection: Injection | None = None) -> Iterator[AbstractProgram]:
        """The compiled and proved program of `case`."""
        with _translated():
            make = partial(JaxProgram, case, self._mesh(case), virtual=self._device is Device.CPU)
            beside = beside_of(case, injection, lambda tried: make(beside=tried))
            program = make(beside=beside)
            try:
                yield program
            finally:
                program.release()

    def _mesh(self, case: Case) -> jax.sharding.Mesh:
        devices = jax.devices(self._device.value if self._device else None)
        if len(devices) < case.ranks:
            raise MeasuringError(
                FailureKind.UNAVAILABLE, f"{case.ranks} ranks asked for, {len(devices)} devices"
            )
        taking_part = devices[: case.ranks]
        if not case.axes:
            return jax.sharding.Mesh(np.array(taking_part), ("ranks",))
        extents = extents_of(case.mesh)
        laid_out = mesh_utils.create_device_mesh(extents, taking_part)
        return jax.sharding.Mesh(laid_out, tuple(AXES[: len(extents)]))

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[None]:
        """JAX's profiler, without Python's own calls: they would be most of the trace."""
        with jax_versions.recording(folder):
            yield


def _clocks(device: Device) -> tuple[Clock, ...]:
    there = jax_versions.has_quiet_profiler()
    return tuple(clock for clock in _CLOCKS[device] if there or clock is not Clock.DEVICE)


def _protocol(device: Device) -> str:
    if device is Device.CPU:
        return f"{PROGRAM}-two-buffers/{environ.allocator()}"
    preallocated = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false"
    return f"{PROGRAM}-one-buffer/{'preallocated' if preallocated else 'grown'}"


def _mesh_text(devices: list[Any]) -> str:
    """The extent of the slice, such as ``2x4``, from the devices' coordinates."""
    coordinates = [device.coords for device in devices]
    extents = [max(axis) - min(axis) + 1 for axis in zip(*coordinates)]
    while len(extents) > 2 and extents[-1] == 1:
        extents.pop()
    return "x".join(str(extent) for extent in extents)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    for name in ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """JAX's errors of running out of memory as ours; any other ends the worker, with its stack."""
    try:
        yield
    except (jax_versions.runtime_error(), MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(error) from error
