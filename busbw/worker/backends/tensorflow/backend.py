"""TensorFlow's devices, its groups of processes, and the recordings of its profiler."""

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

from ..base import MeasuringError, Reader, first_line, unavailable
from ..framework import FrameworkBackend, clocks, package_versions
from .program import TensorflowProgram, host_bytes, make_strategy

PROGRAM = "outer-loop2"

_EVENTS_END_S = 0.5

# The default comes first. Several processes have only the default, by CommunicationOptions.
_STRATEGIES = {
    Device.CPU: ("ring", "reduction_to_one_device", "hierarchical_copy"),
    Device.GPU: ("collective_nccl", "nccl", "reduction_to_one_device", "hierarchical_copy"),
    Device.TPU: ("tpu",),
}


class TensorflowBackend(FrameworkBackend):
    """`replica_context.all_reduce` under a strategy, in one process or several."""

    name = "tensorflow"
    missing_errors = (MeasuringError, ValueError, RuntimeError, tf.errors.OpError)
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
        self._group_strategy: Any = None
        self._refusal = ""
        if member is not None:
            self._join(member, (ranks or member.count) // member.count)
        else:
            _split_cpu(ranks or VIRTUAL_RANKS)

    def _join(self, member: ClusterMember, local_ranks: int) -> None:
        """Join the group, unless no device has `local_ranks` ranks in each process."""
        if local_ranks != 1 and not _is_on_gpus(self.device):
            limit = "TensorFlow has one rank in each of several processes on a CPU"
            self._refusal = f"{limit}, {local_ranks} are requested"
            return
        self._group_strategy = _join_group(member, self.device, local_ranks)
        self._exchange = Exchange(self._group_strategy, local_ranks)

    def _gather_words(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        return self._exchange(words)

    def _device_set(self, device: Device) -> DeviceSet:
        if self._refusal:
            raise unavailable(self._refusal)
        group = self._group_strategy
        if group is not None and device is Device.TPU:
            raise unavailable("TensorFlow reaches TPUs in one process only")
        names = _logical_devices(device)
        is_virtual = device is Device.CPU
        strategies = _STRATEGIES[device] if self._processes == 1 else _STRATEGIES[device][:1]
        return DeviceSet(
            device=device,
            device_kind=_device_kind(device),
            ranks=group.num_replicas_in_sync if group else len(names),
            any_ranks=is_virtual,
            program=PROGRAM,
            allocator=_allocator(device),
            strategies={"default": strategies[0], **dict(zip(strategies, strategies))},
            clocks=clocks(device, is_recorded=True),
            cores=host.cores() if is_virtual else None,
            hosts=self._member.hosts if self._member else 1,
            processes=self._processes,
        )

    def _host_bytes(self, case: Case) -> int:
        return host_bytes(case)

    def _program(self, case: Case, injection: Injection | None) -> TensorflowProgram:
        if self.device is None:
            raise unavailable("the worker was opened for no device")
        if injection is not None and injection.extra is Extra.DELAY:
            raise unavailable("TensorFlow's program cannot do a delay")
        return TensorflowProgram(case, self.strategy(case))

    @contextlib.contextmanager
    def record(self, folder: Path) -> Iterator[Reader]:
        from . import profile

        # Python's own calls would be most of the events.
        options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
        tf.profiler.experimental.start(str(folder), options=options)
        try:
            yield partial(profile.read, folder)
            # TensorFlow writes the end of an event later than the result. Open events are lost.
            time.sleep(_EVENTS_END_S)
        finally:
            tf.profiler.experimental.stop()

    def strategy(self, case: Case) -> Any:
        """Return the only object for a strategy: collective groups last for the process."""
        if self._group_strategy is not None:
            return self._group_strategy
        if case.strategy not in self._strategies:
            # Imported modules never become garbage, so that the collector need not examine them.
            gc.freeze()
            assert self.device is not None
            names = _logical_devices(self.device)
            if len(names) < case.ranks or (self.device is Device.TPU and len(names) > case.ranks):
                raise unavailable(f"{case.ranks} ranks requested, {len(names)} devices")
            strategy = make_strategy(case.strategy, names[: case.ranks])
            self._strategies[case.strategy] = strategy
        return self._strategies[case.strategy]


def _split_cpu(count: int) -> None:
    """Split the CPU into virtual devices. It must be done before any operation runs."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    tf.config.set_logical_device_configuration(cpu, logical)


def _is_on_gpus(device: Device | None) -> bool:
    return device is Device.GPU or (device is None and bool(tf.config.list_physical_devices("GPU")))


def _join_group(member: ClusterMember, device: Device | None, local_ranks: int) -> Any:
    """Return a strategy over all members, with `local_ranks` ranks in each.

    It must be made before any operation runs. Raises MeasuringError UNAVAILABLE if there are too
    few devices, or if the other members do not join.
    """
    is_on_gpus = _is_on_gpus(device)
    if is_on_gpus:
        first = local_ranks * (member.index % member.on_host)
        end = first + local_ranks
        gpus = tf.config.list_physical_devices("GPU")
        if end > len(gpus):
            raise unavailable(
                f"process {member.index} needs {end} GPUs, TensorFlow sees {len(gpus)}"
            )
        tf.config.set_visible_devices(gpus[first:end], "GPU")
    kinds = tf.distribute.experimental.CommunicationImplementation
    # A timeout would make TensorFlow start a thread for each collective.
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=kinds.NCCL if is_on_gpus else kinds.RING
    )
    task = {"type": "worker", "index": member.index}
    cluster = {"worker": list(member.addresses)}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        text = f"process {member.index} does not join its group: {first_line(error)}"
        raise unavailable(text) from error


class Exchange:
    """Sends words of every process to every process, by a strategy.

    `local_ranks` is the number of ranks in each process.
    """

    def __init__(self, strategy: Any, local_ranks: int) -> None:
        self._strategy, self._local_ranks = strategy, local_ranks
        self._gather = tf.function(self._gather_rows, autograph=False, reduce_retracing=True)

    def __call__(self, words: Sequence[int]) -> list[list[int]]:
        """Return the words of all processes, in the order of their indices."""
        gathered = self._gather(tf.constant([words], tf.int64))
        local = self._strategy.experimental_local_results(gathered)
        rows: list[list[int]] = local[0].numpy().tolist()
        # All ranks of a process have sent the same row.
        return rows[:: self._local_ranks]

    def _gather_rows(self, row: Any) -> Any:
        def on_replica() -> Any:
            # TensorFlow does not know the device of an argument itself.
            return tf.distribute.get_replica_context().all_gather(tf.identity(row), axis=0)

        return self._strategy.run(on_replica)


@functools.cache
def _logical_devices(device: Device) -> list[str]:
    """Return the names of devices. Raises MeasuringError if there are none.

    The result is cached, because listing the devices of a TPU restarts the TPU.
    """
    if device is Device.TPU:
        if not tf.config.list_physical_devices("TPU_SYSTEM"):
            raise unavailable("TensorFlow sees no TPU")
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    elif not tf.config.list_physical_devices(device.value.upper()):
        raise unavailable(f"TensorFlow sees no {device.value.upper()}")
    return [logical.name for logical in tf.config.list_logical_devices(device.value.upper())]


def _device_kind(device: Device) -> str:
    if device is Device.CPU:
        return host.cpu_model()
    if device is Device.TPU:
        return os.environ.get("TPU_ACCELERATOR_TYPE", "TPU")
    first = tf.config.list_physical_devices("GPU")[0]
    return str(tf.config.experimental.get_device_details(first).get("device_name", "GPU"))


def _keeps_memory() -> bool:
    """Return whether the CPU allocator never returns memory, as that of oneDNN does."""
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1" and platform.machine() == "x86_64"


def _allocator(device: Device) -> str:
    if device is Device.CPU:
        kept = "kept" if _keeps_memory() else "given-back"
        return f"{process.allocator()}-{kept}"
    growth = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    return "grown" if growth else "preallocated"
