"""TensorFlow's devices, which program measures a case, and the recordings of its profiler."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from busbw.model.case import Case
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Injection
from busbw.model.machine import VIRTUAL_RANKS, DeviceSet
from busbw.model.words import Device, Extra
from busbw.worker import host, process

from ..base import MeasuringError, Reader, unavailable
from ..framework import (
    AbstractFramework,
    clocks,
    first_line,
    package_versions,
)
from .program import TensorflowProgram, collective_of, host_bytes, make_strategy

PROGRAM = "outer-loop2"

_EVENTS_END_S = 0.5

# The default first; it is the only one of several processes, by the CommunicationOptions.
_STRATEGIES = {
    Device.CPU: ("ring", "reduction_to_one_device", "hierarchical_copy"),
    Device.GPU: ("collective_nccl", "nccl", "reduction_to_one_device", "hierarchical_copy"),
    Device.TPU: ("tpu",),
}


class TensorflowBackend(AbstractFramework):
    """`replica_context.all_reduce` under a strategy, in one process or several."""

    name = "tensorflow"
    refusals = (MeasuringError, ValueError, RuntimeError, tf.errors.OpError)
    errors = (tf.errors.OpError, MemoryError)
    leaves_cycles = True

    def __init__(
        self, device: Device | None, ranks: int | None, member: ClusterMember | None = None
    ) -> None:
        super().__init__(device, member)
        self.keeps_memory = _keeps_memory()
        self.framework_path = os.path.dirname(tf.__file__)
        self.versions = package_versions(tensorflow=tf.__version__)
        self._strategies: dict[str, Any] = {}
        self._joined: Any = None
        self._refusal = ""
        if member is not None:
            self._join(member, (ranks or member.count) // member.count)
        else:
            _split_cpu(ranks or VIRTUAL_RANKS)

    def _join(self, member: ClusterMember, own: int) -> None:
        """Together with the others, unless no device has `own` ranks in each process."""
        if own != 1 and not _on_gpus(self.device):
            only = "TensorFlow has one rank in each of several processes on a CPU"
            self._refusal = f"{only}, {own} are asked for"
            return
        self._joined = _strategy_of_group(member, self.device, own)
        self._exchange = Exchange(self._joined, own)

    def _gathered(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        return self._exchange(words)

    def _device_set(self, device: Device) -> DeviceSet:
        if self._refusal:
            raise unavailable(self._refusal)
        if self._joined is not None and device is Device.TPU:
            raise unavailable("TensorFlow reaches TPUs in one process only")
        names = _logical_devices(device)
        virtual = device is Device.CPU
        processes = self._member.count if self._member else 1
        strategies = _STRATEGIES[device] if processes == 1 else _STRATEGIES[device][:1]
        return DeviceSet(
            device=device,
            device_kind=_device_kind(device),
            ranks=self._joined.num_replicas_in_sync if self._joined else len(names),
            any_ranks=virtual,
            program=PROGRAM,
            allocator=_allocator(device),
            strategies={"default": strategies[0], **dict(zip(strategies, strategies))},
            clocks=clocks(device, recorded=True),
            cores=host.cores() if virtual else None,
            hosts=self._member.hosts if self._member else 1,
            processes=processes,
        )

    def _host_bytes(self, case: Case) -> int:
        return host_bytes(case)

    def _program(self, case: Case, injection: Injection | None) -> TensorflowProgram:
        if self.device is None:
            raise unavailable("the worker was opened for no device")
        if injection is not None and injection.extra is Extra.DELAY:
            raise unavailable("TensorFlow's program cannot do a delay")
        strategy = self._strategy(case)
        return TensorflowProgram(case, strategy, collective_of(case, strategy))

    def _soaked(self, case: Case) -> TensorflowProgram:
        strategy = self._strategy(case)
        return TensorflowProgram(case, strategy, collective_of(case, strategy, soaking=True))

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[Reader]:
        """Record with TensorFlow's profiler, without Python's own calls, which are most events."""
        from . import profile

        options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
        tf.profiler.experimental.start(str(folder), options=options)
        try:
            yield partial(profile.read, folder)
            # The end of an event is written after its values are there: one still open is lost.
            time.sleep(_EVENTS_END_S)
        finally:
            tf.profiler.experimental.stop()

    def _strategy(self, case: Case) -> Any:
        """One strategy object per name: TensorFlow's collective groups last for the process."""
        if self._joined is not None:
            return self._joined
        if case.strategy not in self._strategies:
            # What was imported never becomes garbage, so that it need not be searched.
            gc.freeze()
            assert self.device is not None
            names = _logical_devices(self.device)
            if len(names) < case.ranks or (self.device is Device.TPU and len(names) > case.ranks):
                raise unavailable(f"{case.ranks} ranks asked for, {len(names)} devices")
            strategy = make_strategy(case.strategy, names[: case.ranks])
            self._strategies[case.strategy] = strategy
        return self._strategies[case.strategy]


def _split_cpu(count: int) -> None:
    """Into virtual devices; before anything else runs."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    tf.config.set_logical_device_configuration(cpu, logical)


def _resolver_of(member: ClusterMember) -> Any:
    """TensorFlow's own resolver, by TF_CONFIG, which this sets."""
    task = {"type": "worker", "index": member.index}
    cluster = {"worker": list(member.addresses)}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    return tf.distribute.cluster_resolver.TFConfigClusterResolver()


def _on_gpus(device: Device | None) -> bool:
    return device is Device.GPU or (device is None and bool(tf.config.list_physical_devices("GPU")))


def _strategy_of_group(member: ClusterMember, device: Device | None, own: int) -> Any:
    """Over all members with `own` ranks in each; it must be made before anything else runs.

    Raises MeasuringError UNAVAILABLE where there are too few devices, or the others do not come.
    """
    on_gpu = _on_gpus(device)
    if on_gpu:
        first = own * (member.index % member.on_host)
        found = tf.config.list_physical_devices("GPU")
        if first + own > len(found):
            raise unavailable(
                f"process {member.index} needs {first + own} GPUs, TensorFlow sees {len(found)}"
            )
        tf.config.set_visible_devices(found[first : first + own], "GPU")
    kinds = tf.distribute.experimental.CommunicationImplementation
    # With a time-out TensorFlow would start a thread for each collective.
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=kinds.NCCL if on_gpu else kinds.RING
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(_resolver_of(member), options)
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        words = f"process {member.index} does not join its group: {first_line(error)}"
        raise unavailable(words) from error


class Exchange:
    """Words of every process to every process, by `strategy`, whose ranks are `each` in one."""

    def __init__(self, strategy: Any, each: int) -> None:
        self._strategy, self._each = strategy, each
        self._gather = tf.function(self._gathered, autograph=False, reduce_retracing=True)

    def __call__(self, words: Sequence[int]) -> list[list[int]]:
        every = self._gather(tf.constant([words], tf.int64))
        rows: list[list[int]] = self._strategy.experimental_local_results(every)[0].numpy().tolist()
        # Every rank of a process has handed in the same.
        return rows[:: self._each]

    def _gathered(self, row: Any) -> Any:
        def of_replica() -> Any:
            # Of an argument itself TensorFlow does not know on which device it is.
            return tf.distribute.get_replica_context().all_gather(tf.identity(row), axis=0)

        return self._strategy.run(of_replica)


@functools.cache
def _logical_devices(device: Device) -> list[str]:
    """Called once: listing a TPU's devices restarts it. Raises MeasuringError without any."""
    if device is Device.TPU:
        if not tf.config.list_physical_devices("TPU_SYSTEM"):
            raise unavailable("TensorFlow sees no TPU")
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    elif not tf.config.list_physical_devices(device.value.upper()):
        raise unavailable(f"TensorFlow sees no {device.value.upper()}")
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
        return f"{process.allocator()}-{kept}"
    growth = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    return "grown" if growth else "preallocated"
