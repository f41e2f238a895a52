"""Exchanges values between the processes of a group of the framework `fake`, over connections.

The driver and the frameworks use other connections.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from busbw.model.machine import GroupMember

# Seconds to wait for the first process, and between attempts to connect to it.
_JOIN_TIMEOUT_S, _RETRY_INTERVAL_S = 60.0, 0.01
# Errors of a connection to a process of another group, which has another key.
_FOREIGN_GROUP_ERRORS = (multiprocessing.AuthenticationError, EOFError, ConnectionResetError)


class FakeAllGather:
    """An AllGather: a callable that exchanges values between the processes of a group.

    Each process sends its values to the first process, which sends the values of all processes
    back. `member` is this process and its group.
    """

    def __init__(self, member: GroupMember) -> None:
        host, _, port = member.addresses[0].rpartition(":")
        address = host, int(port)
        # Two groups that start at the same time on a machine may choose the same free port. The key
        # keeps them apart.
        authkey = " ".join(member.addresses).encode()
        # The first process has a connection to each other process, in the order of their indices.
        # Any other process has a single connection, to the first process.
        if member.index:
            self._connections = [_connect_to_first_process(address, authkey, member.index)]
        else:
            self._connections = _accept_connections(address, authkey, member.process_count)
        self._index = member.index

    def __call__(self, values: Sequence[float]) -> list[list[float]]:
        """Send `values`, and return the values of each process, in the order of their indices."""
        if self._index:
            (connection,) = self._connections
            _send(connection, list(values))
            return list(_receive(connection))
        rows = [list(values), *map(_receive, self._connections)]
        for connection in self._connections:
            _send(connection, rows)
        return rows


def _accept_connections(
    address: tuple[str, int], authkey: bytes, process_count: int
) -> list[Connection]:
    """Wait in the first process until all other processes connect, and return the connections.

    Args:
        address: the host and the port on which the first process listens.
        authkey: a secret that only the processes of the group know.
        process_count: the number of processes of the group.

    Returns:
        A connection to each other process, in the order of the processes' indices.

    """
    connections: dict[int, Connection] = {}
    with Listener(address, backlog=process_count, authkey=authkey) as listener:
        while len(connections) < process_count - 1:
            with contextlib.suppress(*_FOREIGN_GROUP_ERRORS):
                connection = listener.accept()
                connections[_receive(connection)] = connection
    return [connections[index] for index in sorted(connections)]


def _connect_to_first_process(address: tuple[str, int], authkey: bytes, index: int) -> Connection:
    """Connect this process to the first process of its group, and return the connection.

    If no connection can be made for `_JOIN_TIMEOUT_S` seconds, raise the last error.

    Args:
        address: the host and the port on which the first process listens.
        authkey: a secret that only the processes of the group know.
        index: the index of this process, which is the first value that is sent over the connection,
            so that the first process knows the sender.

    """
    end_s = time.monotonic() + _JOIN_TIMEOUT_S
    while True:
        try:
            connection = Client(address, authkey=authkey)
        except (ConnectionRefusedError, *_FOREIGN_GROUP_ERRORS):
            if time.monotonic() > end_s:
                raise
            time.sleep(_RETRY_INTERVAL_S)
            continue
        _send(connection, index)
        return connection


def _send(connection: Connection, value: object) -> None:
    """Send a value as JSON over a connection."""
    connection.send_bytes(json.dumps(value).encode())


def _receive(connection: Connection) -> Any:
    """Wait for the next value on a connection, which was sent as JSON, and return the value.

    Raises EOFError if the other process has ended.
    """
    return json.loads(connection.recv_bytes())
