"""What carries frames: a socket, or ssh's two pipes. Nothing is awaited: owners select."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod


class Channel(ABC):
    """Bytes in both directions. `reading` and `writing` are the descriptors to select on."""

    reading: int
    writing: int

    @abstractmethod
    def addresses(self) -> tuple[str, str]:
        """Our address and the other side's; empty where there is none. Raises OSError."""

    @abstractmethod
    def receive(self, most: int) -> bytes:
        """Read once; empty at the end. Raises BlockingIOError where there is nothing, OSError."""

    @abstractmethod
    def send(self, content: bytes) -> int:
        """Write once; how much was written. Raises BlockingIOError where none can be, OSError."""

    @abstractmethod
    def close(self) -> None:
        """Close both directions; the descriptors are -1 then."""


class SocketChannel(Channel):
    """A connected socket: of TCP, or one end of a pair."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.reading = self.writing = sock.fileno()

    def addresses(self) -> tuple[str, str]:
        if self._socket.family not in (socket.AF_INET, socket.AF_INET6):
            return "", ""
        return self._socket.getsockname()[0], self._socket.getpeername()[0]

    def receive(self, most: int) -> bytes:
        return self._socket.recv(most)

    def send(self, content: bytes) -> int:
        return self._socket.send(content)

    def close(self) -> None:
        self._socket.close()
        self.reading = self.writing = -1


class PipeChannel(Channel):
    """Two descriptors, which need not be sockets; they are closed with the channel."""

    def __init__(self, reading: int, writing: int, own_address: str = "") -> None:
        for one in (reading, writing):
            os.set_blocking(one, False)
        self.reading, self.writing = reading, writing
        self._own_address = own_address

    def addresses(self) -> tuple[str, str]:
        return self._own_address, ""

    def receive(self, most: int) -> bytes:
        return os.read(self.reading, most)

    def send(self, content: bytes) -> int:
        return os.write(self.writing, content)

    def close(self) -> None:
        for one in {self.reading, self.writing} - {-1}:
            os.close(one)
        self.reading = self.writing = -1
