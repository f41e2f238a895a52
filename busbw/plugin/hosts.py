"""Hosts that ssh reaches: what --hosts, --host-python and --host-env ask for.

Who may be connected to, and how, is decided by the configuration of ssh.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from busbw import inputs
from busbw.driver import SshHosts
from busbw.launchers import tpu
from busbw.model import variables

from .parsing import checked

SLICE = "tpu"
NONE = "none"
_ANY_PYTHON = "python3"

# As ssh takes it: no option of ssh, and nothing that a shell would read.
_HOST = re.compile(r"(?!-)[A-Za-z0-9_.@:%/\[\]-]{1,255}")
_PYTHON = re.compile(r"(?!-)[A-Za-z0-9_.~+/-]{1,500}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def ssh_hosts_of(
    texts: Mapping[str, str],
    environment: Mapping[str, str],
    wait_s: float,
    slice_of: Callable[[Mapping[str, str]], tuple[tuple[str, ...], str]] = tpu.hosts_of_slice,
) -> SshHosts:
    """What the options ask for; `slice_of` has the hosts of this TPU slice. Raises ValueError."""
    hosts = checked("hosts", lambda text: _hosts(text, slice_of, environment), texts["hosts"])
    names = checked("host_env", _names, texts["host_env"])
    return SshHosts(
        hosts=hosts,
        python=checked("host_python", _python, texts["host_python"] or _ANY_PYTHON),
        environment={name: environment[name] for name in sorted(names) if name in environment},
        connect_s=wait_s,
    )


def _hosts(
    text: str,
    slice_of: Callable[[Mapping[str, str]], tuple[tuple[str, ...], str]],
    environment: Mapping[str, str],
) -> tuple[str, ...]:
    if text == SLICE:
        found, source = slice_of(environment)
        if not found:
            raise ValueError(f"{SLICE}: this host is none of a TPU slice, as {source} says")
    elif text.startswith("@"):
        found = _of_file(text[1:])
    else:
        found = tuple(one.strip() for one in text.split(","))
    for host in found:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host[:100]!r} is no host; accepted is what ssh connects to")
        if found.count(host) > 1:
            raise ValueError(
                f"{host!r} is there twice; accepted is each host once, and as many processes on "
                "each as --processes shares out"
            )
    return found


def _of_file(name: str) -> tuple[str, ...]:
    """A host in each line; what follows a ``#`` is a comment."""
    try:
        lines = inputs.content(Path(name).expanduser()).decode().splitlines()
    except (inputs.InputError, UnicodeDecodeError) as error:
        words = error if isinstance(error, inputs.InputError) else "no text"
        raise ValueError(f"@{name}: {words}") from error
    found = tuple(host for line in lines if (host := line.partition("#")[0].strip()))
    if not found:
        raise ValueError(f"@{name}: no hosts; accepted is one in each line")
    return found


def _python(text: str) -> str:
    if not _PYTHON.fullmatch(text):
        raise ValueError(f"{text!r}; accepted is a command or a path, without spaces")
    return text


def _names(text: str) -> frozenset[str]:
    """Those of the list; by default the variables that change the software, not the machine."""
    if not text:
        return variables.STACK
    if text == NONE:
        return frozenset()
    names = frozenset(one.strip() for one in text.split(","))
    for name in sorted(names):
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is no variable; accepted are names, or {NONE}")
    return names
