"""Who takes part in a launch: one process, or several with roles. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """What a process is to its group, such as the second worker: `task` ``worker``, `index` 1."""

    task: str = "worker"
    index: int = 0

    @property
    def name(self) -> str:
        """The role in words, such as ``worker 1``."""
        return f"{self.task} {self.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """How many processes there are of each task, such as chief 1, worker 2, ps 1; who does what.

    Those of `offering` are there for the others before those of `asked` get a request.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: {"worker": 1})
    asked: str = "worker"
    offering: tuple[str, ...] = ()

    @property
    def roles(self) -> tuple[Role, ...]:
        """Every process, by task and index."""
        return tuple(
            Role(task=task, index=index)
            for task, count in self.counts.items()
            for index in range(count)
        )


# A process that is by itself has neither role nor address; a single worker of a cluster has both.
ALONE = Cluster(counts={})


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A member's role, and the addresses of all: ``host:port`` by task, in the order of indices."""

    role: Role
    addresses: Mapping[str, tuple[str, ...]]
