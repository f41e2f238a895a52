"""What runs on this host: workers, the lock for one session at a time, and free ports.

Requests and replies go over a private socket, stdout and stderr into a log file. A worker has a
session and process group of its own, so that Ctrl-C reaches its parent alone; it is killed when the
thread that started it ends, even while it is stopped.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from busbw import storage, wire
from busbw.model import variables
from busbw.model.cluster import Cluster, ClusterMember, members_of
from busbw.model.launch import LaunchId

from . import logs, pids
from .bundle import Bundle, Folder
from .transport import Ending, Exit, HostError, Hosts, Starter, Transport, Worker

# How long a worker may take to print its stack, and to exit by itself.
STACK_GRACE_S = 1.0
EXIT_GRACE_S = 5.0

LOG_CHARACTERS = 4000
_LOG_BYTES = 2**20

_READ_BYTES = 65536

# Python ignores SIGPIPE and SIGXFSZ as it starts, and the command would inherit that. Without
# site-packages the program takes 16 ms.
_TIED = """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(parent):
    sys.exit(1)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
try:
    os.execvp(command[0], command)
except OSError as error:
    print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)
    sys.exit(127)
"""

# Another interpreter would import the packages of ours before its own.
_INTERPRETER_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")

# Hosts to which gRPC connects without a proxy: the first that is set counts.
_WITHOUT_PROXY = ("no_grpc_proxy", "no_proxy", "NO_PROXY")

_CONNECT_S = 1.0

_REMEDIES = {
    errno.ENETUNREACH: "this network namespace has no loopback interface that is up "
    "(ip link set lo up)",
    errno.EADDRNOTAVAIL: "no network interface of this host has that address",
}


def environment_of(
    starter: Starter, base: Mapping[str, str], member: ClusterMember | None = None
) -> dict[str, str]:
    """Return `base`, changed as `starter` says, with byte code enabled to import faster.

    An interpreter other than ours does not get our PYTHONPATH and PYTHONHOME, unless the starter
    sets them. An activated venv does no harm: it only changes PATH. A member of a group connects to
    the hosts of the group without a proxy.
    """
    is_foreign = starter.python not in ("", sys.executable)
    removed = {*starter.unset, *(_INTERPRETER_VARIABLES if is_foreign else ())}
    kept = {name: value for name, value in base.items() if name not in removed}
    environment = {**starter.defaults, **kept, **starter.environment}
    environment |= without_proxy(environment, member.host_names if member is not None else ())
    environment = variables.with_huge_pages(environment)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def without_proxy(environment: Mapping[str, str], hosts: Sequence[str]) -> dict[str, str]:
    """Return the variable with which gRPC in `environment` connects to `hosts` directly.

    The processes of a group find each other by gRPC, which would connect even to the loopback
    through `http_proxy`. Hosts that the user has listed stay listed.
    """
    listed = [environment[name] for name in _WITHOUT_PROXY if environment.get(name)]
    return {_WITHOUT_PROXY[0]: ",".join([*listed[:1], *hosts])} if hosts else {}


def child(
    command: Sequence[str],
    streams: tuple[int, int, int],
    environment: Mapping[str, str],
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own; it is killed when the calling thread ends.

    `streams` are its stdin, stdout and stderr; it inherits `descriptors` too. A command that cannot
    be run says so on stderr and ends with exit code 127.
    """
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        tied_to(os.getpid(), command),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=descriptors,
        start_new_session=True,
        env=environment,
    )


def tied_to(parent: int, command: Sequence[str]) -> list[str]:
    """Return the command line that becomes `command` once the kernel is to kill it with `parent`.

    It ends instead if `parent` has ended before. Python would do the same in `preexec_fn`, between
    fork and exec, but then runs what libraries have registered for a fork: JAX raises a warning.
    """
    return [sys.executable, "-I", "-S", "-c", _TIED, str(parent), *command]


class LocalWorker(Worker):
    """A process of this host, started as `starter` says from the files in `folder`.

    Raises OSError where the system starts no more processes, ValueError for an environment that no
    process can have.
    """

    def __init__(
        self,
        starter: Starter,
        folder: Folder,
        launch: LaunchId,
        member: ClusterMember | None = None,
    ) -> None:
        super().__init__(launch)
        self._kill_s = math.inf
        self._is_hung = False
        self._exit: Exit | None = None
        self._log = folder.log_path(f"{launch}.{starter.framework}")
        self._log.touch()
        self._begin_log()
        # Temporary files of a worker that is killed are removed with the folder.
        temporary = {"TMPDIR": str(folder.temporary)}
        self._environment = {**environment_of(starter, os.environ, member), **temporary}
        self._socket, worker_socket = socket.socketpair()
        descriptor = worker_socket.fileno()
        try:
            with worker_socket, self._log.open("ab") as log:
                self._process = child(
                    _command_of(starter, folder, launch, member, descriptor),
                    (subprocess.DEVNULL, log.fileno(), log.fileno()),
                    self._environment,
                    (descriptor,),
                )
        except BaseException:
            self._socket.close()
            raise

    @property
    def pid(self) -> int:
        """The process id, which is that of the process group, too."""
        return self._process.pid

    @property
    def is_stopped(self) -> bool:
        # No file: the process was reaped.
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{self.pid}/stat").read_text()
            # The name before the state may hold any character, spaces and brackets too.
            return text.rpartition(")")[2].split()[0] == "T"
        return False

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, line: bytes) -> None:
        # Else the log has the reason of the end already.
        if self._kill_s == math.inf:
            self._begin_log()
            # The end of a worker is seen when its replies are read, with its exit code. A worker
            # that does not read its requests does not reply in time.
            with contextlib.suppress(ConnectionError, BlockingIOError):
                self._socket.send(line, socket.MSG_DONTWAIT)

    def read(self) -> bytes:
        # Reset by a worker that ended before it read its request.
        with contextlib.suppress(ConnectionResetError):
            return self._socket.recv(_READ_BYTES)
        return b""

    def end(self, ending: Ending) -> None:
        grace_s = EXIT_GRACE_S
        if ending is Ending.STACK:
            self._is_hung = True
            # A stopped process prints no stack.
            grace_s = 0.0 if self.is_stopped else STACK_GRACE_S
        self._kill_s = min(self._kill_s, time.monotonic() + grace_s)
        if ending is Ending.STACK:
            self._signal(os.kill, signal.SIGUSR1)
        elif ending is Ending.KILL:
            self._signal(os.killpg, signal.SIGKILL)
        # At the end of its requests the worker exits by itself.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def wait(self) -> Exit:
        if self._exit is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, self._kill_s - time.monotonic()))
            self._is_hung = self._is_hung or self._process.returncode is None
            self._exit = self._reap()
        return self._exit

    def _reap(self) -> Exit:
        """Kill what the process started, and the process itself if it is left."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        log = log_text(self._log, self._log_begin, self._environment)
        return Exit(
            exit_code=None if self._is_hung else code,
            log=log[-LOG_CHARACTERS:],
            reason=logs.reason(log),
            oom_kills=oom_kill_count() - self._oom_kills,
            pids_max=pids.least_limit() if pids.refused_count() > self._refused else None,
        )

    def _signal(self, send: Callable[[int, int], None], number: signal.Signals) -> None:
        # The id of a process that was reaped may belong to another process.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                send(self.pid, number)

    def _begin_log(self) -> None:
        """Have the log, and the kernel's counts, be about what follows."""
        self._log_begin = self._log.stat().st_size
        self._oom_kills, self._refused = oom_kill_count(), pids.refused_count()


def _command_of(
    starter: Starter,
    folder: Folder,
    launch: LaunchId,
    member: ClusterMember | None,
    descriptor: int,
) -> list[str]:
    options = {
        "framework": starter.framework,
        "service": starter.service,
        "device": starter.device,
        "ranks": starter.ranks,
        "member": json.dumps(wire.to_json(member)) if member is not None else None,
        "launch": launch,
        "parent": os.getpid(),
        "socket": descriptor,
    }
    arguments = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return [starter.python or sys.executable, str(folder.path), *arguments]


def oom_kill_count(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Count the processes that the kernel killed for memory since it started; 0 if unknown."""
    if not vmstat.exists():
        return 0
    counts = dict(line.split() for line in vmstat.read_text().splitlines())
    return int(counts.get("oom_kill", 0))


def log_text(path: Path, begin: int, environment: Mapping[str, str] = os.environ) -> str:
    """Return the last MiB of a log from byte `begin` on, as anybody may read it.

    It has no secret of the `environment` of the process that wrote it, and no home directory.
    """
    with path.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - _LOG_BYTES))
        text = file.read().decode(errors="replace")
    return wire.printable(variables.public(text, environment, os.path.expanduser("~"))).strip()


@contextlib.contextmanager
def alone(wait_s: float, on_wait: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Lock this machine; `on_wait` gets the holder of the lock, such as ``pid 1234, ...``.

    Raises HostError where another session measured until `wait_s` was over, or where nothing can
    rule that out.
    """
    try:
        lock = storage.machine_lock(wait_s, on_wait)
    except storage.LockedError as error:
        raise HostError(
            f"another session has been measuring on this machine for {wait_s:g} s ({error})"
        ) from error
    except OSError as error:
        raise HostError(f"the machine cannot be locked: {storage.error_text(error)}") from error
    with lock:
        yield


class LocalTransport(Transport):
    """Workers on this host, started from the `bundle`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        ports = free_ports(cluster.processes, "127.0.0.1", socket.AF_INET)
        return members_of(cluster, (f"127.0.0.1:{port}" for port in ports))

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        try:
            return LocalWorker(starter, self._bundle, launch, member)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # The session says how to raise the limit on open files.
                raise
            limit = pids.least_limit()
            most = "" if limit is None else f"; pids.max is {limit}"
            text = f"a worker cannot be started on this host ({error.strerror}){most}"
            raise HostError(text) from error


def transport_of(hosts: Hosts | None, bundle: Bundle) -> Transport:
    """Return the transport that starts workers on `hosts`, or on this host without any."""
    return LocalTransport(bundle) if hosts is None else hosts.transport(bundle)


def free_ports(count: int, host: str, family: socket.AddressFamily) -> tuple[int, ...]:
    """Return ports of `host` for the members of a group; they are not reserved.

    Raises HostError where members could not connect to each other: a framework would try for
    minutes, and not say why.
    """
    with contextlib.ExitStack() as stack:
        try:
            listeners = [
                stack.enter_context(socket.create_server((host, 0), family=family))
                for _ in range(count + 1)
            ]
            ports = [listener.getsockname()[1] for listener in listeners]
            # No member has the port that was connected to.
            stack.enter_context(socket.create_connection((host, ports.pop()), _CONNECT_S))
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "let its firewall accept its own connections")
            raise HostError(
                f"processes on this host cannot connect to each other at {host} "
                f"({error.strerror or error}): {remedy}"
            ) from error
        return tuple(ports)
