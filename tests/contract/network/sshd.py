"""Real sshd on hosts, and the client's configuration for them, which is that of every host.

`ssh host1 COMMAND` works on each of them; elsewhere `ssh -F FILE host1 COMMAND` does. Keys are made
for the test and are in its folder; no key or file of a user is read.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.contract.network.debian import server
from tests.contract.network.namespaces import ETC, Host, run

PORT = 2222
# sshd keeps its processes without rights there, and does not start without it.
_EMPTY = Path("/run/sshd")

_SERVER = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
PidFile {folder}/{name}.pid
AuthorizedKeysFile {folder}/client_key.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
"""
_CLIENT = """\
Host {name}
    HostName {address}
    Port {port}
    User root
    IdentityFile {folder}/client_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    BatchMode yes
    LogLevel ERROR
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ssh:
    """How the hosts are reached: the client's configuration, and the folder of keys and logs."""

    config: Path
    folder: Path

    def command(self, host: Host, *words: str) -> list[str]:
        """Return the client's command, to run on any host."""
        return ["ssh", "-F", str(self.config), host.name, *words]


@contextlib.contextmanager
def sshd(hosts: Sequence[Host], folder: Path) -> Iterator[Ssh]:
    """Start sshd on each host; `folder` gets keys, configurations and logs."""
    for name in ("host_key", "client_key"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)])
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    keys = [f"[{host.address}]:{PORT} {key}\n" for host in hosts]
    (folder / "known_hosts").write_text("".join(keys))
    ssh = Ssh(config=folder / "ssh_config", folder=folder)
    ssh.config.write_text("".join(_written(_CLIENT, host, folder) for host in hosts))
    for host in hosts:
        # What a host reads as /etc/ssh.
        settings = ETC / host.namespace / "ssh"
        settings.mkdir()
        shutil.copy(ssh.config, settings / "ssh_config")
    _EMPTY.mkdir(mode=0o755, exist_ok=True)
    with contextlib.ExitStack() as started:
        for host in hosts:
            started.enter_context(_server_on(host, folder))
        yield ssh


@contextlib.contextmanager
def _server_on(host: Host, folder: Path) -> Iterator[None]:
    config, log = folder / f"sshd_config.{host.name}", folder / f"sshd.{host.name}.log"
    config.write_text(_written(_SERVER, host, folder))
    # sshd starts itself again for each connection, and wants its own full path for that.
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "sshd"
    with server(
        host, [program, "-D", "-e", "-f", str(config)], log, lambda: "listening" in log.read_text()
    ):
        yield


def _written(form: str, host: Host, folder: Path) -> str:
    return form.format(name=host.name, address=host.address, port=PORT, folder=folder)
