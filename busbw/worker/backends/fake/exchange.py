"""Exchange of values between the processes of a simulated group, over their own connections."""

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

_JOIN_S, _RETRY_S = 60.0, 0.01
_OTHER_GROUP_ERRORS = (multiprocessing.AuthenticationError, EOFError, ConnectionResetError)


class _Listener(NamedTuple):
    """The address on which the first process listens, and the key of the group."""

    address: tuple[str, int]
    authkey: bytes


class Exchange:
    """Sends values of every process to every process, by way of the first process."""

    def __init__(self, member: ClusterMember) -> None:
        addresses, index = member.addresses, member.index
        host, _, port = addresses[0].rpartition(":")
        # Two groups that start at once on one machine may have the same free port. The key keeps
        # them apart.
        listener = _Listener((host, int(port)), authkey=" ".join(addresses).encode())
        # The first process has a connection to each other process, by index. Each other process has
        # one connection to the first.
        self._connections = (
            [_connect(listener, index)] if index else _accept(listener, member.count)
        )
        self._is_first = index == 0

    def __call__(self, values: Sequence[float]) -> list[list[float]]:
        """Return the values of all processes, in the order of their indices."""
        if not self._is_first:
            (connection,) = self._connections
            _send(connection, list(values))
            return list(_receive(connection))
        rows = [list(values), *map(_receive, self._connections)]
        for connection in self._connections:
            _send(connection, rows)
        return rows


def _accept(place: _Listener, count: int) -> list[Connection]:
    from multiprocessing.connection import Listener

    connections: dict[int, Connection] = {}
    with Listener(place.address, backlog=count, authkey=place.authkey) as listener:
        while len(connections) < count - 1:
            with contextlib.suppress(*_OTHER_GROUP_ERRORS):
                connection = listener.accept()
                connections[_receive(connection)] = connection
    return [connections[index] for index in sorted(connections)]


def _connect(place: _Listener, index: int) -> Connection:
    from multiprocessing.connection import Client

    end_s = time.monotonic() + _JOIN_S
    while True:
        try:
            connection = Client(place.address, authkey=place.authkey)
        except (ConnectionRefusedError, *_OTHER_GROUP_ERRORS):
            if time.monotonic() > end_s:
                raise
            time.sleep(_RETRY_S)
            continue
        _send(connection, index)
        return connection


def _send(connection: Connection, value: object) -> None:
    connection.send_bytes(json.dumps(value).encode())


def _receive(connection: Connection) -> Any:
    try:
        return json.loads(connection.recv_bytes())
    except EOFError as error:
        raise ConnectionError("another process of the group has ended") from error
