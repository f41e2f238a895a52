"""JAX: which devices it reaches, and which of its programs measures a case."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax
import numpy as np

from busbw.model import VIRTUAL_RANKS, Case, Device, DeviceSet, FailureKind, Injection
from busbw.worker import host

from ..base import MeasuringError, World
from ..framework import AbstractFramework
from ..recorded import Reader
from . import devices, recordings, versions
from .collective import CollectiveProgram
from .dense_step import DenseStepProgram
from .injection import beside_of


class JaxBackend(AbstractFramework):
    """The collectives of `jax.lax` over every device of one class, in one process."""

    name = "jax"
    refusals = (RuntimeError,)

    def __init__(self, device: Device | None, ranks: int | None) -> None:
        super().__init__(device)
        versions.make_cpu_devices(ranks or VIRTUAL_RANKS)
        self.errors = (versions.runtime_error(), MemoryError)
        self.framework_path = os.path.dirname(jax.__file__)
        self.versions = devices.versions_of_packages()
        if device is Device.CPU:
            # What JAX and its compiler take for themselves is there before a case is measured,
            # or the first one's peak would be far from its prediction.
            jax.block_until_ready(jax.jit(abs)(np.float32(1)))

    def _device_set(self, device: Device) -> DeviceSet:
        return devices.device_set(device, jax.devices(device.value))

    def world(self) -> World:
        """The devices that JAX would build a mesh of."""
        found = jax.devices(self._device.value if self._device else None)
        virtual = self._device is Device.CPU
        return World(
            device_kind=host.cpu_model() if virtual else found[0].device_kind,
            ranks=len(found),
            processes=jax.process_count(),
        )

    def _kind(self, case: Case) -> type[CollectiveProgram | DenseStepProgram]:
        return CollectiveProgram if case.workload.is_bare else DenseStepProgram

    def _program(
        self, case: Case, injection: Injection | None
    ) -> CollectiveProgram | DenseStepProgram:
        virtual = self._device is Device.CPU
        make = partial(self._kind(case), case, self._mesh(case), virtual=virtual)
        return make(beside=beside_of(case, injection, lambda tried: make(beside=tried)))

    def _mesh(self, case: Case) -> jax.sharding.Mesh:
        found = jax.devices(self._device.value if self._device else None)
        return devices.mesh_of(case, found)

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[Reader]:
        """JAX's profiler, without Python's own calls: they would be most of the trace."""
        if not versions.has_quiet_profiler():
            raise MeasuringError(
                FailureKind.UNAVAILABLE, "this JAX's profiler cannot leave out Python's calls"
            )
        with versions.recording(folder, self._device):
            yield partial(recordings.read, folder)
