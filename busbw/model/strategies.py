"""Training a small net under a strategy of `tf.distribute`: what is asked for, and what it gave.

Values only. What a framework makes of it is in `busbw.worker.backends`, who does what in
`busbw.driver`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

CNN = "cnn"

# Examples of a step, over all ranks.
CNN_BATCH = 128

# An example as it is handed over: its pixels from 0 to 16, row by row, then its label, each a byte.
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


class TrainingStrategy(str, enum.Enum):
    """How a net is trained by several, by the names of `tf.distribute`."""

    ONE_DEVICE = "one_device"
    MIRRORED = "mirrored"
    MULTI_WORKER_MIRRORED = "multi_worker_mirrored"
    PARAMETER_SERVER = "parameter_server"
    CENTRAL_STORAGE = "central_storage"
    TPU = "tpu"

    @property
    def is_synchronous(self) -> bool:
        """Whether an update is the sum over all ranks; else each rank's gradient is its own."""
        return self is not TrainingStrategy.PARAMETER_SERVER

    @property
    def is_mirrored(self) -> bool:
        """Whether every rank has weights of its own, which must agree after every step."""
        return self in (
            TrainingStrategy.MIRRORED,
            TrainingStrategy.MULTI_WORKER_MIRRORED,
            TrainingStrategy.TPU,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StrategyTraining:
    """Plain gradient descent, from the same starting values and over the same examples for all.

    `examples` is the path of a file of examples; the last `unseen` of them are kept for the
    accuracy. A step goes over `batch` of the others, shared out evenly to `ranks`, so often as
    whole batches last; what is left over is not shown in that epoch. `rate` is a power of two, so
    that the counter of updates is exact.
    """

    strategy: TrainingStrategy
    ranks: int
    examples: str
    device: str = "cpu"
    epochs: int = 20
    batch: int = CNN_BATCH
    unseen: int = 297
    rate: float = 0.125
    seed: int = 0

    @property
    def updates_of_a_step(self) -> int:
        """Without a common update each rank's share of the batch is an update of its own."""
        return 1 if self.strategy.is_synchronous else self.ranks


@dataclass(frozen=True, kw_only=True, slots=True)
class StrategyRun:
    """What training gave, as one process saw it or, put together, as all did.

    `epochs_s` are seconds for each epoch, of `steps` steps; the first holds tracing and warming up.
    `updates` counts what the variables really saw: one of them has a gradient of exactly -1 on
    every rank, whose mean over ranks is what an update must bring; its value tells.
    `first_digests` and `last_digests` are SHA-256 of all variables after the first step and at the
    end, by rank where each has its own, such as ``worker 1, replica 0``, else by ``all``.
    `reductions` counts the operations by which gradients are added up in one step, by kind, on all
    ranks of the process, which are its `replicas`; `reduced_bytes` is what one rank hands to them.
    Those of a coordinator are the workers that it trains by.
    """

    api: str
    epochs_s: tuple[float, ...]
    steps: int
    accuracy: float
    loss: float
    updates: int
    first_digests: Mapping[str, str]
    last_digests: Mapping[str, str]
    compile_s: float
    framework_path: str
    versions: Mapping[str, str]
    reductions: Mapping[str, int] = field(default_factory=dict)
    reduced_bytes: int | None = None
    replicas: int = 1
