"""The network between hosts: a process that takes every packet, and delivers it some time later.

Each host has a TUN device, whose other end is a file here: what the host sends is read from it,
what it receives is written to it. The delay and cuts are here; the rate of a link is the
host's own queue (`network`). There is no netem in every kernel, and it could not be told to cut
one pair.

`Switch` decides and touches no device, and takes the time as an argument. The process is `main`:
its standard input gives the hosts and then orders, one JSON object in a line, and each is answered
by a line on its standard output. When its input ends, its owner is gone: then it removes the hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import json
import os
import select
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.contract.network import namespaces

# linux/if_tun.h: a device of IP packets without a header of their own.
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_LARGEST_PACKET = 65536
# So many packets of one host in turn, then others have theirs.
_BURST = 16
_DESTINATION = slice(16, 20)
_IDLE_S = 1.0
# Before all ordinary processes: those that measure may use every processor.
_PRIORITY = 1


@dataclass(kw_only=True, slots=True)
class Line:
    """What all packets from some hosts to others share, one after the other; its rate in bits/s."""

    sources: frozenset[str]
    targets: frozenset[str]
    rate: float
    _free_s: float = 0.0

    def carries(self, source: str, target: str) -> bool:
        return source in self.sources and target in self.targets

    def through_s(self, packet: bytes, now_s: float) -> float:
        self._free_s = max(self._free_s, now_s) + 8 * len(packet) / self.rate
        return self._free_s


@dataclass(kw_only=True, slots=True)
class Switch:
    """Which packet goes where, and when. `hosts` are their IPv4 addresses, as bytes, by name."""

    hosts: Mapping[str, bytes]
    delay_s: float
    _lines: list[Line] = field(default_factory=list)
    _cuts: set[frozenset[str]] = field(default_factory=set)
    _waiting: list[tuple[float, int, str, str, bytes]] = field(default_factory=list)
    _number: int = 0

    def take(self, source: str, packet: bytes, now_s: float) -> None:
        target = self._target(packet)
        if target is not None and not self._is_cut(source, target):
            self._number += 1
            for line in self._lines:
                now_s = line.through_s(packet, now_s) if line.carries(source, target) else now_s
            due = (now_s + self.delay_s, self._number, source, target, packet)
            heapq.heappush(self._waiting, due)

    def due(self, now_s: float) -> Iterable[tuple[str, bytes]]:
        """Return the packets whose time has come, with the hosts that get them, in order."""
        while self._waiting and self._waiting[0][0] <= now_s:
            _, _, source, target, packet = heapq.heappop(self._waiting)
            if not self._is_cut(source, target):
                yield target, packet

    def next_s(self) -> float | None:
        """Return when the next packet is due; None if none is on its way."""
        return self._waiting[0][0] if self._waiting else None

    def order(self, order: Mapping[str, Any]) -> None:
        """Cut off a host, or two from each other; narrow what some send to others; or heal all."""
        if order["do"] == "cut":
            self._cuts.add(frozenset(order["hosts"]))
        elif order["do"] == "narrow":
            ends = frozenset(order["from"]), frozenset(order["to"])
            self._lines.append(Line(sources=ends[0], targets=ends[1], rate=order["bits_per_s"]))
        else:
            self._cuts.clear()
            self._lines.clear()

    def _target(self, packet: bytes) -> str | None:
        if not packet or packet[0] >> 4 != 4:
            return None
        address = packet[_DESTINATION]
        return next(
            (name for name, host_address in self.hosts.items() if host_address == address), None
        )

    def _is_cut(self, source: str, target: str) -> bool:
        """Tell whether one of the two is cut off, or this pair is."""
        return any(cut <= {source, target} for cut in self._cuts)


def open_device(name: str) -> int:
    """Open a TUN device of this name in this process's namespace; closing the file removes it."""
    file = os.open(namespaces.TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return file


def forward(switch: Switch, devices: Mapping[str, int], orders: int, answers: int) -> None:
    """Forward packets and follow orders until no more can come."""
    names = {file: name for name, file in devices.items()}
    pending = b""
    while True:
        next_s = switch.next_s()
        # select waits to the microsecond; epoll of this Python to the millisecond.
        wait_s = _IDLE_S if next_s is None else max(0.0, next_s - time.monotonic())
        ready, _, _ = select.select([*names, orders], [], [], wait_s)
        for target, packet in switch.due(time.monotonic()):
            _deliver(devices[target], packet)
        for file in ready:
            if file != orders:
                _take(switch, names[file], file)
        if orders in ready:
            read = os.read(orders, 65536)
            if not read:
                return
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                switch.order(json.loads(line))
                os.write(answers, b"done\n")


def _take(switch: Switch, name: str, file: int) -> None:
    for _ in range(_BURST):
        try:
            packet = os.read(file, _LARGEST_PACKET)
        except BlockingIOError:
            return
        switch.take(name, packet, time.monotonic())


def _deliver(file: int, packet: bytes) -> None:
    """Write it; a device that is down, or whose queue is full, loses it, as a network does."""
    with contextlib.suppress(OSError):
        os.write(file, packet)


def _line(file: int) -> bytes:
    """Read the first line, and no byte after it: the next line is an order."""
    read = b""
    while not read.endswith(b"\n"):
        byte = os.read(file, 1)
        if not byte:
            break
        read += byte
    return read


def main() -> None:
    """Read what hosts there are, make their devices, say so, and forward until the owner is gone.

    The first line has ``delay_s`` and ``hosts``: name, address (hexadecimal), device, namespace.
    """
    started = json.loads(_line(sys.stdin.fileno()))
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    devices = {host["name"]: open_device(host["device"]) for host in started["hosts"]}
    switch = Switch(
        hosts={host["name"]: bytes.fromhex(host["address"]) for host in started["hosts"]},
        delay_s=started["delay_s"],
    )
    print("ready", flush=True)
    try:
        forward(switch, devices, sys.stdin.fileno(), sys.stdout.fileno())
    finally:
        for host in started["hosts"]:
            namespaces.remove(host["namespace"])


if __name__ == "__main__":
    main()
