"""What starts a session's agents, where the session does so itself: processes of this host.

Each is an agent, or an ssh that has one at its other end. It has a process group of its own and is
killed when the thread that started it ends. Knows no worker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from busbw.agent.processes import LOG_CHARACTERS, log_end, parent_death_signal

from .bundle import Bundle

EXIT_GRACE_S = 5.0

# Hands the session's end of a connection over, with what is to be sent first.
Adopt: TypeAlias = Callable[[socket.socket, bytes], None]


def child(
    command: Sequence[str],
    stdin: int,
    stdout: int,
    stderr: int,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A process with a group of its own, which ends with the thread that starts it."""
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=parent_death_signal(),  # noqa: PLW1509 it takes no lock of another thread
        env=environment,
    )


class AgentStarter(ABC):
    """Starts agents by rank, and ends them; their logs are in the `bundle`.

    `is_here`: all of them are on this host, which need not be named then. With its session an agent
    has `exit_grace_s` to exit by itself, and as long again once it is asked to.
    """

    is_here = False

    def __init__(self, bundle: Bundle, *, exit_grace_s: float = EXIT_GRACE_S) -> None:
        self._bundle = bundle
        self._exit_grace_s = exit_grace_s
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @abstractmethod
    def start(self, rank: int, adopt: Adopt) -> None:
        """Start the agent of this rank; one that is still there is ended first."""

    @abstractmethod
    def place(self, rank: int) -> str:
        """Where the agent of this rank is, in messages."""

    def pid(self, rank: int) -> int:
        """The process id of an agent, or of the ssh that leads to it."""
        return self._running[rank].pid

    def ended(self, ranks: Sequence[int]) -> bool:
        return any(self._running[rank].poll() is not None for rank in ranks)

    def why(self, ranks: Sequence[int]) -> str:
        """Where one of them is that did not start, and the last line that it wrote or its end."""
        over = [rank for rank in ranks if self._running[rank].poll() is not None]
        rank = (over or list(ranks))[0]
        lines = log_end(self._log(rank), 0)[-LOG_CHARACTERS:].splitlines()
        said = lines[-1] if lines else _end_of(self._running[rank].poll())
        return f"{self.place(rank)} (rank {rank}): {said}"

    def close(self) -> None:
        for rank in list(self._running):
            self._end(rank, self._exit_grace_s)

    def _end(self, rank: int, grace_s: float) -> None:
        process = self._running.pop(rank, None)
        if process is None:
            return
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            # It was not told, or does not listen. Its workers end with it.
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._exit_grace_s)
        finally:
            # The id of a process that was waited for may belong to another one.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _log(self, rank: int) -> Path:
        return self._bundle.log_path(f"agent{rank}")


def _end_of(exit_code: int | None) -> str:
    if exit_code is None:
        return "it says nothing"
    if exit_code < 0:
        return f"killed by {signal.Signals(-exit_code).name}, without a word"
    return f"ended with exit status {exit_code}, without a word"
