"""Hosts that ssh reaches.

The user's own ssh runs, with the user's configuration: nothing is installed on a host, no port is
opened, and a host key that ssh does not know is an error.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.driver import logs
from busbw.driver.bundle import Folder
from busbw.driver.local import log_text

from .bootstrap import PYTHON_CODE

_EXIT_S = 5.0
_OPTIONS = (
    *("-T", "-a", "-x", "-o", "BatchMode=yes"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)


class SshLink:
    """An ssh; the log of `name` in `folder` has what ssh and the host write. Raises OSError."""

    # The host says at which address sshd was reached.
    address = ""

    def __init__(self, command: Sequence[str], folder: Folder, name: str) -> None:
        self._log = folder.log_path(f"host-{name.replace('/', '_')}")
        self.stream, theirs = socket.socketpair()
        try:
            with theirs, self._log.open("ab") as log:
                # In a session of its own, since Ctrl-C is for this process, which ends it.
                self._process = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=log,
                    start_new_session=True,
                )
        except OSError:
            self.stream.close()
            raise

    def reason(self) -> str:
        """Return the line of the log that says why ssh or its host ended."""
        try:
            code = self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            return "ssh does not end"
        # ssh ends its lines as a terminal does.
        reason = logs.reason(log_text(self._log, 0)).removesuffix("\\r")
        return reason or f"ssh ended with exit status {code}"

    def close(self) -> None:
        """Wait for the end of ssh, whose input has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_S)
        self._process.kill()
        self._process.wait()
        self.stream.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class SshEngine:
    """The `hosts` by rank, as ssh takes them; `environment` is added to that of each."""

    hosts: tuple[str, ...]
    folder: Folder
    python: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)
    shares_machines: bool = False

    def join(self, wait_s: float) -> Sequence[str]:
        return self.hosts

    def connect(self, name: str, wait_s: float) -> SshLink:
        options = [*_OPTIONS, "-o", f"ConnectTimeout={round(wait_s)}"]
        # The shell of the host expands a `~` in the name of the Python.
        command = f'exec {self.python} -I -u -c "{PYTHON_CODE}"'
        return SshLink(["ssh", *options, "--", name, command], self.folder, name)

    def close(self) -> None:
        """Leave nothing: each link has ended its ssh."""
