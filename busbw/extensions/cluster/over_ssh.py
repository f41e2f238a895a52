"""Reach hosts by ssh.

busbw runs the user's ssh, with the user's configuration. It installs nothing on a host and opens no
port. If ssh does not know the key of a host, the session ends with an error.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.driver import logs
from busbw.driver.bundle import PrivateFolder
from busbw.driver.local import public_log_text

from .bootstrap import PYTHON_CODE

_EXIT_TIMEOUT_S = 5.0
_SSH_OPTIONS = (
    *("-T", "-a", "-x", "-o", "BatchMode=yes"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)


class SshLink:
    """A connection to the Python on one host, over a process of ssh.

    `stream` is a socket on which this process talks to the Python. The output of ssh and the errors
    of the Python go into the log of the host `name` in `folder`. Raises OSError if ssh cannot be
    started.
    """

    # The address is unknown here: the Host sends the address at which sshd was reached.
    address = ""

    def __init__(self, command: Sequence[str], folder: PrivateFolder, name: str) -> None:
        self._log = folder.path / f"host-{name.replace('/', '_')}.log"
        self.stream, other_end = socket.socketpair()
        try:
            with other_end, self._log.open("ab") as log:
                # ssh has a session of its own, so that Ctrl-C reaches only this process, which then
                # ends ssh.
                self._process = subprocess.Popen(
                    command,
                    stdin=other_end.fileno(),
                    stdout=other_end.fileno(),
                    stderr=log,
                    start_new_session=True,
                )
        except OSError:
            self.stream.close()
            raise

    def reason(self) -> str:
        """Return the line of the log that says why ssh or the Python on its host ended."""
        try:
            code = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "ssh does not end"
        # ssh ends its lines with a carriage return.
        reason = logs.reason_in_log(public_log_text(self._log, 0)).removesuffix("\\r")
        return reason or f"ssh ended with exit status {code}"

    def close(self) -> None:
        """Wait until ssh ends, whose input has ended; kill ssh if it takes too long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_TIMEOUT_S)
        self._process.kill()
        self._process.wait()
        self.stream.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class SshEngine:
    """Connects to hosts by ssh.

    Args:
        hosts: The names of the hosts as ssh takes them, in the order of their ranks.
        folder: The private folder of the session, for logs.
        python: The interpreter on the hosts.
        environment: Environment variables to set on the hosts.
        shares_machines: Whether several names may be the same machine.

    """

    hosts: tuple[str, ...]
    folder: PrivateFolder
    python: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)
    shares_machines: bool = False

    def join(self, wait_s: float) -> Sequence[str]:
        """Return the names of the hosts, which need no preparation."""
        return self.hosts

    def connect(self, name: str, wait_s: float) -> SshLink:
        """Start a Python on the host `name`, and return the connection to it.

        ssh gives up if it does not reach the host within `wait_s` seconds. Raises OSError if ssh
        cannot be started.
        """
        options = [*_SSH_OPTIONS, "-o", f"ConnectTimeout={round(wait_s)}"]
        # The shell of the host expands a `~` in the name of the Python.
        command = f'exec {self.python} -I -u -c "{PYTHON_CODE}"'
        return SshLink(["ssh", *options, "--", name, command], self.folder, name)

    def close(self) -> None:
        """Do nothing, because each SshLink ends its own ssh."""
