"""Hosts as network namespaces: a name, an address and processes of their own; needs root.

What a host is, what it needs of the machine and what runs on it is here; the cable is not:
`network` connects hosts. They share file systems, but not /etc/hosts, where each finds the others,
and not the machine's lock file.

The name of a namespace has the process that owns it, and when that was started, so that what a
killed owner left is known, and removed by the next.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "busbw-hosts"
NAMESPACES = Path("/run/netns")
# Set by the tox environment `hosts`: without it no host is made.
ASKED = "BUSBW_HOSTS"
TUN = Path("/dev/net/tun")
_PROGRAMS = ("ip", "tc", "unshare", "hostname")
# `ip netns exec` mounts what is in its folder there over the same file of /etc.
ETC = Path("/etc/netns")
SUBNET = "10.77.0"
_END_S = 10.0
_STEP_S = 0.02

# The machine's lock file: each host has another file in its place, which its processes share.
_LOCK = "/tmp/busbw-machine.lock"
# A host's name and lock file are its own (UTS and mount namespaces); then the process becomes the
# command.
_AS_HOST = f"""
hostname "$0" && mount --bind "$1" {_LOCK} && unset BUSBW_MACHINE && shift && exec "$@"
"""

# Per namespace. The kernel's default may be bbr, which sends at a rate that it estimates, and
# every 10 s next to nothing for 200 ms: the times of an all-reduce would be those of bbr. reno
# sends what its window has, and every kernel lets a namespace have it. The window is not made
# small again by an idle 200 ms between two calls, nor small from the start by an earlier
# connection's losses. The first buffers are those of a connection that has run for a while: they
# hold more than the cable.
_TCP: Mapping[str, str] = {
    "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "0",
    "tcp_no_metrics_save": "1",
    "tcp_rmem": "4096 4194304 6291456",
    "tcp_wmem": "4096 4194304 6291456",
    # A packet of a large transfer waits in the host's queue, the rest in its connection: as much as
    # the kernel lets wait there would delay every other connection by 12 ms.
    "tcp_limit_output_bytes": "60000",
}


class HostError(RuntimeError):
    """A host could not be made or removed, with what the tool said."""


def missing() -> str:
    """Why there can be no hosts on this machine; empty if there can."""
    if not os.environ.get(ASKED):
        return f"{ASKED} is not set; `tox -e hosts` sets it"
    if os.geteuid():
        return "network namespaces need root"
    if not TUN.is_char_device():
        return f"there is no {TUN}, which is the cable of a host"
    absent = [name for name in _PROGRAMS if not shutil.which(name)]
    return (
        f"{absent[0]} is not installed (Debian: iproute2, util-linux, hostname)" if absent else ""
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """One host: its name, its address, and the namespace that it is."""

    name: str
    address: str
    namespace: str

    def command(self, command: Sequence[str]) -> list[str]:
        """`command` as this host runs it: the process that is started becomes the command."""
        enter = ["ip", "netns", "exec", self.namespace, "unshare", "--uts"]
        return [*enter, "sh", "-c", _AS_HOST, self.name, _lock_of(self.namespace), *command]

    def start(self, command: Sequence[str], **how: Any) -> subprocess.Popen[Any]:
        """Start the command; its process id and signals are those of the command."""
        return subprocess.Popen(self.command(command), **how)

    def run(self, command: Sequence[str], timeout_s: float = 60.0) -> str:
        """Return what the command prints. Raises HostError if it fails."""
        return run(self.command(command), timeout_s)

    def processes(self, *words: str) -> list[int]:
        """Return the ids of all processes of this host whose command line has these words."""
        processes = []
        for process in processes_in(self.namespace):
            # One that ends while it is looked at has none.
            with contextlib.suppress(OSError):
                arguments = Path(f"/proc/{process}/cmdline").read_text().split("\0")
                processes += [process] if set(words) <= set(arguments) else []
        return processes


def _lock_of(namespace: str) -> str:
    return f"/tmp/{namespace}.lock"


def run(command: Sequence[str], timeout_s: float = 60.0) -> str:
    """Return what `command` prints. Raises HostError with its last words if it fails."""
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise HostError(f"{' '.join(command)}: exit status {done.returncode}: {output}")
    return done.stdout


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many hosts, host0 first, with addresses and no cable; none of them is left.

    Removes first what owners that are gone left.
    """
    remove_leftovers()
    mark = f"{PREFIX}-{_owner(os.getpid())}-{secrets.token_hex(2)}"
    made = [
        Host(name=f"host{i}", address=f"{SUBNET}.{i + 1}", namespace=f"{mark}-host{i}")
        for i in range(count)
    ]
    try:
        for host in made:
            _make(host, made)
        yield made
    finally:
        for host in made:
            remove(host.namespace)


def _make(host: Host, all_hosts: Sequence[Host]) -> None:
    folder = ETC / host.namespace
    folder.mkdir(parents=True)
    lines = ["127.0.0.1 localhost", *(f"{member.address} {member.name}" for member in all_hosts)]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    (folder / "hostname").write_text(f"{host.name}\n")
    run(["ip", "netns", "add", host.namespace])
    for lock in (_LOCK, _lock_of(host.namespace)):
        run(["sh", "-c", '[ -e "$0" ] || (umask 0; : > "$0")', lock])
    run(["ip", "-n", host.namespace, "link", "set", "lo", "up"])
    values = [word for name, value in _TCP.items() for word in (name, value)]
    write = 'cd /proc/sys/net/ipv4; while [ $# -gt 0 ]; do echo "$2" > "$1" || exit; shift 2; done'
    host.run(["sh", "-c", write, "sh", *values])


def processes_in(namespace: str) -> list[int]:
    try:
        network = os.stat(NAMESPACES / namespace)
    except FileNotFoundError:
        return []
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            seen = os.stat(path / "ns/net")
            if (seen.st_dev, seen.st_ino) == (network.st_dev, network.st_ino):
                processes.append(int(path.name))
    return processes


def kill_in(namespace: str) -> None:
    """Kill every process in a namespace, and wait. Raises HostError if one stays."""
    end_s = time.monotonic() + _END_S
    while processes := processes_in(namespace):
        if time.monotonic() > end_s:
            raise HostError(f"{namespace}: processes {processes} do not end")
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_STEP_S)


def remove(namespace: str) -> None:
    """Kill what runs in a namespace, and remove it with its files; one that is gone is fine.

    A relay, or another run's first step, may remove the same one at the same time.
    """
    kill_in(namespace)
    Path(_lock_of(namespace)).unlink(missing_ok=True)
    shutil.rmtree(ETC / namespace, ignore_errors=True)
    try:
        run(["ip", "netns", "delete", namespace])
    except HostError:
        if (NAMESPACES / namespace).exists():
            raise


def remove_leftovers() -> None:
    """Remove the namespaces whose owner has ended."""
    for name in _ours():
        if not _is_alive(name):
            remove(name)


def _ours() -> list[str]:
    folders = [folder for folder in (NAMESPACES, ETC) if folder.is_dir()]
    return sorted({path.name for folder in folders for path in folder.glob(f"{PREFIX}-*")})


def _owner(process: int) -> str:
    """Name a process and when it was started: process ids are used again."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return f"{process}-{fields[19]}"


def _is_alive(namespace: str) -> bool:
    try:
        process, started = namespace.removeprefix(f"{PREFIX}-").split("-")[:2]
        return _owner(int(process)) == f"{process}-{started}"
    except (OSError, ValueError):
        return False
