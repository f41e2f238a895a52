"""Find out why a worker ended, from the worker's exit code and log, and from limits of the host.

If a worker ended without a reply, the reason follows from the exit code, from the log, and from the
kernel's count of processes that it killed for lack of memory. A process that aborts logs the reason
first, and then addresses, the stacks of its threads and the names of its modules. So the last line
of its log does not have the reason. A worker can also fail because control groups (cgroups) limit
the number of processes and threads; both versions of control groups are read. In all functions
`root` is the root of the file system, whose folders `proc` and `sys` are read; tests pass another
folder.
"""

from __future__ import annotations

import contextlib
import functools
import re
import signal
from pathlib import Path

from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind, OutOfMemoryDetection

from .transport import WorkerExit


def refused_start_count(root: Path = Path("/")) -> int:
    """Return how often this process's cgroups have refused to start a process or a thread.

    The cgroups around these cgroups count, too. Returns 0 if the kernel does not count refusals.
    `root` is the root of the file system.
    """
    texts = (_read_text_or_empty(group / "pids.events") for group in _cgroup_folders(root))
    counts = [text.partition("max ")[2].partition("\n")[0] for text in texts]
    return sum(int(count) for count in counts if count.isdecimal())


def least_pids_limit(root: Path = Path("/")) -> int | None:
    """Return the smallest limit on the number of processes and threads in this process's cgroups.

    The cgroups around these cgroups count, too. Returns None if there is no limit. `root` is the
    root of the file system.
    """
    texts = (_read_text_or_empty(group / "pids.max").strip() for group in _cgroup_folders(root))
    return min((int(text) for text in texts if text.isdecimal()), default=None)


@functools.cache
def _cgroup_folders(root: Path) -> tuple[Path, ...]:
    """Return the folders of the cgroups that limit the number of processes of this process.

    The folder of an inner cgroup precedes the folder of the cgroup around it. In a container, the
    paths that the kernel reports may be paths on the host: such folders do not exist in the
    container, and are left out. The result is cached, because refusals are counted before each
    request to a worker.
    """
    lines = (
        line.split(":", 2) for line in _read_text_or_empty(root / "proc/self/cgroup").splitlines()
    )
    groups = (
        root / "sys/fs/cgroup" / controllers / path.lstrip("/")
        for _, controllers, path in lines
        if controllers in ("", "pids")
    )
    folders = (folder for group in groups for folder in (group, *group.parents))
    return tuple(folder for folder in folders if (folder / "pids.max").is_file())


def _read_text_or_empty(path: Path) -> str:
    """Return the text of a file, or an empty text if the file cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


MAX_REASON_CHARACTERS = 300

# The line that a library, the compiler, the C++ or C run time, or the loader writes when it ends a
# process. The first such line of a log has the cause; later ones are consequences.
_FATAL_LINE_PATTERN = re.compile(
    r"""
    ^F\d{4}\ [\d:.]+\ +\d+\ \S+\]       # Abseil: F1128 00:21:15.676642   26247 client.h:80] ...
    | ^[\d-]+\ [\d:.]+:\ F\ \S+\]       # TensorFlow: 2026-11-28 00:21:15.676642: F tensor.cc:1] ...
    | \bCheck\ failed:
    | \bLLVM\ ERROR:
    | \bDEADLINE_EXCEEDED\b
    | ^terminate\ called
    | \bAssertion\ .+\ failed\.
    | ^thread\ .+\ panicked\ at
    | ^fatal\ error:
    | ^(?:free|malloc|realloc|munmap_chunk)\(\):
    | ^(?:double\ free|corrupted\ |malloc_consolidate)
    | \*\*\*\ stack\ smashing\ detected
    | :\ error\ while\ loading\ shared\ libraries:
    | :\ symbol\ lookup\ error:
    """,
    re.VERBOSE,
)
_PYTHON_FATAL_PATTERN = re.compile(r"^Fatal Python error: ")
_TRACEBACK = "Traceback (most recent call last):\n"
_THREAD_LINE_PATTERN = re.compile(
    r"^(?:(?P<current>Current t)|T)hread 0x\w+ .*\(most recent call first\):$", re.MULTILINE
)
_FRAME_LINE_PATTERN = re.compile(
    r' *File "(?:.*/)?(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)'
)
# The date, the time and the thread at the beginning of a line differ between launches, so they are
# removed: equal reasons must be equal texts.
_LINE_PREFIX_PATTERN = re.compile(r"^(?:F\d{4} [\d:.]+ +\d+|[\d-]+ [\d:.]+: F) ")
# A framework whose allocator fails may abort or crash with SIGSEGV. The log of the framework then
# has such words.
_OUT_OF_MEMORY_PATTERN = re.compile(
    r"ran out of memory|[Oo]ut of memory|OOM when allocating|bad_alloc|Cannot allocate memory"
)


def failure_of_exit(worker_exit: WorkerExit, launch: LaunchId, activity: str) -> Failure:
    """Return the failure of the launch whose worker ended as `worker_exit` says.

    `activity` is the interrupted work, for the message of the failure, such as ``measuring CASE``.
    """
    kind, text, detected = _classify_exit(worker_exit)
    # The message on memory, on a signal from outside or on an invalid reply needs no reason from
    # the log.
    is_unexplained = (
        kind in (FailureKind.CRASHED, FailureKind.TIMEOUT) and not worker_exit.reply_error
    )
    reason = f": {worker_exit.reason}" if is_unexplained and worker_exit.reason else ""
    if is_unexplained and worker_exit.reached_pids_limit is not None:
        reason = (
            f"; pids.max ({worker_exit.reached_pids_limit} processes and threads) was "
            f"reached{reason}"
        )
    return Failure(
        kind=kind,
        message=f"{text} while {activity}{reason}",
        launch=launch,
        exit_code=worker_exit.exit_code,
        log=worker_exit.log,
        detected=detected,
    )


def _classify_exit(worker_exit: WorkerExit) -> tuple[FailureKind, str, OutOfMemoryDetection | None]:
    """Return the kind of the failure, its message, and how a lack of memory was detected.

    The last value is None if a lack of memory is not the cause.
    """
    code = worker_exit.exit_code
    if worker_exit.lost_host_text:
        return FailureKind.KILLED, worker_exit.lost_host_text, None
    if worker_exit.reply_error:
        return (
            FailureKind.CRASHED,
            f"the worker's reply is invalid ({worker_exit.reply_error})",
            None,
        )
    if code is None:
        reason = ", as a signal has stopped it," if worker_exit.is_suspended else ""
        text = f"the worker did not answer within {round(worker_exit.waited_s, 1):g} s{reason}"
        return FailureKind.TIMEOUT, text, None
    if code == -signal.SIGKILL and worker_exit.oom_kills:
        return (
            FailureKind.OUT_OF_MEMORY,
            "the kernel killed the worker for memory",
            OutOfMemoryDetection.KILLED,
        )
    if code == -signal.SIGKILL:
        return FailureKind.KILLED, "the worker was killed (SIGKILL)", None
    if code != 0 and _OUT_OF_MEMORY_PATTERN.search(f"{worker_exit.reason}\n{worker_exit.log}"):
        return (
            FailureKind.OUT_OF_MEMORY,
            "the framework ran out of memory and died",
            OutOfMemoryDetection.RAISED,
        )
    if code < 0:
        names = {member.value: member.name for member in signal.Signals}
        name = names.get(-code, f"signal {-code}")
        return FailureKind.CRASHED, f"the worker died of {name}", None
    return FailureKind.CRASHED, f"the worker ended with exit code {code}", None


def reason_in_log(log: str) -> str:
    """Return the line of `log` that says why its process ended, empty for an empty log.

    The line is, in this order of preference, the first line of a fatal error, the exception of the
    last traceback, the function that Python's current thread was running, or the last line. If the
    line has more than MAX_REASON_CHARACTERS characters, `` ... `` replaces its middle.
    """
    line = _LINE_PREFIX_PATTERN.sub("", _reason_line(log)).strip()
    half = MAX_REASON_CHARACTERS // 2
    return line if len(line) <= MAX_REASON_CHARACTERS else f"{line[:half]} ... {line[-half:]}"


def _reason_line(log: str) -> str:
    if fatal := _first_matching_line(_FATAL_LINE_PATTERN, log):
        return fatal
    _, is_traceback, frames = log.rpartition(_TRACEBACK)
    # The lines on the frames of a traceback are indented; the line of the exception is not.
    raised = [line for line in frames.splitlines() if line.strip() and not line.startswith(" ")]
    if is_traceback and raised:
        return raised[0]
    place = _innermost_call(log)
    if fatal := _first_matching_line(_PYTHON_FATAL_PATTERN, log):
        return f"{fatal} {place}"
    return place or log.strip().rpartition("\n")[2]


def _first_matching_line(pattern: re.Pattern[str], log: str) -> str:
    return next((line for line in log.splitlines() if pattern.search(line)), "")


def _innermost_call(log: str) -> str:
    """Return the function that the current thread was running, such as ``in wait (a.py, line 12)``.

    The function is read from a stack of calls that Python's faulthandler printed into `log`. The
    text is empty if the log has no such stack.
    """
    threads = list(_THREAD_LINE_PATTERN.finditer(log))
    if not threads:
        return ""
    current = next((thread for thread in threads if thread["current"]), threads[-1])
    frame = _FRAME_LINE_PATTERN.match(log, current.end() + 1)
    return f"in {frame['function']} ({frame['file']}, line {frame['line']})" if frame else ""
