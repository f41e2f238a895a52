"""Training a small net in a group of processes: the cluster, the request, and what it gave.

Values only. Training itself is in `busbw.worker.backends`, starting the processes in
`busbw.driver`.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from .limits import AtLeast1, Natural, NotNegative, Seconds, check_some
from .words import plural


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """The role of a process in its group; the second worker has `task` ``worker``, `index` 1."""

    task: str = "worker"
    index: int = 0

    @property
    def name(self) -> str:
        return f"{self.task} {self.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """How many processes there are of each task, such as chief 1, worker 2, ps 1.

    The request goes to the processes of the task `asked`, after those of the tasks `offering` have
    started to serve the others. `shared_devices` is how many GPUs they share; 0: each has its own.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: {"worker": 1})
    asked: str = "worker"
    offering: tuple[str, ...] = ()
    shared_devices: int = 0

    @property
    def roles(self) -> tuple[Role, ...]:
        return tuple(
            Role(task=task, index=index)
            for task, count in self.counts.items()
            for index in range(count)
        )


# A single process has neither role nor address; a cluster's only worker has both.
ALONE = Cluster(counts={})


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterMember:
    """A member's role, and the addresses of all: ``host:port`` by task, in the order of indices.

    `hosts` is how many hosts they are on: as many of them on each, in the order of indices.
    `shared_devices` is how many GPUs all members share; 0: each has its own devices.
    """

    role: Role
    addresses: Mapping[str, tuple[str, ...]]
    hosts: int = 1
    shared_devices: int = 0

    @property
    def count(self) -> int:
        return len(self.addresses[self.role.task])

    @property
    def on_host(self) -> int:
        return self.count // self.hosts

    @property
    def host_names(self) -> tuple[str, ...]:
        """The hosts in the addresses of all members, each once, IPv6 addresses without brackets."""
        addresses = itertools.chain.from_iterable(self.addresses.values())
        return tuple(dict.fromkeys(one.rpartition(":")[0].strip("[]") for one in addresses))


def members_of(
    cluster: Cluster, addresses: Iterable[str], hosts: int = 1
) -> tuple[ClusterMember, ...]:
    """The members of a cluster whose `addresses` are in the order of its roles."""
    by_task: dict[str, tuple[str, ...]] = {}
    for role, address in zip(cluster.roles, addresses, strict=True):
        by_task[role.task] = (*by_task.get(role.task, ()), address)
    return tuple(
        ClusterMember(
            role=role, addresses=by_task, hosts=hosts, shared_devices=cluster.shared_devices
        )
        for role in cluster.roles
    )


class Net(enum.StrEnum):
    """Which net is trained, and where its examples come from.

    `cnn`: two convolutions and two dense layers; its examples are in a file, and a batch is split
    evenly over all ranks. `perceptron`: two dense layers; every rank draws the same examples, and
    goes over all of them in batches of its own.
    """

    CNN = "cnn"
    PERCEPTRON = "perceptron"


CNN = Net.CNN.value

# Examples of a step, over all ranks.
CNN_BATCH = 128

# An example in the file: its pixels from 0 to 16, row by row, then its label, each a byte.
EXAMPLE_SIDE = 8
EXAMPLE_BYTES = EXAMPLE_SIDE**2 + 1
EXAMPLE_CLASSES = 10

# The net's variables, in the order of the forward pass: two convolutions of 3 x 3 with zeros
# around, each halved by its maxima, and two dense layers.
CNN_SHAPES: Mapping[str, tuple[int, ...]] = {
    "first_filters": (3, 3, 1, 32),
    "first_biases": (32,),
    "second_filters": (3, 3, 32, 64),
    "second_biases": (64,),
    "hidden_weights": (2 * 2 * 64, 64),
    "hidden_biases": (64,),
    "weights": (64, EXAMPLE_CLASSES),
    "biases": (EXAMPLE_CLASSES,),
}

# The gradient of the net, in float32.
CNN_BYTES = 4 * sum(map(math.prod, CNN_SHAPES.values()))

# In the order in which they are assigned to servers.
PERCEPTRON_SHAPES: Mapping[str, tuple[int, ...]] = {
    "hidden_weights": (28 * 28, 128),
    "hidden_biases": (128,),
    "weights": (128, 10),
    "biases": (10,),
}


class TrainingStrategy(enum.StrEnum):
    """How training is distributed, in the names of `tf.distribute`."""

    ONE_DEVICE = "one_device"
    MIRRORED = "mirrored"
    MULTI_WORKER_MIRRORED = "multi_worker_mirrored"
    PARAMETER_SERVER = "parameter_server"
    CENTRAL_STORAGE = "central_storage"
    TPU = "tpu"


class Updates(enum.StrEnum):
    """What an update of the variables is made of.

    `single`: there is one rank and no server. `asynchronous`: each rank's gradient is a separate
    update. `synchronous`: an update is the mean of one gradient for each rank.
    """

    SINGLE = "single"
    ASYNCHRONOUS = "asynchronous"
    SYNCHRONOUS = "synchronous"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRequest:
    """Plain gradient descent of `net`, from the same initial values with every strategy.

    `strategy` says how gradients get to the variables. None: without `tf.distribute`, which is a
    single process, or with `servers` the synchronous replication of TF 1. `examples_path` is the
    file of examples of nets that have one: its last `unseen` examples are held out for the
    accuracy. For other nets `examples` are drawn, and `unseen` more. An epoch is all whole batches
    of them. `rate` is a power of two, so that the counter of updates is exact.
    """

    net: Net
    ranks: int
    epochs: int
    batch: int
    unseen: int
    strategy: TrainingStrategy | None = None
    servers: int = 0
    device: str = "cpu"
    examples_path: str = ""
    examples: int = 0
    rate: float = 0.125
    seed: int = 0

    @property
    def cluster(self) -> Cluster:
        """The processes that take part.

        TF 2's coordinator trains through its workers, which only serve; TF 1's workers train and
        serve: each runs its part of the others' graphs.
        """
        workers = {"worker": self.ranks}
        if self.servers:
            counts, offering = {**workers, "ps": self.servers}, ("worker", "ps")
            if self.strategy is None:
                return Cluster(counts=counts, asked="worker", offering=offering)
            return Cluster(counts={"chief": 1, **counts}, asked="chief", offering=offering)
        if self.strategy is TrainingStrategy.MULTI_WORKER_MIRRORED:
            return Cluster(counts=workers, asked="worker")
        return Cluster(counts={"chief": 1}, asked="chief")

    @property
    def updates(self) -> Updates:
        if self.ranks == 1 and not self.servers:
            return Updates.SINGLE
        separate = self.strategy is TrainingStrategy.PARAMETER_SERVER
        return Updates.ASYNCHRONOUS if separate else Updates.SYNCHRONOUS

    @property
    def updates_of_a_step(self) -> int:
        """One, or without a common update one for each rank."""
        return self.ranks if self.updates is Updates.ASYNCHRONOUS else 1

    @property
    def has_copies(self) -> bool:
        """Whether every rank has weights of its own, which must agree after every step."""
        return self.strategy in (
            TrainingStrategy.MIRRORED,
            TrainingStrategy.MULTI_WORKER_MIRRORED,
            TrainingStrategy.TPU,
        )

    @property
    def name(self) -> str:
        """In words, such as ``1 ps, 2 workers, synchronous``."""
        if self.updates is Updates.SINGLE:
            return "single process"
        return f"{self.servers} ps, {plural(self.ranks, 'worker')}, {self.updates.value}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRun:
    """What training gave, as seen by one process or, combined, by all.

    `epochs_s` are seconds for each epoch, of `steps` steps; the first includes tracing and warm-up.
    `updates` is how many updates the variables really saw: it is read from a variable whose
    gradient is exactly -1 on every rank.
    `first_digests` and `last_digests` are SHA-256 of all variables after the first step and at the
    end, by rank where each has its own, such as ``worker 1, replica 0``, else by ``all``.
    `reductions` counts the operations by which gradients are added up in one step, by kind, on all
    ranks of the process, which are its `replicas`; `reduced_bytes` is what one rank passes to them.
    The replicas of a coordinator are its workers.
    """

    api: str
    epochs_s: Annotated[tuple[Seconds, ...], check_some]
    steps: AtLeast1
    accuracy: NotNegative
    loss: NotNegative
    updates: Natural
    first_digests: Mapping[str, str]
    last_digests: Mapping[str, str]
    compile_s: NotNegative
    framework_path: str
    versions: Mapping[str, str]
    reductions: Mapping[str, Natural] = field(default_factory=dict)
    reduced_bytes: Natural | None = None
    replicas: AtLeast1 = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingAnswer:
    """A `run`, with counts and a description of the machine that are not stored with its case.

    `gradients` is how many were computed, `global_step` the framework's own count, None if it has
    none. `server_bytes` are the bytes of variables on each server.
    """

    run: TrainingRun
    gradients: int
    processor: str
    cores: int
    global_step: int | None = None
    server_bytes: Mapping[str, int] = field(default_factory=dict)
