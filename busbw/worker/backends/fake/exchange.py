"""What processes of a scripted group tell each other, over connections of Python's own."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from busbw.model.training import ClusterMember

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_JOIN_S, _LOOK_S = 60.0, 0.01


class Exchange:
    """Values of every process to every process, by way of the first."""

    def __init__(self, member: ClusterMember) -> None:
        host, _, port = member.addresses[member.role.task][0].rpartition(":")
        address, index = (host, int(port)), member.role.index
        # By index; the first has one to each of the others, they have one to it.
        self._channels = [_connected(address, index)] if index else _accepted(address, member.count)
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


def _accepted(address: tuple[str, int], count: int) -> list[Connection]:
    from multiprocessing.connection import Listener

    with Listener(address, backlog=count) as listener:
        joined = [listener.accept() for _ in range(count - 1)]
    found = {_received(channel): channel for channel in joined}
    return [found[index] for index in sorted(found)]


def _connected(address: tuple[str, int], index: int) -> Connection:
    from multiprocessing.connection import Client

    end_s = time.monotonic() + _JOIN_S
    while True:
        try:
            channel = Client(address)
        except ConnectionRefusedError:
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
