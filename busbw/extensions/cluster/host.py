"""Start, feed and end workers on a host of a cluster, as a session on another host requests.

A request of the session names a method of Host, and has the arguments of the method and a channel
of execnet for the answers. Each request runs in a thread of its own. The kernel kills a worker when
the thread that started the worker ends, so the thread runs as long as the worker.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from typing import Any

from busbw import storage, wire
from busbw.driver.bundle import PrivateFolder
from busbw.driver.local import LocalWorker, find_free_addresses, lock_this_machine
from busbw.driver.transport import EndMethod, WorkerExit, WorkerSpec
from busbw.model.launch import LaunchId
from busbw.model.machine import GroupMember

# A session sends each host a message at least every HEARTBEAT_S seconds. A host that receives no
# message for MAX_SILENCE_S seconds ends its workers and itself.
HEARTBEAT_S, MAX_SILENCE_S = 5.0, 30.0

# The code on the command line of the Python on a host. The code executes the first line that
# execnet sends. An older Python can read this code, too, and then ends with a sentence.
BOOTSTRAP_CODE = (
    "import sys;sys.version_info<(3,11)and sys.exit("
    "'Python %d.%d is too old: expected 3.11 or newer'%sys.version_info[:2]);"
    "exec(eval(sys.stdin.readline()))"
)


class Host:
    """The process of busbw on another host, which starts workers there for a session.

    `busbw_folder` is the path of a folder with busbw's files. The constructor copies the files to a
    private folder. Each public method except `serve` answers the request of the same name.
    """

    def __init__(self, busbw_folder: str) -> None:
        self._folder = PrivateFolder()
        shutil.copytree(busbw_folder, self._folder.path, dirs_exist_ok=True)
        # By the id of the channel that the session has for the worker.
        self._workers: dict[int, LocalWorker] = {}

    def serve(self, channel: Any) -> None:
        """Send the identity and the address of this machine, and then run the session's requests.

        The address is the one to which ssh connected, or an empty text without ssh. `channel` is
        execnet's channel to the session. When the session ends, or sends nothing for MAX_SILENCE_S
        seconds, this method kills all workers, removes the private folder, and returns.
        """
        # SSH_CONNECTION has the address and port of the client, then those of the server.
        words = os.environ.get("SSH_CONNECTION", "").split()
        channel.send((storage.boot_and_lock_identity(), "".join(words[2:3])))
        try:
            with contextlib.suppress(EOFError, channel.TimeoutError):
                while True:
                    if request := channel.receive(MAX_SILENCE_S):
                        threading.Thread(
                            target=self._answer_request, args=request, daemon=True
                        ).start()
        finally:
            for worker in list(self._workers.values()):
                worker.end_and_wait(EndMethod.KILL)
            # The lock of the machine is released when this process ends.
            self._folder.remove()

    def _answer_request(self, channel: Any, method: str, *values: Any) -> None:
        """Run the method `method` with the arguments `values`, and then close the `channel`.

        The called method sends its answers on the channel. If the called method raises an error,
        the channel is closed with the text of the error, which the session then receives.
        """
        # Closing the channel fails if the session has ended.
        with contextlib.suppress(OSError):
            try:
                getattr(self, method)(channel, *values)
            except Exception as error:
                # The error goes to the session, because only its user can do something about it.
                channel.close(storage.error_text(error))
            channel.close()

    def lock_machine(self, channel: Any, wait_s: float) -> None:
        """Lock this machine until the session ends, and then send an empty text.

        While a machine is locked, no other session measures there. If another session measures here
        now, a text with the process id of that session is sent first. Raises HostError if the other
        session does not end within `wait_s` seconds.
        """
        self._lock = lock_this_machine(wait_s, channel.send)
        channel.send("")

    def send_free_addresses(self, channel: Any, count: int, address: str) -> None:
        """Send `count` addresses such as ``10.0.0.2:4711``, each with another free port.

        `address` is the address of this host without a port.
        """
        channel.send(find_free_addresses(count, address))

    def send_is_suspended(self, channel: Any, worker_id: int) -> None:
        """Send whether a signal has stopped the worker `worker_id`.

        The id of a worker is the id of the channel on which `run_worker` was requested.
        """
        channel.send(self._workers[worker_id].is_suspended)

    def run_worker(self, channel: Any, request: list[Any]) -> None:
        """Run a worker to its end, and send the replies of the worker and its WorkerExit.

        A reply is sent as bytes, and the WorkerExit as JSON data. `request` is the JSON data of
        three values: the WorkerSpec, the LaunchId, and the GroupMember (null outside a group). The
        session sends further messages on the channel. Bytes are a request to the worker, and a text
        is an EndMethod, which says how to end the worker.
        """
        worker_spec, launch, member = wire.from_json(
            tuple[WorkerSpec, LaunchId, GroupMember | None], request, "request"
        )
        try:
            worker = LocalWorker(worker_spec, self._folder, launch, member)
        except (OSError, ValueError) as error:
            # A ValueError is raised for a variable with "=" in its name or with a null character.
            reason = f"{worker_spec.python}: {storage.error_text(error)}"
            # A shell ends with this code, too, if a program cannot be started.
            channel.send(wire.to_json(WorkerExit(exit_code=127, log=reason, reason=reason)))
            return
        self._workers[channel.id] = worker

        def handle_message(message: bytes | str) -> None:
            if isinstance(message, bytes):
                worker.write(message)
            else:
                worker.request_end(EndMethod(message))

        channel.setcallback(handle_message, endmarker=EndMethod.KILL.value)
        while content := worker.read():
            channel.send(content)
        worker.request_end(EndMethod.CLOSE)
        channel.send(wire.to_json(worker.wait()))
