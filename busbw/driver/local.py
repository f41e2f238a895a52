"""Worker processes on this host: start them, feed them, end them. The only room that starts any.

Requests and replies go over two private pipes; stdout and stderr go into a log file. The
worker runs in a process group of its own, so that Ctrl-C in the terminal reaches the driver
alone, and it is killed as a group. On Linux it dies with the thread that starts it, from before its
first instruction on, even while it is stopped. Members of a cluster reach each other at free ports.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from busbw import wire
from busbw.model import Cluster, LaunchId, Place

from .bundle import Bundle
from .transport import (
    MOST_REPLY_BYTES,
    Ended,
    Member,
    Reply,
    Request,
    Starter,
    Transport,
    checked_reply,
    log_end,
    oom_kill_count,
)

LOCAL_HOST = "127.0.0.1"

STACK_GRACE_S = 1.0
EXIT_GRACE_S = 5.0
_READ_AT_ONCE = 65536
_LOOK_S = 0.005
_PR_SET_PDEATHSIG = 1

# Where pytest's interpreter finds its packages: another one would import them before its own.
_OF_THIS_PYTHON = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")


class LocalTransport(Transport):
    """Workers on this host, started from the `bundle`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def places(self, cluster: Cluster) -> tuple[Place, ...]:
        """On the loopback, at ports that are free now."""
        return local_places(cluster)

    def start(self, starter: Starter, launch: LaunchId, place: Place | None) -> Worker:
        """A process of its own."""
        return Worker(starter, self._bundle, launch, place)


def local_places(cluster: Cluster) -> tuple[Place, ...]:
    """A place on this host for each role, on a port that is free now."""
    roles = cluster.roles
    addresses: dict[str, tuple[str, ...]] = {}
    for role, port in zip(roles, free_ports(len(roles)), strict=True):
        addresses[role.task] = (*addresses.get(role.task, ()), f"{LOCAL_HOST}:{port}")
    return tuple(Place(role=role, addresses=addresses) for role in roles)


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports of this host that nobody listens on.

    Nothing keeps them free until they are used: a member that finds its own taken fails.
    """
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOCAL_HOST, 0))
        return tuple(one.getsockname()[1] for one in sockets)


def _command(
    starter: Starter,
    bundle: Bundle,
    launch: LaunchId,
    requests: int,
    replies: int,
    place: Place | None = None,
) -> list[str]:
    """The worker's command line; the descriptors are its ends of the pipes."""
    command = [starter.python, str(bundle.path), f"--framework={starter.framework}"]
    command += [f"--capability={starter.capability.value}"]
    command += [f"--device={starter.device}"] if starter.device else []
    command += [f"--ranks={starter.ranks}"] if starter.ranks is not None else []
    command += [f"--place={json.dumps(wire.to_json(place))}"] if place is not None else []
    command += [f"--launch={launch}", f"--parent={os.getpid()}"]
    return [*command, f"--requests={requests}", f"--replies={replies}"]


def _environment(starter: Starter, bundle: Bundle) -> dict[str, str]:
    """Ours, with byte code of the frameworks kept: without it they take seconds more to import.

    Another interpreter than `sys.executable` gets no PYTHONPATH and no PYTHONHOME of ours, unless
    the starter has one for it. An activated venv needs no such care: it is only a PATH.
    """
    environment = dict(os.environ)
    if starter.python != sys.executable:
        for name in _OF_THIS_PYTHON:
            environment.pop(name, None)
    environment |= starter.environment
    environment = {**starter.defaults.get(starter.capability, {}), **environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONUNBUFFERED"] = "1"
    # What a worker that is killed leaves there is removed with the bundle.
    environment["TMPDIR"] = str(bundle.temporary)
    return environment


def _tied() -> Callable[[], None] | None:
    """What ties a process to this one between fork and exec; later it might be stopped before.

    Linux sends SIGKILL when the thread that forked ends. All that is called is looked up here: in
    the child no other thread runs on that could release a lock.
    """
    if sys.platform != "linux":
        return None
    # Unlike CDLL, it does not pass on the interpreter lock.
    prctl, parent, parent_of, end = ctypes.PyDLL(None).prctl, os.getpid(), os.getppid, os._exit

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL.value, 0, 0, 0)
        if parent_of() != parent:
            end(1)

    return tie


class Worker(Member):
    """A running worker. Every way out ends the process, whatever it is doing."""

    def __init__(
        self,
        starter: Starter,
        bundle: Bundle,
        launch: LaunchId,
        place: Place | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.launch = launch
        self._clock = clock
        self._log = bundle.log_path(f"{launch}.{starter.framework}")
        self._log_begin = self._log.stat().st_size if self._log.exists() else 0
        self._oom_kills = oom_kill_count()
        self._buffer = bytearray()
        self._asked = ""
        self._begun_s = clock()
        requests_out, self._requests = os.pipe()
        self._replies, replies_in = os.pipe()
        command = _command(starter, bundle, launch, requests_out, replies_in, place)
        try:
            environment = _environment(starter, bundle)
            self._process = self._started(command, environment, (requests_out, replies_in))
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(requests_out)
            os.close(replies_in)

    def _started(
        self, command: list[str], environment: dict[str, str], pipes: tuple[int, int]
    ) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=pipes,
                start_new_session=True,
                preexec_fn=_tied(),  # noqa: PLW1509 it takes no lock of another thread
                env=environment,
            )

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def fileno(self) -> int:
        """The descriptor of the replies, so that `select` can watch several workers at once."""
        return self._replies

    def send(self, request: Request | None) -> None:
        """Send `request` (None: just listen) and wait for nothing: what it gives is `received`."""
        self._begun_s = self._clock()
        self._asked = request.name if request else ""
        if request is None:
            # One that ended as it started may have said why already.
            return
        self._log_begin = self._log.stat().st_size
        self._oom_kills = oom_kill_count()
        # A worker that is no more is seen at the end of its replies, with how it ended.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, _line(request))

    def received(self) -> Reply | Ended | None:
        """What there is to read, once `select` says so; None while a reply is not whole.

        An Ended at the end of the pipe, and for anything that is not the reply to what was asked;
        the process is over then.
        """
        read = os.read(self._replies, _READ_AT_ONCE)
        if not read:
            return self._gone()
        self._buffer += read
        if b"\n" not in read:
            too_long = f"more than {MOST_REPLY_BYTES} bytes"
            return self._refused(too_long) if len(self._buffer) > MOST_REPLY_BYTES else None
        line, _, more = bytes(self._buffer).partition(b"\n")
        self._buffer.clear()
        if more:
            return self._refused("more than one")
        try:
            return checked_reply(line, self._asked)
        except wire.WireError as error:
            return self._refused(str(error))

    def _refused(self, why: str) -> Ended:
        """End a worker that answers something else; nothing after that could be believed."""
        waited_s = self._clock() - self._begun_s
        self.kill()
        return replace(self._ended(None, waited_s), refused=why)

    def timed_out(self) -> Ended:
        """Have the worker print its stack into the log, then kill it."""
        waited_s = self._clock() - self._begun_s
        os.kill(self.pid, signal.SIGUSR1)
        self._waited(STACK_GRACE_S)
        self.kill()
        return self._ended(None, waited_s)

    def _gone(self) -> Ended:
        """The pipe is closed: the process is ending, or it must be ended.

        One that has to be ended did not die by itself: it hung, and is no cause of what others did.
        """
        ended = self._waited(EXIT_GRACE_S)
        waited_s = self._clock() - self._begun_s
        self.kill()
        return self._ended(self._process.returncode if ended else None, waited_s)

    def _ended(self, exit_code: int | None, waited_s: float) -> Ended:
        return Ended(
            exit_code=exit_code,
            log=log_end(self._log, self._log_begin),
            oom_kills=oom_kill_count() - self._oom_kills,
            waited_s=waited_s,
        )

    def _waited(self, timeout_s: float) -> bool:
        """Whether the process ends by itself within so long."""
        end_s = time.monotonic() + timeout_s
        while not self._over():
            if time.monotonic() > end_s:
                return False
            time.sleep(_LOOK_S)
        return True

    def _over(self) -> bool:
        """Whether the process has ended. Its id stays its own until its group was killed."""
        if sys.platform == "darwin" or self._process.returncode is not None:
            return self._process.poll() is not None
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, look) is not None

    def close(self) -> bool:
        """Let the worker end by itself; kill it if it does not. Whether it did."""
        self._close_pipes()
        ended = self._waited(EXIT_GRACE_S)
        self.kill()
        return ended

    def interrupt(self) -> None:
        """End the process from another thread than the one that asks, which then sees its end."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the worker's whole process group, what it started too, and wait for the worker."""
        self._close_pipes()
        # A process that was waited for has no id any more: another one may have it.
        self.interrupt()
        self._process.wait()

    def _close_pipes(self) -> None:
        for descriptor in (self._requests, self._replies):
            if descriptor >= 0:
                os.close(descriptor)
        self._requests = self._replies = -1


def _line(request: Request) -> bytes:
    values = {name: wire.to_json(value) for name, value in request.values.items()}
    return json.dumps({"request": request.name, **values}).encode() + b"\n"
