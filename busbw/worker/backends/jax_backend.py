"""JAX: which devices it reaches, and cases as `jax_program.JaxProgram`.

The only rooms that import jax are this file and `jax_program`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from busbw.model import VIRTUAL_RANKS, Case, Device, DeviceSet, FailureKind, Probe
from busbw.worker import environ, host

from .base import AbstractBackend, AbstractProgram, MeasuringError, MemoryNeed
from .exhausted import is_out_of_memory, out_of_memory
from .jax_program import JaxProgram

PROGRAM = "chain1"


class JaxBackend(AbstractBackend):
    """`jax.lax.psum` over every device of one class, in one process."""

    def __init__(self, device: Device | None, ranks: int | None) -> None:
        self._device = device
        self._ranks = ranks
        jax.config.update("jax_num_cpu_devices", ranks or VIRTUAL_RANKS)
        self.framework_path = os.path.dirname(jax.__file__)
        self.versions = _versions()
        if device is Device.CPU:
            # What JAX and its compiler take for themselves is there before a case is measured,
            # or the first one's peak would be far from its prediction.
            jax.block_until_ready(jax.jit(abs)(np.float32(1)))

    def now_s(self) -> float:
        """The host's monotonic clock."""
        return time.perf_counter()

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
            mesh=_mesh_text(found) if device is Device.TPU else "",
            cores=host.cores() if virtual else None,
            processes=jax.process_count(),
            hosts=jax.process_count(),
        )

    def memory_need(self, case: Case) -> MemoryNeed | None:
        """Two buffers a rank on the CPU: the chain goes from one to the other and back."""
        if self._device is not Device.CPU:
            return None
        return MemoryNeed(needed_bytes=2 * case.ranks * case.payload_bytes)

    @contextlib.contextmanager
    def prepared(self, case: Case) -> Iterator[AbstractProgram]:
        """The compiled and proved program of `case`."""
        with _translated():
            program = JaxProgram(case, self._mesh(case), virtual=self._device is Device.CPU)
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
        return jax.sharding.Mesh(np.array(devices[: case.ranks]), ("ranks",))


def _protocol(device: Device) -> str:
    if device is Device.CPU:
        return f"host/{PROGRAM}-two-buffers/{environ.allocator()}"
    preallocated = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false"
    return f"host/{PROGRAM}-one-buffer/{'preallocated' if preallocated else 'grown'}"


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
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(error) from error
