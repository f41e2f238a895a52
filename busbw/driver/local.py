"""Start worker processes on this host, lock this machine for a session, and find free ports.

A worker takes requests and sends replies over a private socket, and writes stdout and stderr into a
log file. A worker has a session and a process group of its own, so that Ctrl-C in the terminal
reaches only the process that started the worker. The kernel kills a worker when the thread that
started it ends, even while a signal has stopped the worker.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from busbw import storage, wire
from busbw.model import variables
from busbw.model.launch import LaunchId
from busbw.model.machine import GroupMember, ProcessGroupSize, group_members

from . import logs
from .bundle import Bundle, PrivateFolder
from .transport import EndMethod, HostError, Transport, Worker, WorkerExit, WorkerSpec

# How long a worker may take to print its stack before it is killed, and to exit by itself.
STACK_TRACE_GRACE_S = 1.0
EXIT_GRACE_S = 5.0

MAX_LOG_CHARACTERS = 4000
_MAX_LOG_BYTES = 2**20

_READ_BYTES = 65536

# The program asks the kernel to kill its process when the parent's thread ends, and then becomes
# the command in its arguments. Python ignores SIGPIPE and SIGXFSZ when it starts, and the command
# would inherit this, so both signals are reset.
_CHILD_CODE = """
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

# With these variables another interpreter would import packages of this one before its own.
_INTERPRETER_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")

# Variables that name hosts to which gRPC connects without a proxy. gRPC reads the first of them
# that is set.
_PROXY_EXCEPTIONS = ("no_grpc_proxy", "no_proxy", "NO_PROXY")

_CONNECT_TIMEOUT_S = 1.0

_REMEDIES = {
    errno.ENETUNREACH: "this network namespace has no loopback interface that is up "
    "(ip link set lo up)",
    errno.EADDRNOTAVAIL: "no network interface of this host has that address",
}


def worker_environment(
    worker_spec: WorkerSpec,
    inherited_variables: Mapping[str, str],
    member: GroupMember | None = None,
) -> dict[str, str]:
    """Return a worker's environment: `inherited_variables` with the changes of `worker_spec`.

    PYTHONDONTWRITEBYTECODE is left out, so that the next worker starts faster. PYTHONPATH and
    PYTHONHOME are left out if the worker has another interpreter than this process. A `member` of a
    group gets a variable to connect to its group without a proxy; None means a single process.
    """
    is_foreign = worker_spec.python not in ("", sys.executable)
    removed = {*worker_spec.unset_variables, *(_INTERPRETER_VARIABLES if is_foreign else ())}
    kept = {name: value for name, value in inherited_variables.items() if name not in removed}
    environment = {**worker_spec.default_variables, **kept, **worker_spec.environment}
    environment |= proxy_bypass_variables(
        environment, member.host_names if member is not None else ()
    )
    environment = variables.with_huge_pages(environment)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def proxy_bypass_variables(environment: Mapping[str, str], hosts: Sequence[str]) -> dict[str, str]:
    """Return a dictionary with the variable that makes gRPC connect to `hosts` without a proxy.

    The processes of a group connect by gRPC, which would use the proxy of `http_proxy` even for the
    loopback interface. The value of the variable lists `hosts` and the hosts that `environment`
    already excludes from the proxy. The dictionary is empty if `hosts` is empty.
    """
    listed = [environment[name] for name in _PROXY_EXCEPTIONS if environment.get(name)]
    return {_PROXY_EXCEPTIONS[0]: ",".join([*listed[:1], *hosts])} if hosts else {}


def start_child(
    command: Sequence[str],
    streams: tuple[int, int, int],
    environment: Mapping[str, str],
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process and return it. The kernel kills the process when the calling thread ends.

    The process has a session (setsid) and a process group of its own. If the command cannot be run,
    the process writes the reason to stderr and ends with exit code 127.

    Args:
        command: The program and its arguments.
        streams: The file descriptors of the stdin, stdout and stderr of the process.
        environment: All environment variables of the process.
        descriptors: Further file descriptors that the process inherits.

    """
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        command_tied_to_parent(os.getpid(), command),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=descriptors,
        start_new_session=True,
        env=environment,
    )


def command_tied_to_parent(parent_pid: int, command: Sequence[str]) -> list[str]:
    """Return a command line that runs `command` in a process that ends when its parent ends.

    `parent_pid` is the process id of the parent. The kernel kills the process when the thread that
    started the process ends. If the parent has already ended, the process exits with code 1. A
    `preexec_fn` of `subprocess` would have the same effect. But Python would then also run the
    functions that libraries register for a fork, and JAX's function prints a warning.
    """
    return [sys.executable, "-I", "-S", "-c", _CHILD_CODE, str(parent_pid), *command]


class LocalWorker(Worker):
    """A worker process on this host, which the constructor starts as `worker_spec` says.

    The process runs the copy of busbw in `folder`. `member` has the index of the process in its
    group and the addresses of the group; None means a single process. The constructor raises
    OSError if the system cannot start a process, and ValueError for environment variables that no
    process can have, such as a name with ``=``.
    """

    def __init__(
        self,
        worker_spec: WorkerSpec,
        folder: PrivateFolder,
        launch: LaunchId,
        member: GroupMember | None = None,
    ) -> None:
        super().__init__(launch)
        self._kill_at_s = math.inf
        self._is_hung = False
        self._exit: WorkerExit | None = None
        self._log = folder.path / f"{launch}.{worker_spec.framework}.log"
        self._log.touch()
        self._remember_log_size_and_kernel_counts()
        # Temporary files of a worker that is killed are removed with the folder.
        temporary = {"TMPDIR": str(folder.temporary_folder)}
        self._environment = {**worker_environment(worker_spec, os.environ, member), **temporary}
        self._socket, worker_socket = socket.socketpair()
        options = {
            "framework": worker_spec.framework,
            "service": worker_spec.service,
            "device": worker_spec.device or None,
            "ranks": worker_spec.ranks,
            "member": json.dumps(wire.to_json(member)) if member is not None else None,
            "launch": launch,
            "parent": os.getpid(),
            "socket": worker_socket.fileno(),
        }
        arguments = [f"--{name}={value}" for name, value in options.items() if value is not None]
        try:
            with worker_socket, self._log.open("ab") as log:
                self._process = start_child(
                    [worker_spec.python or sys.executable, str(folder.path), *arguments],
                    (subprocess.DEVNULL, log.fileno(), log.fileno()),
                    self._environment,
                    (worker_socket.fileno(),),
                )
        except BaseException:
            self._socket.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the process, which is also the id of its process group."""
        return self._process.pid

    @property
    def is_suspended(self) -> bool:
        # Without the file, the process has ended and was waited for.
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{self.pid}/stat").read_text()
            # The program's name, which precedes the state, may contain spaces and parentheses.
            return text.rpartition(")")[2].split()[0] == "T"
        return False

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, line: bytes) -> None:
        # While the worker is ending, its log may already have the reason for its end, which must
        # not be skipped.
        if self._kill_at_s == math.inf:
            self._remember_log_size_and_kernel_counts()
            # No error is raised here: `read` notices the end of a worker, with its exit code, and a
            # worker that does not read its requests does not reply in time.
            with contextlib.suppress(ConnectionError, BlockingIOError):
                self._socket.send(line, socket.MSG_DONTWAIT)

    def read(self) -> bytes:
        # A worker that ends before it reads its request resets the connection.
        with contextlib.suppress(ConnectionResetError):
            return self._socket.recv(_READ_BYTES)
        return b""

    def request_end(self, ending: EndMethod) -> None:
        grace_s = EXIT_GRACE_S
        if ending is EndMethod.STACK:
            self._is_hung = True
            # A stopped process prints no stack.
            grace_s = 0.0 if self.is_suspended else STACK_TRACE_GRACE_S
        self._kill_at_s = min(self._kill_at_s, time.monotonic() + grace_s)
        if ending is EndMethod.STACK:
            self._process.send_signal(signal.SIGUSR1)
        elif ending is EndMethod.KILL:
            # `wait` kills the processes that the worker has started.
            self._process.kill()
        # The worker exits by itself when its requests end.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def wait(self) -> WorkerExit:
        if self._exit is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, self._kill_at_s - time.monotonic()))
            self._is_hung = self._is_hung or self._process.returncode is None
            self._exit = self._kill_and_reap()
        return self._exit

    def _kill_and_reap(self) -> WorkerExit:
        """Kill the worker and the processes that it started; return how the worker ended."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        log = public_log_text(self._log, self._log_start_byte, self._environment)
        return WorkerExit(
            exit_code=None if self._is_hung else code,
            log=log[-MAX_LOG_CHARACTERS:],
            reason=logs.reason_in_log(log),
            oom_kills=oom_kill_count() - self._oom_kills,
            reached_pids_limit=logs.least_pids_limit()
            if logs.refused_start_count() > self._refused_count
            else None,
        )

    def _remember_log_size_and_kernel_counts(self) -> None:
        """Store the present size of the log and the present counts of the kernel.

        A WorkerExit contains only what was logged and counted after this call.
        """
        self._log_start_byte = self._log.stat().st_size
        self._oom_kills, self._refused_count = oom_kill_count(), logs.refused_start_count()


def oom_kill_count(vmstat_path: Path = Path("/proc/vmstat")) -> int:
    """Return the number of processes that the kernel killed for lack of memory since it booted.

    The number is read from the file `vmstat_path`; 0 if the file has no such number.
    """
    if not vmstat_path.exists():
        return 0
    count = vmstat_path.read_text().partition("\noom_kill ")[2].partition("\n")[0]
    return int(count or 0)


def public_log_text(
    path: Path, begin_byte: int, environment: Mapping[str, str] = os.environ
) -> str:
    """Return the text of the log `path` from the byte `begin_byte` on, at most its last MiB.

    The text can be published: ``~`` replaces the home directory, and ``***`` replaces the secrets
    in `environment`, which are the variables of the process that wrote the log.
    """
    with path.open("rb") as file:
        file.seek(max(begin_byte, file.seek(0, os.SEEK_END) - _MAX_LOG_BYTES))
        text = file.read().decode(errors="replace")
    return wire.escape_unprintable(
        variables.without_secrets(text, environment, os.path.expanduser("~"))
    ).strip()


def lock_this_machine(
    wait_s: float, on_wait: Callable[[str], None] = lambda holder: None
) -> contextlib.ExitStack:
    """Keep other sessions from measuring on this machine until the returned ExitStack is closed.

    If another session is measuring, `on_wait` is called before waiting, with a text on the other
    process, such as ``pid 1234, started 2026-11-20 03:12:08``. Raises HostError if the other
    session still measures after `wait_s` seconds, or if the lock file cannot be used.
    """
    try:
        return storage.lock_machine(wait_s, on_wait)
    except storage.LockedError as error:
        raise HostError(
            f"another session has been measuring on this machine for {wait_s:g} s ({error})"
        ) from error
    except OSError as error:
        raise HostError(f"the machine cannot be locked: {storage.error_text(error)}") from error


class LocalTransport(Transport):
    """A transport that starts workers on this host, with the copy of busbw in `bundle`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def group_members(self, process_group: ProcessGroupSize) -> tuple[GroupMember, ...]:
        return group_members(
            process_group, find_free_addresses(process_group.processes, "127.0.0.1")
        )

    def start(
        self, worker_spec: WorkerSpec, launch: LaunchId, member: GroupMember | None
    ) -> Worker:
        try:
            return LocalWorker(worker_spec, self._bundle, launch, member)
        except OSError as error:
            limit = logs.least_pids_limit()
            most = "" if limit is None else f"; pids.max is {limit}"
            raise HostError(
                f"a worker cannot be started on this host ({error.strerror}){most}"
            ) from error


def find_free_addresses(count: int, host: str) -> list[str]:
    """Return `count` addresses of this host, each with a TCP port on which no process listens.

    `host` is the address at which the members of a group connect. Another process may take a port
    before a member listens on that port. Raises HostError if a connection to the address fails: a
    framework would try for minutes, and print no reason.
    """
    with contextlib.ExitStack() as stack:
        try:
            listeners = [
                stack.enter_context(
                    socket.create_server(
                        (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
                    )
                )
                for _ in range(count + 1)
            ]
            ports = [listener.getsockname()[1] for listener in listeners]
            # The connection uses an additional port, because no process can listen for a while on
            # the port of a connection that has ended.
            stack.enter_context(socket.create_connection((host, ports.pop()), _CONNECT_TIMEOUT_S))
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "let its firewall accept its own connections")
            raise HostError(
                f"processes on this host cannot connect to each other at {host} "
                f"({error.strerror or error}): {remedy}"
            ) from error
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for port in ports]
