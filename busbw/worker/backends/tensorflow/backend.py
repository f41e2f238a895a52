"""TensorFlow: which devices it reaches, and which of its programs measures a case."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from busbw.model import (
    VIRTUAL_RANKS,
    Case,
    Device,
    DeviceSet,
    Extra,
    FailureKind,
    Injection,
)
from busbw.worker import environ, host

from ..base import MeasuringError, World
from ..framework import AbstractFramework, clocks
from ..recorded import Reader
from . import recordings, versions
from .collective import CollectiveProgram
from .dense_step import DenseStepProgram
from .replicas import make_strategy

PROGRAM = "outer-loop2"

_EVENTS_END_S = 0.5

_STRATEGIES = {
    Device.CPU: {
        "default": "ring",
        "ring": "ring",
        "reduction_to_one_device": "reduction_to_one_device",
        "hierarchical_copy": "hierarchical_copy",
    },
    Device.GPU: {
        "default": "collective_nccl",
        "collective_nccl": "collective_nccl",
        "nccl": "nccl",
        "reduction_to_one_device": "reduction_to_one_device",
        "hierarchical_copy": "hierarchical_copy",
    },
    Device.TPU: {"default": "tpu", "tpu": "tpu"},
}


class TensorflowBackend(AbstractFramework):
    """`replica_context.all_reduce` under a strategy of `tf.distribute`, in one process."""

    name = "tensorflow"
    refusals = (MeasuringError, ValueError, RuntimeError, tf.errors.OpError)
    errors = (tf.errors.OpError, MemoryError)
    leaves_cycles = True

    def __init__(self, device: Device | None, ranks: int | None) -> None:
        super().__init__(device)
        self.keeps_memory = _keeps_memory()
        self.framework_path = os.path.dirname(tf.__file__)
        self.versions = versions.of_packages()
        self._strategies: dict[str, Any] = {}
        self._names: list[str] = []
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration() for _ in range(ranks or VIRTUAL_RANKS)]
        tf.config.set_logical_device_configuration(cpu, logical)

    def _device_set(self, device: Device) -> DeviceSet:
        names = _logical_devices(device)
        virtual = device is Device.CPU
        return DeviceSet(
            device=device,
            device_kind=_device_kind(device),
            ranks=len(names),
            any_ranks=virtual,
            program=PROGRAM,
            allocator=_allocator(device),
            strategies=_STRATEGIES[device],
            clocks=clocks(device, recorded=versions.has_whole_profiler()),
            cores=host.cores() if virtual else None,
        )

    def world(self) -> World:
        """The devices that TensorFlow would build a strategy of."""
        assert self._device is not None
        names = self._devices()
        return World(device_kind=_device_kind(self._device), ranks=len(names), processes=1)

    def _kind(self, case: Case) -> type[CollectiveProgram | DenseStepProgram]:
        return CollectiveProgram if case.workload.is_bare else DenseStepProgram

    def _program(
        self, case: Case, injection: Injection | None
    ) -> CollectiveProgram | DenseStepProgram:
        if self._device is None:
            raise MeasuringError(FailureKind.UNAVAILABLE, "the worker was opened for no device")
        if injection is not None and injection.extra in (Extra.DELAY, Extra.PAYLOAD):
            raise MeasuringError(
                FailureKind.UNAVAILABLE, f"TensorFlow's program cannot do a {injection.extra.value}"
            )
        virtual = self._device is Device.CPU
        return self._kind(case)(case, self._strategy(case), virtual=virtual)

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[Reader]:
        """TensorFlow's profiler, without Python's own calls: they would be most of the trace."""
        options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
        tf.profiler.experimental.start(str(folder), options=options)
        try:
            yield partial(recordings.read, folder)
            # The end of an event is written after its values are there: one still open is lost.
            time.sleep(_EVENTS_END_S)
        finally:
            tf.profiler.experimental.stop()

    def _strategy(self, case: Case) -> Any:
        """One strategy object per name: TensorFlow's collective groups last for the process."""
        if case.strategy not in self._strategies:
            # What was imported never becomes garbage: it need not be searched for any.
            gc.freeze()
            names = self._devices()
            if len(names) < case.ranks or (self._device is Device.TPU and len(names) > case.ranks):
                raise MeasuringError(
                    FailureKind.UNAVAILABLE, f"{case.ranks} ranks asked for, {len(names)} devices"
                )
            strategy = make_strategy(case.strategy, names[: case.ranks])
            self._strategies[case.strategy] = strategy
        return self._strategies[case.strategy]

    def _devices(self) -> list[str]:
        """Asked once: to ask for a TPU's devices is to start it anew."""
        assert self._device is not None
        self._names = self._names or _logical_devices(self._device)
        return self._names


def _logical_devices(device: Device) -> list[str]:
    """Names of the devices of one class; raises MeasuringError where there are none."""
    if device is Device.TPU:
        if not tf.config.list_physical_devices("TPU_SYSTEM"):
            raise MeasuringError(FailureKind.UNAVAILABLE, "TensorFlow sees no TPU")
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    elif not tf.config.list_physical_devices(device.value.upper()):
        raise MeasuringError(FailureKind.UNAVAILABLE, f"TensorFlow sees no {device.value.upper()}")
    return [found.name for found in tf.config.list_logical_devices(device.value.upper())]


def _device_kind(device: Device) -> str:
    if device is Device.CPU:
        return host.cpu_model()
    if device is Device.TPU:
        return os.environ.get("TPU_ACCELERATOR_TYPE", "TPU")
    first = tf.config.list_physical_devices("GPU")[0]
    name: str = tf.config.experimental.get_device_details(first).get("device_name", "GPU")
    return name


def _keeps_memory() -> bool:
    """Whether TensorFlow's CPU allocator keeps what it once had (oneDNN's does)."""
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1" and platform.machine() == "x86_64"


def _allocator(device: Device) -> str:
    if device is Device.CPU:
        kept = "kept" if _keeps_memory() else "given-back"
        return f"{environ.allocator()}-{kept}"
    growth = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    return "grown" if growth else "preallocated"
