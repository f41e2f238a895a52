"""What a host runs to try its network: an echo that is timed, and a transfer in bulk.

It needs Python's standard library alone: `python -m tests.contract.network.probes
echo|ask|sink|send`. Each prints one JSON object, or a line when it listens.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Mapping

PORT = 7077
_CHUNK = 1 << 20
_GAP_S = 0.002


def echo(address: str) -> None:
    """Send every datagram back, until it is ended."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.bind((address, PORT))
        print("listening", flush=True)
        while True:
            message, sender = port.recvfrom(65536)
            port.sendto(message, sender)


def ask(address: str, count: str, wait_s: str = "1") -> None:
    """Time `count` datagrams to and fro: print the seconds of each, null for one that is lost."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.settimeout(float(wait_s))
        port.connect((address, PORT))
        print(json.dumps([_asked(port, number) for number in range(int(count))]))


def _asked(port: socket.socket, number: int) -> float | None:
    time.sleep(_GAP_S)
    started_s = time.perf_counter()
    port.send(str(number).encode())
    try:
        while port.recv(65536) != str(number).encode():
            pass
    except (TimeoutError, ConnectionError):
        return None
    return time.perf_counter() - started_s


def sink(address: str) -> None:
    """Take one connection, read it to its end and say so to the sender."""
    with socket.create_server((address, PORT)) as port:
        print("listening", flush=True)
        connection, _ = port.accept()
        with connection:
            while connection.recv(_CHUNK):
                pass
            connection.sendall(b".")


def send(address: str, size: str) -> None:
    """Send `size` bytes; print the seconds until the other side has them all."""
    with socket.create_connection((address, PORT)) as connection:
        started_s = time.perf_counter()
        left = int(size)
        while left:
            left -= connection.send(bytes(min(left, _CHUNK)))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        print(json.dumps(time.perf_counter() - started_s))


_PROBES: Mapping[str, Callable[..., None]] = {
    "echo": echo,
    "ask": ask,
    "sink": sink,
    "send": send,
}

if __name__ == "__main__":
    _PROBES[sys.argv[1]](*sys.argv[2:])
