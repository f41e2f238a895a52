"""Reach hosts by ssh.

busbw runs the user's ssh, with the user's configuration. busbw installs nothing on a host and opens
no port. If ssh does not know the key of a host, the session ends with an error.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.driver import logs
from busbw.driver.bundle import PrivateFolder
from busbw.driver.local import public_log_text

from .host import BOOTSTRAP_CODE

_EXIT_TIMEOUT_S = 5.0


class SshLink:
    """A connection to a Python process on another host, through a process of ssh on this machine.

    The attribute `stream` is a socket to the input and output of the Python process.

    Args:
        command: The command line of ssh, which starts the Python process.
        folder: The folder for a log with the error messages of ssh and of the Python process.
        name: The name of the host. The name of the log contains the name of the host.

    Raises:
        OSError: ssh cannot be started.

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

    def end_reason(self) -> str:
        """Return the line of the log that says why ssh or the Python process ended.

        Waits for at most a few seconds until ssh ends. If the log has no such line, the result
        contains the exit status of ssh.
        """
        try:
            code = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "ssh does not end"
        # ssh ends its lines with a carriage return.
        reason = logs.reason_in_log(public_log_text(self._log, 0)).removesuffix("\\r")
        return reason or f"ssh ended with exit status {code}"

    def close(self) -> None:
        """End the input of the Python process, and kill ssh if it does not end in a few seconds."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.stream.shutdown(socket.SHUT_WR)
            self._process.wait(_EXIT_TIMEOUT_S)
        self._process.kill()
        self._process.wait()
        self.stream.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class SshEngine:
    """An engine that reaches hosts by ssh, and starts a Python process on each host.

    Attributes:
        hosts: The names of the hosts as ssh knows them, in the order of their ranks.
        folder: The private folder of the session, in which logs are written.
        python: The command that starts Python on the hosts.
        shares_machines: Whether several names may be the same machine.

    """

    hosts: tuple[str, ...]
    folder: PrivateFolder
    python: str = "python3"
    shares_machines: bool = False

    def connect_hosts(self, wait_s: float) -> Sequence[str]:
        """Return the names of the hosts at once, because ssh needs no preparation.

        `wait_s` is not used.
        """
        return self.hosts

    def connect(self, name: str, wait_s: float) -> SshLink:
        """Start a Python process on the host `name`, and return the connection to the process.

        ssh gives up if it does not reach the host within `wait_s` seconds. Raises OSError if ssh
        cannot be started.
        """
        command = [
            "ssh",
            "-Tax",
            "-oBatchMode=yes",
            "-oServerAliveInterval=5",
            "-oServerAliveCountMax=3",
            f"-oConnectTimeout={round(wait_s)}",
            "--",
            name,
            # The shell of the host expands a `~` in the name of the Python.
            f'exec {self.python} -I -u -c "{BOOTSTRAP_CODE}"',
        ]
        return SshLink(command, self.folder, name)

    def close(self) -> None:
        """Do nothing, because each SshLink ends its own ssh."""
