"""How a worker can end without a reply, and the Failure that each ending is.

Told apart by how the process ended, by the kernel's count of processes killed for memory, and
by the end of the log.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from busbw.model import Failure, FailureKind, FoundBy, LaunchId

LOG_CHARACTERS = 4000
_LOG_BYTES = 2**20

# A framework that aborts or is hit by SIGSEGV after its allocator said so in the log.
_MEMORY_LAST_WORDS = re.compile(
    r"ran out of memory|[Oo]ut of memory|OOM when allocating|bad_alloc|Cannot allocate memory"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A worker that gave no reply: it hung until the deadline, or its process is over.

    `exit_code` is negative for a signal, as the operating system told; None for a hang, and where
    the worker was ended for what it answered: `refused` says why that is no reply.
    `oom_kills` is how many processes the kernel killed for memory meanwhile.
    """

    exit_code: int | None
    log: str
    oom_kills: int
    waited_s: float
    refused: str = ""


def failure_of(ended: Ended, launch: LaunchId, doing: str) -> Failure:
    """The Failure for the request under way; `doing` names it in the message."""
    kind, message, found = _classified(ended)
    return Failure(
        kind=kind,
        message=f"{message} while {doing}",
        launch=launch,
        exit_code=ended.exit_code,
        log=ended.log,
        found=found,
    )


def _classified(ended: Ended) -> tuple[FailureKind, str, FoundBy | None]:
    code = ended.exit_code
    if ended.refused:
        text = f"what the worker answered is no reply ({ended.refused})"
        return FailureKind.CRASHED, text, None
    if code is None:
        waited = f"{round(ended.waited_s, 1):g} s"
        return FailureKind.TIMEOUT, f"the worker did not answer within {waited}", None
    if code == -signal.SIGKILL:
        if ended.oom_kills:
            text = "the kernel killed the worker for memory"
            return FailureKind.OUT_OF_MEMORY, text, FoundBy.KILLED
        return FailureKind.KILLED, "the worker was killed (SIGKILL)", None
    if code != 0 and _MEMORY_LAST_WORDS.search(ended.log):
        return FailureKind.OUT_OF_MEMORY, "the framework ran out of memory and died", FoundBy.RAISED
    if code < 0:
        return FailureKind.CRASHED, f"the worker died of {_signal_name(-code)}", None
    return FailureKind.CRASHED, f"the worker ended with exit code {code}", None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def oom_kill_count(vmstat: Path = Path("/proc/vmstat")) -> int:
    """How many processes the kernel has killed for memory since it started; 0 where unknown."""
    if not vmstat.exists():
        return 0
    match = re.search(r"^oom_kill (\d+)$", vmstat.read_text(), flags=re.MULTILINE)
    return int(match[1]) if match else 0


def log_end(path: Path, begin: int) -> str:
    """The last characters of a log from byte `begin` on; the rest of it is not read."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - _LOG_BYTES))
        return file.read().decode(errors="replace").strip()[-LOG_CHARACTERS:]
