"""Training with parameter servers: what is asked for, and what it gave.

Values only. What a framework makes of it is in `busbw.worker.backends`, who does what in
`busbw.driver`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from .words import plural


class Updates(str, enum.Enum):
    """How gradients come to the variables.

    `single`: one process, no server. `asynchronous`: each worker's gradient is an update of its
    own. `synchronous`: an update is the mean of one gradient for each worker.
    """

    SINGLE = "single"
    ASYNCHRONOUS = "asynchronous"
    SYNCHRONOUS = "synchronous"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterServerTraining:
    """Plain gradient descent on two dense layers; every worker goes over all examples.

    `examples` are trained on in batches of `batch`, so often as there are `epochs`; accuracy is
    that on `unseen` others.
    """

    updates: Updates
    workers: int = 1
    servers: int = 0
    epochs: int = 10
    examples: int = 20000
    unseen: int = 5000
    batch: int = 100
    hidden: int = 128
    seed: int = 0

    @property
    def batches(self) -> int:
        """Batches of an epoch, for each worker."""
        return self.examples // self.batch

    @property
    def steps(self) -> int:
        """Batches that each worker goes over in all epochs."""
        return self.batches * self.epochs

    @property
    def expected_updates(self) -> int:
        """How many updates the variables must have seen at the end."""
        return self.steps * (1 if self.updates is Updates.SYNCHRONOUS else self.workers)

    @property
    def name(self) -> str:
        """In words, such as ``1 ps, 2 workers, synchronous``."""
        if self.updates is Updates.SINGLE:
            return "single process"
        workers = plural(self.workers, "worker")
        return f"{self.servers} ps, {workers}, {self.updates.value}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterServerRun:
    """What training gave, as one process saw it or as all did.

    `epochs_s` are seconds for each epoch, `gradients` how many were computed, `global_step` what
    the framework counted. `updates` counts what the variables really saw: one of them has a
    gradient of exactly -1, and its value tells. `server_bytes` are the bytes of variables on each
    server.
    """

    api: str
    epochs_s: tuple[float, ...]
    accuracy: float
    gradients: int
    global_step: int
    updates: int
    server_bytes: Mapping[str, int]
    processor: str
    cores: int
    versions: Mapping[str, str]
