"""What the fake's processes tell each other: over the loopback, through the first of them.

A process that is gone or silent is felt by the others as in a real framework: they end or wait.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from typing import IO, Any

from busbw.model import ClusterMember

_JOIN_S = 60.0
_LOOK_S = 0.01

Rows = list[list[float]]


class Exchange:
    """Values of every process to every process."""

    def __init__(self, member: ClusterMember) -> None:
        address, index = member.addresses[member.role.task][0], member.role.index
        host, _, port = address.rpartition(":")
        # By index; the first has one to each of the others, they have one to it.
        self._channels = (
            _accepted((host, int(port)), member.count)
            if index == 0
            else [_connected((host, int(port)), index)]
        )
        self._is_first = index == 0

    def __call__(self, values: Sequence[float]) -> Rows:
        if not self._is_first:
            (channel,) = self._channels
            _send(channel, list(values))
            rows: Rows = _received(channel)
            return rows
        rows = [list(values), *(_received(channel) for channel in self._channels)]
        for channel in self._channels:
            _send(channel, rows)
        return rows


def _accepted(address: tuple[str, int], count: int) -> list[IO[str]]:
    found: dict[int, IO[str]] = {}
    with socket.create_server(address) as server:
        server.settimeout(_JOIN_S)
        while len(found) < count - 1:
            one, _ = server.accept()
            channel = _channel(one)
            found[_received(channel)] = channel
    return [found[index] for index in sorted(found)]


def _connected(address: tuple[str, int], index: int) -> IO[str]:
    end_s = time.monotonic() + _JOIN_S
    while True:
        try:
            one = socket.create_connection(address)
        except ConnectionRefusedError:
            if time.monotonic() > end_s:
                raise
            time.sleep(_LOOK_S)
            continue
        channel = _channel(one)
        _send(channel, index)
        return channel


def _channel(one: socket.socket) -> IO[str]:
    one.settimeout(None)
    with one:
        # The file keeps the connection.
        return one.makefile("rw", encoding="ascii")


def _send(channel: IO[str], value: object) -> None:
    channel.write(json.dumps(value) + "\n")
    channel.flush()


def _received(channel: IO[str]) -> Any:
    line = channel.readline()
    if not line:
        raise ConnectionError("another process of the group is gone")
    return json.loads(line)
