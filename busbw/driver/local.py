"""Worker processes on this host: starts them, sends requests, ends them. Nothing else starts any.

Requests and replies go over two private pipes; stdout and stderr go into a log file. The
worker runs in a session and process group of its own, so that Ctrl-C in the terminal reaches the
driver alone, and it is killed as a group. On Linux it is killed when the thread that started it
ends, even while it is stopped. Members of a cluster reach each other at free ports.
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
from pathlib import Path

from busbw import wire
from busbw.model import Cluster, ClusterMember, LaunchId, variables

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

# Another interpreter would import the packages of pytest's before its own.
_OF_THIS_PYTHON = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")


class LocalTransport(Transport):
    """Workers on this host, started from the `bundle`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        """On the loopback, at ports that are free now."""
        return local_members(cluster)

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        """A new process."""
        return Worker(starter, self._bundle, launch, member)


def local_members(cluster: Cluster) -> tuple[ClusterMember, ...]:
    """A member on this host for each role, on a port that is free now."""
    roles = cluster.roles
    addresses: dict[str, tuple[str, ...]] = {}
    for role, port in zip(roles, free_ports(len(roles)), strict=True):
        addresses[role.task] = (*addresses.get(role.task, ()), f"{LOCAL_HOST}:{port}")
    return tuple(ClusterMember(role=role, addresses=addresses) for role in roles)


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports of this host that nothing listens on.

    They are not reserved: a member that finds its port in use fails.
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
    member: ClusterMember | None = None,
) -> list[str]:
    """The worker's command line; the descriptors are its ends of the pipes."""
    command = [starter.python, str(bundle.path), f"--framework={starter.framework}"]
    command += [f"--capability={starter.capability.value}"]
    command += [f"--device={starter.device}"] if starter.device else []
    command += [f"--ranks={starter.ranks}"] if starter.ranks is not None else []
    command += [f"--member={json.dumps(wire.to_json(member))}"] if member is not None else []
    command += [f"--launch={launch}", f"--parent={os.getpid()}"]
    return [*command, f"--requests={requests}", f"--replies={replies}"]


def is_stopped(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether a signal has stopped the process; False where the system does not say."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return False
    # The name before the state may hold anything, spaces and brackets too.
    return text.rpartition(")")[2].split()[:1] == ["T"]


def environment_of(starter: Starter) -> dict[str, str]:
    """The environment of this process, with byte code enabled to import faster.

    An interpreter other than `sys.executable` does not get our PYTHONPATH and PYTHONHOME, unless
    the starter has one for it. An activated venv does no harm: it only changes PATH.
    """
    environment = dict(os.environ)
    if starter.python != sys.executable:
        for name in _OF_THIS_PYTHON:
            environment.pop(name, None)
    for name in starter.unset:
        environment.pop(name, None)
    environment |= starter.environment
    environment = {**starter.defaults.get(starter.capability, {}), **environment}
    if sys.platform == "linux":
        environment = variables.with_huge_pages(environment)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def _parent_death_signal() -> Callable[[], None] | None:
    """A function for the child, between fork and exec, that has it killed when this thread ends.

    Later the child might be stopped before it could do so. Everything that it calls is looked up
    here: in the child there is no other thread that could release a lock.
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
        member: ClusterMember | None = None,
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
        command = _command(starter, bundle, launch, requests_out, replies_in, member)
        try:
            # Temporary files of a worker that is killed are removed with the bundle.
            environment = environment_of(starter) | {"TMPDIR": str(bundle.temporary)}
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
                preexec_fn=_parent_death_signal(),  # noqa: PLW1509 it takes no lock of another thread
                env=environment,
            )

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process, as Linux says."""
        return is_stopped(self.pid)

    def fileno(self) -> int:
        """The descriptor of the replies, so that `select` can watch several workers at once."""
        return self._replies

    def send(self, request: Request | None) -> None:
        """Send `request` (None: just listen) without waiting; the reply is read by `received`."""
        self._begun_s = self._clock()
        self._asked = request.name if request else ""
        if request is None:
            # One that exited while it started may have logged why already.
            return
        self._log_begin = self._log.stat().st_size
        self._oom_kills = oom_kill_count()
        # The end of a worker is seen when its replies are read, with its exit code.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, _line(request))

    def received(self) -> Reply | Ended | None:
        """Read what there is, once `select` says so; None while a reply is incomplete.

        An Ended at the end of the pipe, and for anything that is not a reply to the request; the
        process has ended then.
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
        """Kill a worker that answers something else; no later reply could be trusted."""
        waited_s = self._clock() - self._begun_s
        self.kill()
        return replace(self._ended(None, waited_s), refused=why)

    def timed_out(self) -> Ended:
        """Have the worker print its stack into the log, then kill it."""
        waited_s, stopped = self._clock() - self._begun_s, self.is_stopped
        os.kill(self.pid, signal.SIGUSR1)
        if not stopped:
            self._waited(STACK_GRACE_S)
        self.kill()
        return replace(self._ended(None, waited_s), stopped=stopped)

    def _gone(self) -> Ended:
        """The pipe is closed: the process is exiting, or must be killed.

        One that must be killed did not die by itself: it hung, and is not why others failed.
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
        """Whether the process exits by itself within `timeout_s`."""
        end_s = time.monotonic() + timeout_s
        while not self._over():
            if time.monotonic() > end_s:
                return False
            time.sleep(_LOOK_S)
        return True

    def _over(self) -> bool:
        """Whether the process has ended. It is not reaped, so that its id is not reused yet."""
        if sys.platform == "darwin" or self._process.returncode is not None:
            return self._process.poll() is not None
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, look) is not None

    def hang_up(self) -> None:
        """Close the pipes, at which the worker exits by itself; does not wait for it."""
        self._close_pipes()

    def close(self) -> bool:
        """Wait for the worker to exit, and kill it if it does not; whether it exited."""
        self._close_pipes()
        ended = self._waited(EXIT_GRACE_S)
        self.kill()
        return ended

    def interrupt(self) -> None:
        """Kill the process, from any thread; the thread that asks then sees its end."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the worker's whole process group, with what it started, and wait for the worker."""
        self._close_pipes()
        # The id of a process that was reaped may belong to another one.
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
