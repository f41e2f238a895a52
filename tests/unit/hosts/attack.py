"""A unknown in a process of its own, who needs descriptors and time: `attack.py WHAT PORT`.

``random``: 10,000 connections with random bytes. ``crowd``: 1,000 connections at once, held until
stdin is closed. ``again``: 200 that are made again as soon as they are closed. Both say when all
are there.
"""

from __future__ import annotations

import contextlib
import random
import resource
import select
import socket
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

HOST = "127.0.0.1"


def random_bytes(port: int) -> None:
    """Every second string begins with its own length, as a frame does."""
    draw = random.Random(19)
    strings = [draw.randbytes(draw.randrange(1, 400)) for _ in range(10_000)]
    strings[::2] = [struct.pack(">I", max(0, len(one) - 32)) + one for one in strings[::2]]

    def send(sent: bytes) -> None:
        # The session may have closed the connection before all was sent.
        closed = contextlib.suppress(ConnectionResetError, BrokenPipeError)
        with closed, socket.create_connection((HOST, port), timeout=60) as sock:
            sock.sendall(sent)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send, strings))


def again(port: int) -> None:
    """200 connections in two threads that say nothing; each that is closed is made again."""
    over = threading.Event()

    def hold(count: int) -> None:
        with contextlib.ExitStack() as held:
            connected = contextlib.suppress(ConnectionResetError)

            def connect() -> socket.socket:
                found = socket.create_connection((HOST, port), timeout=60)
                return held.enter_context(found)

            socks = [connect() for _ in range(count)]
            if all_there.wait() == 0:
                print("there", flush=True)
            while not over.is_set():
                for sock in select.select(socks, [], [], 0.1)[0]:
                    with connected:
                        if sock.recv(1024):
                            continue
                    sock.close()
                    socks[socks.index(sock)] = connect()

    all_there = threading.Barrier(2)
    threads = [threading.Thread(target=hold, args=(100,)) for _ in range(2)]
    for one in threads:
        one.start()
    sys.stdin.read()
    over.set()
    for one in threads:
        one.join()


def crowd(port: int) -> None:
    """Connect, read until nothing comes, and say that it did."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with contextlib.ExitStack() as held:
        socks = [
            held.enter_context(socket.create_connection((HOST, port), timeout=60))
            for _ in range(1000)
        ]
        poll = select.poll()
        by_number = {sock.fileno(): sock for sock in socks}
        for number in by_number:
            poll.register(number, select.POLLIN)
        while by_number:
            found = poll.poll(200)
            if not found:
                break
            for number, _ in found:
                with contextlib.suppress(ConnectionResetError):
                    if by_number[number].recv(1024):
                        continue
                poll.unregister(number)
                del by_number[number]
        print("there", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    {"random": random_bytes, "crowd": crowd, "again": again}[sys.argv[1]](int(sys.argv[2]))
