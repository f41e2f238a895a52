"""JAX: which devices it reaches, and cases as `jax_program.JaxProgram`.

The only rooms that import jax are this file and its neighbours `jax_*`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax
import numpy as np

from busbw.collectives import COLLECTIVES
from busbw.model import (
    VIRTUAL_RANKS,
    Case,
    Clock,
    Device,
    FailureKind,
    Injection,
    Placement,
    Probe,
)
from busbw.worker import environ, host

from . import jax_devices, jax_recordings, jax_versions
from .base import AbstractBackend, AbstractProgram, MeasuringError, MemoryNeed, World
from .exhausted import is_out_of_memory, out_of_memory
from .jax_beside import beside_of
from .jax_program import JaxProgram
from .jax_training import JaxStepProgram, step_memory_bytes
from .recorded import Reader


class JaxBackend(AbstractBackend):
    """The collectives of `jax.lax` over every device of one class, in one process."""

    def __init__(self, device: Device | None, ranks: int | None) -> None:
        self._device = device
        self._ranks = ranks
        jax_versions.make_cpu_devices(ranks or VIRTUAL_RANKS)
        self.framework_path = os.path.dirname(jax.__file__)
        self.versions = jax_devices.versions()
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
                devices.append(jax_devices.device_set(device, jax.devices(device.value)))
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
        if not case.workload.is_bare:
            return MemoryNeed(needed_bytes=step_memory_bytes(case))
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
            kind = JaxProgram if case.workload.is_bare else JaxStepProgram
            make = partial(kind, case, self._mesh(case), virtual=self._device is Device.CPU)
            beside = beside_of(case, injection, lambda tried: make(beside=tried))
            program = make(beside=beside)
            try:
                yield program
            finally:
                program.release()

    def _mesh(self, case: Case) -> jax.sharding.Mesh:
        devices = jax.devices(self._device.value if self._device else None)
        return jax_devices.mesh_of(case, devices)

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[Reader]:
        """JAX's profiler, without Python's own calls: they would be most of the trace."""
        if not jax_versions.has_quiet_profiler():
            raise MeasuringError(
                FailureKind.UNAVAILABLE, "this JAX's profiler cannot leave out Python's calls"
            )
        with jax_versions.recording(folder, self._device):
            yield partial(jax_recordings.read, folder)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """JAX's errors of running out of memory as ours; any other ends the worker, with its stack."""
    try:
        yield
    except (jax_versions.runtime_error(), MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(error) from error
