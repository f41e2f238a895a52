"""A session's half on a host: it starts, asks and ends worker processes there.

A request names a method of Host, and its values and its result are numbers, text and bytes: execnet
and Dask carry nothing else. Every method runs in one event loop, in the thread that starts worker
processes and has to outlive them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import threading
from dataclasses import replace
from typing import Any

from busbw import storage, wire
from busbw.driver.folder import Folder
from busbw.driver.network import free_ports
from busbw.driver.process import Exit, Order, Process
from busbw.driver.transport import MOST_REPLY_BYTES

# How a worker process ends: it exits as its channel closes, it prints its stack first, or it is
# killed.
CLOSE, STACK, KILL = "close", "stack", "kill"

# A session gives a sign of life each BEAT_S; after SILENCE_S without one it is gone.
BEAT_S, SILENCE_S = 5.0, 30.0

_CANNOT_START = 127
_LOOK_S = 0.01


class Host:
    """The worker processes of one session on this host, by name."""

    def __init__(self, files: str) -> None:
        self._folder = Folder()
        shutil.copytree(files, self._folder.path, dirs_exist_ok=True)
        self._workers: dict[str, HostWorker] = {}
        self._lock = contextlib.ExitStack()

    async def call(self, method: str, *values: Any) -> tuple[Any, str]:
        """Return the result of a method, and why there is none: "" where there is one."""
        try:
            return await getattr(self, method)(*values), ""
        except Exception as error:
            # Whatever went wrong here is for the user of the session, who is elsewhere.
            return None, str(error) or type(error).__name__

    def serve(self, channel: Any) -> None:
        """Answer the requests of an execnet channel until its session is gone."""
        loop = asyncio.new_event_loop()

        async def answer(number: int, *request: Any) -> None:
            channel.send((number, *await self.call(*request)))

        def receive() -> None:
            with contextlib.suppress(EOFError, channel.TimeoutError):
                while True:
                    if request := channel.receive(SILENCE_S):
                        asyncio.run_coroutine_threadsafe(answer(*request), loop)
            loop.call_soon_threadsafe(loop.stop)

        threading.Thread(target=receive, daemon=True).start()
        try:
            loop.run_forever()
        finally:
            self.close()

    async def describe(self) -> tuple[str, str]:
        """Return what tells machines apart, and the address at which sshd was reached."""
        # Client, its port, server, its port.
        words = os.environ.get("SSH_CONNECTION", "").split()
        return storage.machine_identity(), words[2] if len(words) == 4 else ""

    async def lock(self) -> str:
        """Keep other sessions from measuring here; return which process does so now."""
        try:
            self._lock.enter_context(storage.machine_lock(0.0))
        except storage.LockedError as error:
            return str(error)
        return ""

    async def ports(self, count: int, address: str) -> list[int]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return list(free_ports(count, address, family))

    async def start(self, order: str) -> None:
        """Start the worker process of an Order, which does not inherit the settings of Dask."""
        wanted = wire.from_json(Order, json.loads(order), "order")
        own = [name for name in os.environ if name.startswith("DASK_")]
        wanted = replace(wanted, unset=(*wanted.unset, *own))
        self._workers[wanted.name] = worker = HostWorker()
        worker.start(wanted, self._folder)

    async def write(self, name: str, line: bytes) -> None:
        self._workers[name].write(line)

    async def listen(self, name: str) -> bytes | str:
        """Return what a worker says next, or at its end the Exit as JSON."""
        return await self._workers[name].replies.get()

    async def is_stopped(self, name: str) -> bool:
        return self._workers[name].is_stopped

    async def end(self, name: str, how: str) -> str:
        """End a worker process; return its Exit as JSON."""
        return await self._workers[name].end(how)

    def close(self) -> None:
        """End all processes, and remove what they left."""
        for worker in self._workers.values():
            worker.kill()
        self._lock.close()
        self._folder.remove()


class HostWorker:
    """A worker process; `replies` has what it says, and at last its Exit as JSON."""

    def __init__(self) -> None:
        self.replies: asyncio.Queue[bytes | str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._process: Process | None = None
        self._ending: asyncio.Task[None] | None = None
        self._exit = ""
        self._said = bytearray()

    def start(self, order: Order, folder: Folder) -> None:
        """Start it. One that cannot be started is over, and its log says why."""
        try:
            self._process = Process(order, folder)
        except (OSError, ValueError) as error:
            # ValueError: a variable with "=" in its name, or a null character in a value.
            why = f"{order.python or 'python'}: {getattr(error, 'strerror', '') or error}"
            self._report(Exit(exit_code=_CANNOT_START, log=why, reason=why))
            return
        os.set_blocking(self._process.requests, False)
        self._loop.add_reader(self._process.replies, self._read, self._process)

    @property
    def is_stopped(self) -> bool:
        return self._process is not None and self._process.is_stopped

    def write(self, line: bytes) -> None:
        if self._process is not None:
            self._process.write(line)

    async def end(self, how: str) -> str:
        process = self._process
        if process is not None and not self._exit:
            self._stop_reading(process)
            if how == CLOSE:
                process.close()
            elif how == STACK:
                process.print_stack()
            else:
                process.interrupt()
                process.end()
            await self._wait(process)
        return self._exit

    def kill(self) -> None:
        if self._process is not None:
            self._stop_reading(self._process)
            self._process.kill()

    def _read(self, process: Process) -> None:
        content = process.read()
        self._said += content
        # The session refuses what is too long for a reply.
        if b"\n" in content or len(self._said) > MOST_REPLY_BYTES:
            self.replies.put_nowait(bytes(self._said))
            self._said.clear()
        if not content:
            self._stop_reading(process)
            self._ending = self._loop.create_task(self._wait(process))

    def _stop_reading(self, process: Process) -> None:
        # Else the loop would not watch the next pipe that gets this number. The pipes of a process
        # that is ending are closed.
        if process.replies >= 0:
            self._loop.remove_reader(process.replies)

    async def _wait(self, process: Process) -> None:
        """Wait until the process is over; it is killed once its grace is."""
        while (over := process.look()) is None:
            await asyncio.sleep(_LOOK_S)
        self._report(over)

    def _report(self, over: Exit) -> None:
        self._exit = self._exit or json.dumps(wire.to_json(over))
        self.replies.put_nowait(self._exit)
