"""The socket that a session listens on: opened by it, or handed over by the process it was before.

A command that becomes pytest listens first, so that no agent misses the session, and hands the
socket over as a descriptor that the new program inherits. Knows no agent and no secret.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

# The number of the descriptor.
DESCRIPTOR = "BUSBW_LISTENING"

# Agents of a large slice that connect before the session accepts any.
BACKLOG = 1024


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens at this address, a number. Raises OSError if it is none of ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def hand_over(listening: socket.socket, environment: MutableMapping[str, str]) -> None:
    os.set_inheritable(listening.fileno(), True)
    environment[DESCRIPTOR] = str(listening.fileno())


def handed_over(environment: MutableMapping[str, str]) -> socket.socket | None:
    """None of its own processes inherit it. Raises OSError if the descriptor is no socket."""
    text = environment.pop(DESCRIPTOR, "")
    if not text:
        return None
    if not text.isdecimal():
        raise OSError(f"{DESCRIPTOR}={text!r} is no descriptor")
    os.set_inheritable(int(text), False)
    return socket.socket(fileno=int(text))
