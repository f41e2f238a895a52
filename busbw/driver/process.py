"""A worker's process on the host where it runs: starts it, feeds it, ends it. Nothing else does.

The Host of another machine has it, too. Only `ended` waits: `look` is called again and again.
Requests and replies go over two private pipes, stdout and stderr into a log file. The worker has a
session and process group of its own, so that Ctrl-C reaches its parent alone; it is killed
when the thread that started it ends, even while it is stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from busbw import wire
from busbw.model import variables

from . import logs, pids
from .folder import Folder
from .network import no_proxy

# How long it may take to print its stack, and to exit by itself.
STACK_GRACE_S = 1.0
EXIT_GRACE_S = 5.0

LOG_CHARACTERS = 4000
_LOG_BYTES = 2**20

_READ_AT_ONCE = 65536
_LOOK_S = 0.005

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
_OF_THIS_PYTHON = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")


@dataclass(frozen=True, kw_only=True)
class Order:
    """A worker to be started: by `python`, or by the interpreter of the process that starts it.

    `name` is that of its log; `arguments` say what it serves. Its environment is that of whoever
    starts it without `unset`, with `environment`, and with `defaults` for what neither has. It
    connects to the hosts `without_proxy` directly, whatever proxy that environment names.
    """

    name: str
    python: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    without_proxy: tuple[str, ...] = ()


def environment_of(order: Order, base: Mapping[str, str]) -> dict[str, str]:
    """`base`, changed as `order` says, with byte code enabled to import faster.

    An interpreter other than ours does not get our PYTHONPATH and PYTHONHOME, unless the order has
    one for it. An activated venv does no harm: it only changes PATH.
    """
    environment = dict(base)
    if order.python:
        for name in _OF_THIS_PYTHON:
            environment.pop(name, None)
    for name in order.unset:
        environment.pop(name, None)
    environment |= order.environment
    environment = {**order.defaults, **environment}
    environment |= no_proxy(environment, order.without_proxy)
    environment = variables.with_huge_pages(environment)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def command_of(order: Order, folder: Path, requests: int, replies: int) -> list[str]:
    command = [order.python or sys.executable, str(folder), *order.arguments]
    return [*command, f"--parent={os.getpid()}", f"--requests={requests}", f"--replies={replies}"]


def child(
    command: Sequence[str],
    streams: tuple[int, int, int],
    environment: Mapping[str, str],
    pipes: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own; it is killed when the calling thread ends.

    `streams` are its stdin, stdout and stderr; `pipes` are other descriptors that it inherits. A
    command that cannot be run says so on stderr and ends with exit code 127.
    """
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        tied_to(os.getpid(), command),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pipes,
        start_new_session=True,
        env=environment,
    )


def tied_to(parent: int, command: Sequence[str]) -> list[str]:
    """Return the command line that becomes `command` once the kernel is to kill it with `parent`.

    It ends instead if `parent` has ended before. Python would do the same in `preexec_fn`, between
    fork and exec, but then runs what libraries have registered for a fork: JAX raises a warning.
    """
    return [sys.executable, "-I", "-S", "-c", _TIED, str(parent), *command]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How a process ended. `by_itself`: nobody had to end it; `exit_code` < 0 for a signal.

    `log` is the end of what it wrote, and `reason` the line of it that says why the process ended.
    `oom_kills` is how many processes the kernel killed for memory since the last request, and
    `pids_max` a limit of processes and threads that was reached since then.
    """

    exit_code: int
    by_itself: bool = True
    log: str = ""
    reason: str = ""
    oom_kills: int = 0
    pids_max: int | None = None


class Process:
    """A process started as `order` says from what is in `folder`.

    Raises OSError where the system starts no more processes, ValueError for an environment that no
    process can have.
    """

    def __init__(
        self, order: Order, folder: Folder, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._kill_s: float | None = None
        self._by_itself = True
        self._log = folder.log_path(order.name)
        self._log_begin = self._log.stat().st_size if self._log.exists() else 0
        self._count_refusals()
        requests_out, self.requests = os.pipe()
        try:
            self.replies, replies_in = os.pipe()
        except OSError:
            # The descriptors are needed to remove the folder of the session.
            os.close(requests_out)
            os.close(self.requests)
            raise
        command = command_of(order, folder.path, requests_out, replies_in)
        try:
            # Temporary files of a worker that is killed are removed with the folder.
            own = {"TMPDIR": str(folder.temporary)}
            self._environment = {**environment_of(order, os.environ), **own}
            with self._log.open("ab") as log:
                self._process = child(
                    command,
                    (subprocess.DEVNULL, log.fileno(), log.fileno()),
                    self._environment,
                    (requests_out, replies_in),
                )
        except BaseException:
            self.close_pipes()
            raise
        finally:
            os.close(requests_out)
            os.close(replies_in)

    @property
    def pid(self) -> int:
        """The process id, which is that of its group, too."""
        return self._process.pid

    @property
    def is_stopped(self) -> bool:
        return is_stopped(self.pid)

    @property
    def is_ending(self) -> bool:
        return self._kill_s is not None

    def write(self, line: bytes) -> None:
        """Send the process a request; it is lost if the pipe has no room for it.

        Without a line the process is only watched. Its log is about this request from now on.
        """
        if not line or self.is_ending:
            # A process that exited while it started may have logged the reason already.
            return
        self._log_begin = self._log.stat().st_size
        self._count_refusals()
        # The end of a worker is seen when its replies are read, with its exit code. A worker that
        # does not read its requests does not reply in time.
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self.requests, line)

    def read(self) -> bytes:
        """What it has written as a reply, once `select` says so; empty at the end, which it has."""
        content = os.read(self.replies, _READ_AT_ONCE)
        if not content:
            self.end()
        return content

    def print_stack(self) -> None:
        """Into its log, and end it: one that is stopped prints none."""
        if not is_over(self._process):
            os.kill(self.pid, signal.SIGUSR1)
        self.end(0.0 if self.is_stopped else STACK_GRACE_S, by_itself=False)

    def close(self) -> None:
        """Close its channel, at which it exits by itself."""
        self.close_pipes()
        self.end()

    def end(self, grace_s: float | None = None, *, by_itself: bool = True) -> None:
        """Have `look` kill it unless it has ended within its grace, `by_itself` or not."""
        self._by_itself = self._by_itself and by_itself
        kill_s = self._clock() + (EXIT_GRACE_S if grace_s is None else grace_s)
        self._kill_s = kill_s if self._kill_s is None else min(kill_s, self._kill_s)

    def look(self) -> Exit | None:
        """Its end, once it is over; kills it when its grace is."""
        over = is_over(self._process)
        if not over and (self._kill_s is None or self._clock() < self._kill_s):
            return None
        self._by_itself = self._by_itself and over
        self.kill()
        log = log_text(self._log, self._log_begin, self._environment)
        return Exit(
            exit_code=self._process.returncode,
            by_itself=self._by_itself,
            log=logs.excerpt(log, LOG_CHARACTERS),
            reason=logs.reason(log),
            oom_kills=oom_kill_count() - self._oom_kills,
            pids_max=pids.least_limit() if pids.refused_count() > self._refused else None,
        )

    def _count_refusals(self) -> None:
        self._oom_kills, self._refused = oom_kill_count(), pids.refused_count()

    def ended(self) -> Exit:
        """Wait for its end, which is near: it was killed, or is to end."""
        while (found := self.look()) is None:
            time.sleep(_LOOK_S)
        return found

    def interrupt(self) -> None:
        """Kill it with what it started, from any thread; its end is seen by whoever waits."""
        # The id of a process that was reaped may belong to another one.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        self.close_pipes()
        self.interrupt()
        self._process.wait()

    def close_pipes(self) -> None:
        for descriptor in (self.requests, self.replies):
            if descriptor >= 0:
                os.close(descriptor)
        self.requests = self.replies = -1


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended. It is not reaped, so that its id is not reused yet."""
    if process.returncode is not None:
        return True
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, look) is not None


def is_stopped(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether a signal has stopped the process; False where the system does not say."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return False
    # The name before the state may hold anything, spaces and brackets too.
    return text.rpartition(")")[2].split()[:1] == ["T"]


def oom_kill_count(vmstat: Path = Path("/proc/vmstat")) -> int:
    """How many processes the kernel has killed for memory since it started; 0 where unknown."""
    if not vmstat.exists():
        return 0
    match = re.search(r"^oom_kill (\d+)$", vmstat.read_text(), flags=re.MULTILINE)
    return int(match[1]) if match else 0


def log_text(path: Path, begin: int, environment: Mapping[str, str] = os.environ) -> str:
    """Return the last MiB of a log from byte `begin` on, without what `text_of` leaves out."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - _LOG_BYTES))
        return text_of(file.read(), environment).strip()


def text_of(said: bytes, environment: Mapping[str, str]) -> str:
    """What a process said, as anybody may read it: no secret of its `environment`, no home."""
    text = said.decode(errors="replace")
    return wire.printable(variables.public(text, environment, os.path.expanduser("~")))
