"""Agents on this host that the session starts itself, as it would start workers.

Each has a process group of its own, gets the secret over stdin, and is killed when the thread that
started it ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import busbw
from busbw.agent.addresses import address_text
from busbw.agent.processes import LOG_CHARACTERS, SECRET, log_end, parent_death_signal

from .bundle import Bundle

_HOST = "127.0.0.1"
_EXIT_GRACE_S = 5.0
# As `python -m busbw`, with the package that this process has, wherever that lies.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from busbw.__main__ import main; "
    "sys.exit(main())"
)


def start_agent(
    address: str,
    rank: int,
    secret: bytes,
    *options: str,
    log: int,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """An agent on this host that connects to `address`; `log` is where it writes."""
    command = [sys.executable, "-c", _PROGRAM, str(Path(busbw.__file__).parents[1]), "agent"]
    inherited = {name: text for name, text in os.environ.items() if name != SECRET}
    process = subprocess.Popen(
        [*command, f"--session={address}", f"--rank={rank}", *options],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=parent_death_signal(),  # noqa: PLW1509 it takes no lock of another thread
        env={**inherited, **environment},
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(secret + b"\n")
    return process


class LocalAgents:
    """Agents, by rank, that connect to `port` of this host; their logs are in the `bundle`."""

    def __init__(self, bundle: Bundle, port: int, secret: bytes) -> None:
        self._bundle = bundle
        self._address = address_text(_HOST, port)
        self._secret = secret
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, rank: int) -> None:
        """Start the agent of this rank; one that is still there is ended first."""
        self._end(rank)
        with self._log(rank).open("ab") as log:
            # The folder of an agent that is killed is removed with the bundle.
            self._running[rank] = start_agent(
                self._address,
                rank,
                self._secret,
                log=log.fileno(),
                environment={"TMPDIR": str(self._bundle.temporary)},
            )

    def pid(self, rank: int) -> int:
        """The process id of an agent."""
        return self._running[rank].pid

    def ended(self, ranks: Sequence[int]) -> bool:
        """Whether one of them is over."""
        return any(self._running[rank].poll() is not None for rank in ranks)

    def why(self, rank: int) -> str:
        """The last line that an agent wrote."""
        lines = log_end(self._log(rank), 0)[-LOG_CHARACTERS:].splitlines()
        return lines[-1] if lines else "it says nothing"

    def close(self) -> None:
        """End all of them, those first that have been told that the session is over."""
        for rank in list(self._running):
            self._end(rank)

    def _end(self, rank: int) -> None:
        process = self._running.pop(rank, None)
        if process is None:
            return
        try:
            process.wait(_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            # It was not told, or does not listen. Its workers end with it.
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_EXIT_GRACE_S)
        finally:
            # The id of a process that was waited for may belong to another one.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _log(self, rank: int) -> Path:
        return self._bundle.log_path(f"agent{rank}")
