"""An agent whose session is at the other end of its stdin and stdout, as ssh connects them.

stdin and stdout become the channel; what anything else prints goes to stderr, which the session
keeps as this host's log.
"""

from __future__ import annotations

import os
import sys

from .channel import PipeChannel
from .joining import JoinError, Place
from .serve import AgentError, take_part_over

_CONNECTION = "SSH_CONNECTION"
_UNKNOWN = "UNKNOWN"


def take_part_over_stdio(*, rank: int, host: str, secret: str) -> int:
    """Serve the session until it is over; the exit code. Errors are a line on stderr."""
    try:
        own = own_address(os.environ.get(_CONNECTION, ""))
        place = Place(host="the other end of ssh", rank=rank, name=host, own_address=own)
        take_part_over(_channel(own), place, secret.encode())
    except (JoinError, AgentError) as error:
        print(f"busbw agent: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def own_address(connection: str) -> str:
    """In SSH_CONNECTION: client, port, server, port. Raises JoinError where sshd says none."""
    words = connection.split()
    if len(words) != 4 or words[2] == _UNKNOWN:
        raise JoinError(
            f"sshd does not say this host's address ({_CONNECTION} is {connection[:100]!r}); other "
            "hosts could not connect to it"
        )
    return words[2]


def _channel(own: str) -> PipeChannel:
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return PipeChannel(reading, writing, own)
