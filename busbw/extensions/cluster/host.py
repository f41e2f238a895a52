"""The half of a session that runs on a host: it starts, feeds and ends workers.

A request has a channel of execnet for its answers, the name of a method of Host, and values. Each
request runs in its own thread, which has to outlive the worker that it starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import threading
from dataclasses import dataclass
from typing import Any

from busbw import storage, wire
from busbw.driver.bundle import Folder
from busbw.driver.local import EXIT_GRACE_S, LocalWorker, alone, free_ports
from busbw.driver.transport import Ending, Exit, Starter
from busbw.model.cluster import ClusterMember
from busbw.model.launch import LaunchId

# A session sends a message at least every BEAT_S; its host ends after SILENCE_S without any.
BEAT_S, SILENCE_S = 5.0, 30.0

_CANNOT_START = 127


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A worker that the session starts on a host."""

    starter: Starter
    launch: LaunchId
    member: ClusterMember | None


class Host:
    """The workers of one session on this host, each with the thread that started it."""

    def __init__(self, files: str) -> None:
        self._folder = Folder()
        shutil.copytree(files, self._folder.path, dirs_exist_ok=True)
        self._workers: dict[LocalWorker, threading.Thread] = {}
        self._lock = contextlib.ExitStack()

    def serve(self, channel: Any) -> None:
        """Send the identity of this machine and its address, then serve the session to its end."""
        # Client, its port, server, its port.
        words = os.environ.get("SSH_CONNECTION", "").split()
        channel.send((storage.machine_identity(), words[2] if len(words) == 4 else ""))
        try:
            with contextlib.suppress(EOFError, channel.TimeoutError):
                while True:
                    if request := channel.receive(SILENCE_S):
                        threading.Thread(target=self._answer, args=request, daemon=True).start()
        finally:
            for worker in list(self._workers):
                worker.end(Ending.KILL)
            for thread in list(self._workers.values()):
                # A thread that sends to a session which is unreachable does not end.
                thread.join(EXIT_GRACE_S)
            self._lock.close()
            self._folder.remove()

    def _answer(self, channel: Any, method: str, *values: Any) -> None:
        """Run a method, and close its channel, with the reason if it fails."""
        reason = None
        try:
            getattr(self, method)(channel, *values)
        except Exception as error:
            # Only the user of the session, which is elsewhere, can do something about it.
            reason = str(error) or type(error).__name__
        # The session may be gone.
        with contextlib.suppress(OSError):
            channel.close(reason)

    def lock(self, channel: Any, wait_s: float) -> None:
        """Lock this machine until the session ends; send who holds the lock before waiting."""
        self._lock.enter_context(alone(wait_s, channel.send))
        channel.send("")

    def ports(self, channel: Any, count: int, address: str) -> None:
        """Send free ports of an address of this host."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        channel.send(list(free_ports(count, address, family)))

    def run(self, channel: Any, text: str) -> None:
        """Run the worker of an Order; send its replies as bytes, and its Exit as JSON.

        Of what the session sends, bytes are a request to the worker, None asks whether a signal
        has stopped the worker, and text is the Ending by which to end the worker.
        """
        order = wire.from_json(Order, json.loads(text), "order")
        try:
            worker = LocalWorker(order.starter, self._folder, order.launch, order.member)
        except (OSError, ValueError) as error:
            # ValueError: a variable with "=" in its name, or a null character in a value.
            reason = f"{order.starter.python}: {getattr(error, 'strerror', '') or error}"
            end = Exit(exit_code=_CANNOT_START, log=reason, reason=reason)
        else:
            self._workers[worker] = threading.current_thread()

            def obey(message: bytes | str | None) -> None:
                if message is None:
                    channel.send(worker.is_stopped)
                elif isinstance(message, bytes):
                    worker.write(message)
                else:
                    worker.end(Ending(message))

            channel.setcallback(obey, endmarker=Ending.KILL.value)
            while content := worker.read():
                channel.send(content)
            worker.end(Ending.CLOSE)
            end = worker.wait()
        channel.send(json.dumps(wire.to_json(end)))
