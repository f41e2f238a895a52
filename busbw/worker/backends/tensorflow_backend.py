"""TensorFlow: which devices it reaches, and cases as the programs of its neighbours.

The only rooms that import tensorflow are this file and its neighbours `tensorflow_*`.
"""

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

import numpy as np
import tensorflow as tf

from busbw.model import (
    VIRTUAL_RANKS,
    Case,
    Clock,
    Device,
    DeviceSet,
    Extra,
    FailureKind,
    Injection,
    Placement,
    Probe,
)
from busbw.worker import environ, host

from . import tensorflow_recordings, tensorflow_versions
from .base import AbstractBackend, AbstractProgram, MeasuringError, MemoryNeed, World
from .exhausted import is_out_of_memory, out_of_memory
from .recorded import Reader
from .tensorflow_program import TensorflowProgram
from .tensorflow_replicas import make_strategy
from .tensorflow_training import TensorflowStepProgram, step_memory_bytes

PROGRAM = "outer-loop2"

_EVENTS_END_S = 0.5

_CLOCKS = {
    Device.CPU: (Clock.HOST, Clock.DISPATCH, Clock.DEVICE),
    Device.GPU: (Clock.DEVICE, Clock.HOST, Clock.DISPATCH),
    Device.TPU: (Clock.DEVICE, Clock.HOST, Clock.DISPATCH),
}

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


class TensorflowBackend(AbstractBackend):
    """`replica_context.all_reduce` under a strategy of `tf.distribute`, in one process."""

    def __init__(self, device: Device | None, ranks: int | None) -> None:
        self._device = device
        self.framework_path = os.path.dirname(tf.__file__)
        self.versions = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "tensorflow": tf.__version__,
        }
        self._strategies: dict[str, Any] = {}
        self._names: list[str] = []
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration() for _ in range(ranks or VIRTUAL_RANKS)]
        tf.config.set_logical_device_configuration(cpu, logical)

    def now_s(self) -> float:
        """The host's monotonic clock."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """The host's own sleep."""
        time.sleep(seconds)

    def probe(self) -> Probe:
        """The classes of device that TensorFlow reaches; for the others its own words why not."""
        wanted = (self._device,) if self._device else tuple(Device)
        devices, missing = [], {}
        for device in wanted:
            try:
                devices.append(self._device_set(device))
            except (MeasuringError, ValueError, RuntimeError, tf.errors.OpError) as error:
                missing[device.value] = str(error).strip().splitlines()[0]
        return Probe(
            framework="tensorflow",
            framework_path=self.framework_path,
            devices=tuple(devices),
            missing=missing,
            versions=self.versions,
            flags=environ.flags(),
        )

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
            clocks=_clocks(device),
            cores=host.cores() if virtual else None,
        )

    def world(self) -> World:
        """The devices that TensorFlow would build a strategy of."""
        assert self._device is not None
        names = self._devices()
        return World(device_kind=_device_kind(self._device), ranks=len(names), processes=1)

    def memory_need(self, case: Case) -> MemoryNeed | None:
        """On the CPU, by strategy, with what the allocator kept of earlier cases."""
        if self._device is not Device.CPU:
            return None
        needed_bytes = (
            int(_buffers(case) * case.ranks * case.payload_bytes)
            if case.workload.is_bare
            else step_memory_bytes(case)
        )
        return MemoryNeed(needed_bytes=needed_bytes, reuses_kept=_keeps_memory())

    @contextlib.contextmanager
    def prepared(self, case: Case, injection: Injection | None = None) -> Iterator[AbstractProgram]:
        """The traced and proved program of `case`."""
        if self._device is None:
            raise MeasuringError(FailureKind.UNAVAILABLE, "the worker was opened for no device")
        if injection is not None and injection.extra in (Extra.DELAY, Extra.PAYLOAD):
            raise MeasuringError(
                FailureKind.UNAVAILABLE, f"TensorFlow's program cannot do a {injection.extra.value}"
            )
        with _translated():
            program = self._program(case)
            try:
                yield program
            finally:
                program.release()
                del program
                gc.collect()

    def _program(self, case: Case) -> TensorflowProgram | TensorflowStepProgram:
        strategy = self._strategy(case)
        if case.workload.is_bare:
            return TensorflowProgram(case, strategy)
        return TensorflowStepProgram(case, strategy, virtual=self._device is Device.CPU)

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[Reader]:
        """TensorFlow's profiler, without Python's own calls: they would be most of the trace."""
        options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
        tf.profiler.experimental.start(str(folder), options=options)
        try:
            yield partial(tensorflow_recordings.read, folder)
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


def _clocks(device: Device) -> tuple[Clock, ...]:
    there = tensorflow_versions.has_whole_profiler()
    return tuple(clock for clock in _CLOCKS[device] if there or clock is not Clock.DEVICE)


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


def _buffers(case: Case) -> float:
    """Peak host memory over ranks x payload, as measured at 16M to 1024M on 2, 4 and 8 ranks.

    A ring holds the chain's input, the last result and the next one, less what is not there yet
    at the peak. The others hold the inputs and a few sums, which all ranks share.
    """
    if case.strategy == "ring":
        kept = case.placement == Placement.OUT_OF_PLACE.value
        return 3 + kept - 1 / (2 * case.ranks)
    sums = 5.8 if case.strategy == "hierarchical_copy" else 3.4
    return 1 + min(1.1, sums / case.ranks)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """TensorFlow's errors as ours; what is not about memory ends the worker, with its stack."""
    try:
        yield
    except (tf.errors.OpError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(error) from error
