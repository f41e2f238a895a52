"""Addresses for the members of a cluster: free ports of this host."""

from __future__ import annotations

import contextlib
import socket

from busbw.model import Cluster, Place

LOCAL_HOST = "127.0.0.1"


def local_places(cluster: Cluster) -> tuple[Place, ...]:
    """A place on this host for each role, on a port that is free now."""
    roles = cluster.roles
    addresses: dict[str, tuple[str, ...]] = {}
    for role, port in zip(roles, free_ports(len(roles)), strict=True):
        addresses[role.task] = (*addresses.get(role.task, ()), f"{LOCAL_HOST}:{port}")
    return tuple(Place(role=role, addresses=addresses) for role in roles)


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports of this host that nobody listens on.

    Nothing keeps them free until they are used: a member that finds its own taken fails.
    """
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOCAL_HOST, 0))
        return tuple(one.getsockname()[1] for one in sockets)
