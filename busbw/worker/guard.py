"""Ties between this process and the machine: it dies with its parent, and before others.

Nothing here may need the interpreter lock later on: a framework can hold it for minutes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from pathlib import Path

from busbw.model import Device

PR_SET_PDEATHSIG = 1
POLL_S = 1.0


def tie_to_parent(parent: int) -> None:
    """End with the process `parent`, even by kill -9 and while the interpreter lock is held.

    Linux sends SIGKILL itself; elsewhere a thread looks once a second.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os._exit(1)


def offer_to_oom_killer(device: Device | None) -> None:
    """On the CPU, be the kernel's first choice when memory runs out, not the user's editor."""
    score = Path("/proc/self/oom_score_adj")
    if device is Device.CPU and score.exists():
        score.write_text("1000")


def answer_signals() -> None:
    """Print Python's stack on a crash, and on SIGUSR1, which the driver sends to a hung worker.

    Ctrl-C in the terminal is the driver's business alone.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
