"""Exchanges values between the processes of a simulated group, over connections of its own."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from busbw.model.cluster import ClusterMember

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# Seconds to wait for the first process, and between attempts to connect to it.
_JOIN_S, _RETRY_S = 60.0, 0.01
# Errors of a connection to a process of another group, which has another key.
_OTHER_GROUP_ERRORS = (multiprocessing.AuthenticationError, EOFError, ConnectionResetError)


class _GroupAddress(NamedTuple):
    """The host and port on which the first process of a group listens, and the key of the group."""

    address: tuple[str, int]
    authkey: bytes


class FakeAllGather:
    """Sends values of each process to all processes of its group, by way of the first process."""

    def __init__(self, member: ClusterMember) -> None:
        addresses, index = member.addresses, member.index
        host, _, port = addresses[0].rpartition(":")
        # Two groups that start at the same time on a machine may choose the same free port. The key
        # keeps them apart.
        group = _GroupAddress((host, int(port)), authkey=" ".join(addresses).encode())
        # The first process has a connection to each other process, in the order of their indices.
        # Any other process has a single connection, to the first process.
        self._connections = (
            [_connect_to_first(group, index)]
            if index
            else _accept_connections(group, member.process_count)
        )
        self._is_first = index == 0

    def __call__(self, values: Sequence[float]) -> list[list[float]]:
        """Return the values of each process, in the order of the processes' indices."""
        if not self._is_first:
            (connection,) = self._connections
            _send(connection, list(values))
            return list(_receive(connection))
        rows = [list(values), *map(_receive, self._connections)]
        for connection in self._connections:
            _send(connection, rows)
        return rows


def _accept_connections(group: _GroupAddress, count: int) -> list[Connection]:
    """Wait until all other processes of the group connect; return the connections by index.

    `count` is the number of processes in the group.
    """
    from multiprocessing.connection import Listener

    connections: dict[int, Connection] = {}
    with Listener(group.address, backlog=count, authkey=group.authkey) as listener:
        while len(connections) < count - 1:
            with contextlib.suppress(*_OTHER_GROUP_ERRORS):
                connection = listener.accept()
                connections[_receive(connection)] = connection
    return [connections[index] for index in sorted(connections)]


def _connect_to_first(group: _GroupAddress, index: int) -> Connection:
    """Connect process `index` to the first process of its group, and return the connection.

    The last error is raised if that fails for too long.
    """
    from multiprocessing.connection import Client

    end_s = time.monotonic() + _JOIN_S
    while True:
        try:
            connection = Client(group.address, authkey=group.authkey)
        except (ConnectionRefusedError, *_OTHER_GROUP_ERRORS):
            if time.monotonic() > end_s:
                raise
            time.sleep(_RETRY_S)
            continue
        _send(connection, index)
        return connection


def _send(connection: Connection, value: object) -> None:
    """Send a value as JSON."""
    connection.send_bytes(json.dumps(value).encode())


def _receive(connection: Connection) -> Any:
    """Return the next value. Raises ConnectionError if the other process has ended."""
    try:
        return json.loads(connection.recv_bytes())
    except EOFError as error:
        raise ConnectionError("another process of the group has ended") from error
