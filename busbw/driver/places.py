"""Who is who in a group of processes, and at which address: values, and free ports of this host.

Knows no worker and starts nothing.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LOCAL_HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """What a process is to its group, such as the second worker: `task` ``worker``, `index` 1."""

    task: str
    index: int = 0

    @property
    def name(self) -> str:
        """The role in words, such as ``worker 1``."""
        return f"{self.task} {self.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A member's role, and the addresses of all: ``host:port`` by task, in the order of indices."""

    role: Role
    addresses: Mapping[str, tuple[str, ...]]

    @property
    def environment(self) -> dict[str, str]:
        """What tells a process its place before any framework starts."""
        cluster = {task: list(found) for task, found in self.addresses.items()}
        task = {"type": self.role.task, "index": self.role.index}
        return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def roles_of(counts: Mapping[str, int]) -> tuple[Role, ...]:
    """Roles by task and number of them, such as chief 1, worker 2, ps 1."""
    return tuple(
        Role(task=task, index=index) for task, count in counts.items() for index in range(count)
    )


def local_places(roles: Sequence[Role]) -> tuple[Place, ...]:
    """A place on this host for each role, on a port that is free now."""
    ports = free_ports(len(roles))
    addresses: dict[str, tuple[str, ...]] = {}
    for role, port in zip(roles, ports, strict=True):
        addresses[role.task] = (*addresses.get(role.task, ()), f"{LOCAL_HOST}:{port}")
    return tuple(Place(role=role, addresses=addresses) for role in roles)


def free_ports(count: int) -> tuple[int, ...]:
    """So many ports of this host that nobody listens on, no two alike.

    Nothing keeps them free until they are used: a member that finds its own taken fails.
    """
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOCAL_HOST, 0))
        return tuple(one.getsockname()[1] for one in sockets)
