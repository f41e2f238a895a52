"""What processes of a scripted group tell each other, over connections of Python's own."""

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

_JOIN_S, _LOOK_S = 60.0, 0.01
_OF_ANOTHER_GROUP = (multiprocessing.AuthenticationError, EOFError, ConnectionResetError)


class _Place(NamedTuple):
    """Where the first process listens, for those that know the key."""

    address: tuple[str, int]
    authkey: bytes


class Exchange:
    """Values of every process to every process, by way of the first."""

    def __init__(self, member: ClusterMember) -> None:
        addresses, index = member.addresses, member.index
        host, _, port = addresses[0].rpartition(":")
        # Of groups that start at once on one machine two may have been given the same free port.
        place = _Place((host, int(port)), authkey=" ".join(addresses).encode())
        # By index; the first has one to each of the others, they have one to it.
        self._channels = [_connected(place, index)] if index else _accepted(place, member.count)
        self._is_first = index == 0

    def __call__(self, values: Sequence[float]) -> list[list[float]]:
        if not self._is_first:
            (channel,) = self._channels
            _send(channel, list(values))
            found: list[list[float]] = _received(channel)
            return found
        rows = [list(values), *map(_received, self._channels)]
        for channel in self._channels:
            _send(channel, rows)
        return rows


def _accepted(place: _Place, count: int) -> list[Connection]:
    from multiprocessing.connection import Listener

    found: dict[int, Connection] = {}
    with Listener(place.address, backlog=count, authkey=place.authkey) as listener:
        while len(found) < count - 1:
            with contextlib.suppress(*_OF_ANOTHER_GROUP):
                channel = listener.accept()
                found[_received(channel)] = channel
    return [found[index] for index in sorted(found)]


def _connected(place: _Place, index: int) -> Connection:
    from multiprocessing.connection import Client

    end_s = time.monotonic() + _JOIN_S
    while True:
        try:
            channel = Client(place.address, authkey=place.authkey)
        except (ConnectionRefusedError, *_OF_ANOTHER_GROUP):
            if time.monotonic() > end_s:
                raise
            time.sleep(_LOOK_S)
            continue
        _send(channel, index)
        return channel


def _send(channel: Connection, value: object) -> None:
    channel.send_bytes(json.dumps(value).encode())


def _received(channel: Connection) -> Any:
    try:
        return json.loads(channel.recv_bytes())
    except EOFError as error:
        raise ConnectionError("another process of the group is gone") from error
