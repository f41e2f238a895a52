"""How the processes of a group reach each other: free ports, and no proxy between them."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Mapping, Sequence

_TIMEOUT_S = 1.0

# Hosts to which no proxy leads. gRPC reads its own variable first, and "no_proxy" without that.
_GRPC = "no_grpc_proxy"
_NO_PROXY = (_GRPC, "no_proxy", "NO_PROXY")
_EVERY_HOST = "*"


class UnreachableError(Exception):
    """Processes on this host cannot connect to each other; the message says what to do."""


def no_proxy(environment: Mapping[str, str], hosts: Sequence[str]) -> dict[str, str]:
    """Return the variables with which a process of `environment` connects to `hosts` directly.

    The processes of a group find each other by gRPC, which would connect even to the loopback
    through `http_proxy`. Hosts that the user has listed stay listed.
    """
    if not hosts:
        return {}
    listed = [environment[name] for name in _NO_PROXY if environment.get(name)]
    text = ",".join(dict.fromkeys([*listed, *hosts]))
    # As a part of a list it is no host, and gRPC does not know it.
    complete = [name for name in _NO_PROXY if environment.get(name) == _EVERY_HOST]
    return {name: text for name in _NO_PROXY if name == _GRPC or name not in complete}


def free_ports(count: int, host: str, family: socket.AddressFamily) -> tuple[int, ...]:
    """Return ports of `host` for the members of a group; they are not reserved.

    Raises UnreachableError where members could not connect to each other: a framework would try
    for minutes, and not say why.
    """
    _check_reachable(host, family)
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket(family)) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return tuple(each.getsockname()[1] for each in sockets)


def _check_reachable(host: str, family: socket.AddressFamily) -> None:
    with socket.socket(family) as listener, socket.socket(family) as client:
        listener.settimeout(_TIMEOUT_S)
        client.settimeout(_TIMEOUT_S)
        try:
            listener.bind((host, 0))
            listener.listen()
            client.connect(listener.getsockname())
            listener.accept()[0].close()
        except OSError as error:
            raise UnreachableError(_sentence(host, error)) from error


def _sentence(host: str, error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.errno == errno.ENETUNREACH:
        advice = "this network namespace has no loopback interface that is up (ip link set lo up)"
    elif error.errno == errno.EADDRNOTAVAIL:
        advice = "no network interface of this host has that address"
    elif os.environ.get("LD_PRELOAD"):
        advice = "unset LD_PRELOAD, whose library may redirect connections"
    else:
        advice = "let the firewall of this host accept its own connections"
    return f"processes on this host cannot connect to each other at {host} ({reason}): {advice}"
