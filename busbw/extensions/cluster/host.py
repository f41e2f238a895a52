"""The half of a session that runs on a host: it starts, feeds and ends worker processes.

A request has a channel of execnet for its answers, the name of a method of Host, and values. Each
request runs in its own thread, which has to outlive the worker process that it starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import shutil
import socket
import threading
from typing import Any

from busbw import storage, wire
from busbw.driver.folder import Folder
from busbw.driver.local import alone
from busbw.driver.network import free_ports
from busbw.driver.process import Exit, Order, Process

# How to end a worker process: close its channel, at which it exits by itself; have it print its
# stack first; or kill it.
CLOSE, STACK, KILL = "close", "stack", "kill"

# A session sends a message at least every BEAT_S; its host ends after SILENCE_S without any.
BEAT_S, SILENCE_S = 5.0, 30.0

_CANNOT_START = 127
_LOOK_S = 0.01


class Host:
    """The worker processes of one session on this host."""

    def __init__(self, files: str) -> None:
        self._folder = Folder()
        shutil.copytree(files, self._folder.path, dirs_exist_ok=True)
        self._processes: list[Process] = []
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
            for process in self._processes:
                process.kill()
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

    def run(self, channel: Any, order: str) -> None:
        """Run the worker process of an Order; send its replies as bytes, and its Exit as JSON.

        Of what the session sends, bytes are a request to the process, None asks whether a signal
        has stopped the process, and text says how to end it.
        """
        messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        woken, waking = socket.socketpair()

        def receive(message: Any) -> None:
            messages.put(message)
            # OSError: the process has ended. An exception would close the channel.
            with contextlib.suppress(OSError):
                waking.send(b".")

        try:
            process = Process(wire.from_json(Order, json.loads(order), "order"), self._folder)
        except (OSError, ValueError) as error:
            # ValueError: a variable with "=" in its name, or a null character in a value.
            why = f"{json.loads(order)['python']}: {getattr(error, 'strerror', '') or error}"
            _send_exit(channel, Exit(exit_code=_CANNOT_START, log=why, reason=why))
            return
        self._processes.append(process)
        os.set_blocking(process.requests, False)
        channel.setcallback(receive, endmarker=KILL)
        end = None
        with woken, waking:
            while end is None:
                watched: list[Any] = [woken] if process.is_ending else [woken, process.replies]
                timeout_s = _LOOK_S if process.is_ending else None
                ready, _, _ = select.select(watched, [], [], timeout_s)
                if woken in ready:
                    woken.recv(1)
                    _obey(process, channel, messages.get())
                elif ready and (content := process.read()):
                    channel.send(content)
                end = process.look() if process.is_ending else None
        _send_exit(channel, end)


def _obey(process: Process, channel: Any, message: bytes | str | None) -> None:
    if message is None:
        channel.send(process.is_stopped)
    elif isinstance(message, bytes):
        process.write(message)
    elif message == CLOSE:
        process.close()
    elif message == STACK:
        process.print_stack()
    else:
        process.interrupt()
        process.end()


def _send_exit(channel: Any, end: Exit) -> None:
    channel.send(json.dumps(wire.to_json(end)))
