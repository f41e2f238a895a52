"""The back end of TensorFlow: its devices, groups of processes, and recordings of its profiler."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.machine import DEFAULT_VIRTUAL_RANKS, DeviceSet, GroupMember
from busbw.model.words import DeviceClass, Placement
from busbw.worker import host

from .. import hlo
from ..base import MeasuringError, RecordingReader, TimedCollective, first_line, unavailable
from ..framework import (
    FrameworkBackend,
    cpu_allocator_setting,
    package_versions,
    usable_clocks,
)
from ..recordings import (
    end_by_begin_instruction_of,
    events_of_xspace,
    tensorflow_collective_runs,
    timed_collectives,
)
from ..values import CaseValues
from .program import TensorflowProgram, make_strategy

# The name of this back end's programs in protocols. The name changes if the programs change.
PROGRAM_NAME = "outer-loop2"

# The seconds to wait after a result, until TensorFlow's profiler has written the end of each event.
_EVENT_END_WAIT_S = 0.5

# The strategies for each class of device, the default first. In a group of processes only the
# default can be chosen (`CommunicationOptions`).
_STRATEGIES = {
    DeviceClass.CPU: ("ring", "reduction_to_one_device", "hierarchical_copy"),
    DeviceClass.GPU: ("collective_nccl", "nccl", "reduction_to_one_device", "hierarchical_copy"),
    DeviceClass.TPU: ("tpu",),
}


class TensorflowBackend(FrameworkBackend):
    """The back end of TensorFlow, which measures all-reduce under a `tf.distribute` strategy."""

    name = "tensorflow"
    missing_device_errors = (MeasuringError, ValueError, RuntimeError, tf.errors.OpError)
    program_errors = (tf.errors.OpError, MemoryError)
    leaves_reference_cycles = True

    def __init__(
        self, device: DeviceClass | None, ranks: int | None, member: GroupMember | None = None
    ) -> None:
        super().__init__(device, member)
        self.allocator_keeps_memory = _allocator_keeps_memory()
        self.framework_path = os.path.dirname(tf.__file__)
        self.versions = package_versions(tensorflow=tf.__version__)
        self._strategies: dict[str, Any] = {}
        self._group_strategy: Any = None
        self._refusal_reason = ""
        local_ranks = (ranks or self._processes) // self._processes
        if member is None:
            # The CPU must be split into virtual devices before TensorFlow runs any operation.
            virtual = [tf.config.LogicalDeviceConfiguration()] * (ranks or DEFAULT_VIRTUAL_RANKS)
            cpu = tf.config.list_physical_devices("CPU")[0]
            tf.config.set_logical_device_configuration(cpu, virtual)
        elif local_ranks == 1 or _measures_gpus(device):
            self._group_strategy = _join_group(member, device, local_ranks)
            self._gather_from_all = TensorflowAllGather(self._group_strategy, local_ranks)
        else:
            self._refusal_reason = (
                "TensorFlow has one rank in each of several processes on a CPU, "
                f"{local_ranks} are requested"
            )

    def _gather_words(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        return self._gather_from_all(words)

    def _describe_devices(self, device: DeviceClass) -> DeviceSet:
        if self._refusal_reason:
            raise unavailable(self._refusal_reason)
        group = self._group_strategy
        if group is not None and device is DeviceClass.TPU:
            raise unavailable("TensorFlow reaches TPUs in one process only")
        names = _logical_device_names(device)
        is_virtual = device is DeviceClass.CPU
        strategies = _STRATEGIES[device]
        if self._processes > 1:
            strategies = strategies[:1]
        return DeviceSet(
            device=device,
            device_kind=_device_kind(device),
            ranks=group.num_replicas_in_sync if group else len(names),
            any_ranks=is_virtual,
            program=PROGRAM_NAME,
            allocator=_allocator_setting(device),
            strategies={"default": strategies[0], **dict(zip(strategies, strategies))},
            clocks=usable_clocks(device, has_readable_profiler=True),
            cores=host.usable_cores() if is_virtual else None,
            hosts=self._member.hosts if self._member else 1,
            processes=self._processes,
        )

    def _needed_host_bytes(self, case: Case) -> int:
        """Return the bytes that buffers take on all ranks of `case` together at the peak.

        The formulas fit peaks that were measured for payloads from 16M to 1024M on 2, 4 and 8
        ranks. For a ring each rank needs three buffers of the size of the payload in place, and a
        fourth buffer out of place. A small part of these buffers is not allocated yet at the peak.
        For other strategies each rank needs a buffer for its input, and all ranks share a few
        buffers for sums.
        """
        if case.strategy == "ring":
            has_input = case.placement == Placement.OUT_OF_PLACE.value
            buffers = 3 + has_input - 1 / (2 * case.ranks)
        else:
            sums = 5.8 if case.strategy == "hierarchical_copy" else 3.4
            buffers = 1 + min(1.1, sums / case.ranks)
        return int(buffers * case.ranks * case.payload_bytes)

    def _make_program(
        self, case: Case, injection: Injection | None, values_type: type[CaseValues]
    ) -> TensorflowProgram:
        if injection is not None and injection.share is not None:
            raise unavailable("TensorFlow's program cannot do a delay")
        return TensorflowProgram(case, self.strategy_object(case), values_type)

    @contextlib.contextmanager
    def record_profile(self, folder: Path) -> Iterator[RecordingReader]:
        # With calls of Python, most events would be such calls.
        options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
        tf.profiler.experimental.start(str(folder), options=options)
        try:
            yield partial(_read_collectives, folder)
            # TensorFlow writes the end of an event later than it returns the result. An event
            # without an end is not recorded.
            time.sleep(_EVENT_END_WAIT_S)
        finally:
            tf.profiler.experimental.stop()

    def strategy_object(self, case: Case) -> tf.distribute.Strategy:
        """Return the `tf.distribute` strategy object that reduces by the strategy of a case.

        An object is made once in a process, and kept for later cases. Each object makes groups of
        devices for its collectives, and TensorFlow never releases such groups. Raises
        MeasuringError UNAVAILABLE if the number of devices does not fit the case.
        """
        if self._group_strategy is not None:
            return self._group_strategy
        if case.strategy not in self._strategies:
            # The present objects, such as imported modules, never become garbage. From now on the
            # garbage collector does not examine these objects.
            gc.freeze()
            assert self.device is not None
            names = _logical_device_names(self.device)
            if len(names) < case.ranks or (
                self.device is DeviceClass.TPU and len(names) > case.ranks
            ):
                raise unavailable(f"{case.ranks} ranks requested, {len(names)} devices")
            self._strategies[case.strategy] = make_strategy(case.strategy, names[: case.ranks])
        return self._strategies[case.strategy]


def _read_collectives(folder: Path, end_by_begin_node: Mapping[str, str]) -> list[TimedCollective]:
    """Return the collectives, with their times, in all recordings of the profiler in `folder`.

    The keys of `end_by_begin_node` are the names of the graph's nodes that run a reduction, in the
    order of the devices of this process. Each name is mapped to itself, because a single node
    begins and ends a reduction. For a TPU the instructions are read from the recording instead,
    because TensorFlow does not show the compiled program of a TPU. There the name of an event is
    the whole text of an instruction.
    """
    # Most sessions record nothing, and need no protobuf classes.
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    events = [
        event
        for path in folder.rglob("*.xplane.pb")
        for event in events_of_xspace(XSpace.FromString(path.read_bytes()))
    ]
    texts = {event.name for event in events if " = " in event.name}
    module = hlo.read_module("\n".join(["recorded {", *texts, "}"]))
    end_by_begin = {**end_by_begin_instruction_of(module), **end_by_begin_node}
    nodes, runs = list(end_by_begin_node), []
    for event in tensorflow_collective_runs(events):
        node = event.name.rpartition(":")[0]
        if node in end_by_begin_node:
            stats = {"device_ordinal": nodes.index(node)}
            runs.append(event._replace(name=node, stats=stats))
    timed = timed_collectives([*events, *runs], end_by_begin)
    return [collective for collective, _ in timed]


def _measures_gpus(device: DeviceClass | None) -> bool:
    """Return whether `device` is the GPU or, if `device` is None, whether TensorFlow finds GPUs."""
    return device is DeviceClass.GPU or (
        device is None and bool(tf.config.list_physical_devices("GPU"))
    )


def _join_group(
    member: GroupMember, device: DeviceClass | None, local_ranks: int
) -> tf.distribute.Strategy:
    """Join this process to its group, and return a strategy over all processes of the group.

    Call this function before TensorFlow runs any operation.

    Args:
        member: this process and its group.
        device: the class of device to measure, None for any class.
        local_ranks: the number of ranks in each process.

    Returns:
        A `tf.distribute.MultiWorkerMirroredStrategy`.

    Raises:
        MeasuringError: UNAVAILABLE if the process lacks GPUs, or if the process cannot join, for
            example because another process is missing.

    """
    is_on_gpus = _measures_gpus(device)
    if is_on_gpus:
        first = local_ranks * (member.index % member.processes_per_host)
        end = first + local_ranks
        gpus = tf.config.list_physical_devices("GPU")
        if end > len(gpus):
            raise unavailable(
                f"process {member.index} needs {end} GPUs, TensorFlow sees {len(gpus)}"
            )
        tf.config.set_visible_devices(gpus[first:end], "GPU")
    kinds = tf.distribute.experimental.CommunicationImplementation
    # The options have no timeout, because with one TensorFlow starts a thread for each collective.
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
        raise unavailable(
            f"process {member.index} does not join its group: {first_line(error)}"
        ) from error


class TensorflowAllGather:
    """A callable that exchanges words between the processes of a group, by TensorFlow.

    A word is an unsigned integer of 32 bits. `strategy` is a `tf.distribute` strategy over all
    processes, and `local_ranks` the number of ranks in each process.
    """

    def __init__(self, strategy: tf.distribute.Strategy, local_ranks: int) -> None:
        self._strategy, self._local_ranks = strategy, local_ranks
        self._gather = tf.function(self._gather_rows, autograph=False, reduce_retracing=True)

    def __call__(self, words: Sequence[int]) -> list[list[int]]:
        """Send `words`, and return the words of each process, in the order of their indices."""
        gathered = self._gather(tf.constant([words], tf.int64))
        local = self._strategy.experimental_local_results(gathered)
        rows: list[list[int]] = local[0].numpy().tolist()
        # All ranks of a process have sent the same row of words.
        return rows[:: self._local_ranks]

    def _gather_rows(self, row: tf.Tensor) -> Any:
        """Exchange rows between all ranks, and return on each rank the rows of all ranks.

        `row` is a tensor of the shape (1, words), with the words of this process. Each rank sends
        the row of its process. The result has a row for each rank.
        """

        def gather_on_replica() -> Any:
            # `identity` puts the argument on the device of the replica.
            return tf.distribute.get_replica_context().all_gather(tf.identity(row), axis=0)

        return self._strategy.run(gather_on_replica)


@functools.cache
def _logical_device_names(device: DeviceClass) -> list[str]:
    """Return TensorFlow's names of the devices of a class, such as ``/device:CPU:0``.

    The result is cached, because listing the devices of a TPU restarts the TPU. Raises
    MeasuringError UNAVAILABLE if TensorFlow finds no device of the class.
    """
    if device is DeviceClass.TPU:
        if not tf.config.list_physical_devices("TPU_SYSTEM"):
            raise unavailable("TensorFlow sees no TPU")
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    elif not tf.config.list_physical_devices(device.value.upper()):
        raise unavailable(f"TensorFlow sees no {device.value.upper()}")
    return [logical.name for logical in tf.config.list_logical_devices(device.value.upper())]


def _device_kind(device: DeviceClass) -> str:
    """Return the name of the chips of a class of device, such as ``NVIDIA H200``."""
    if device is DeviceClass.CPU:
        return host.cpu_model()
    if device is DeviceClass.TPU:
        return os.environ.get("TPU_ACCELERATOR_TYPE", "TPU")
    first = tf.config.list_physical_devices("GPU")[0]
    return str(tf.config.experimental.get_device_details(first).get("device_name", "GPU"))


def _allocator_keeps_memory() -> bool:
    """Return whether TensorFlow keeps freed memory of the host, and never gives it to the kernel.

    TensorFlow keeps this memory if it uses the memory allocator of oneDNN.
    """
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1" and platform.machine() == "x86_64"


def _allocator_setting(device: DeviceClass) -> str:
    """Return how TensorFlow allocates the memory of a class of device, as a text for protocols.

    On accelerators the text is ``preallocated`` if TensorFlow takes most memory at its start, and
    ``grown`` if TensorFlow takes memory when it is needed. On CPUs it also says whether freed
    memory is kept, such as ``malloc-kept`` or ``malloc-given-back``.
    """
    if device is DeviceClass.CPU:
        kept = "kept" if _allocator_keeps_memory() else "given-back"
        return f"{cpu_allocator_setting()}-{kept}"
    growth = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    return "grown" if growth else "preallocated"
