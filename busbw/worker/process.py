"""Prepare a worker's process before a framework starts: its environment, its parent, its signals.

Back ends name in the protocol everything in this file that affects a time or a memory limit. Ending
with the parent must not need Python's interpreter lock, which a framework can hold for minutes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from pathlib import Path

from busbw.model import variables
from busbw.model.words import Device

# The threads of numpy's BLAS spin for tens of milliseconds after each matrix product, on the cores
# of the ranks. After busbw had checked the values of a training step, the next steps took up to
# twice as long (observed).
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_PR_SET_PDEATHSIG = 1


def prepare(device: Device | None) -> None:
    """Set the variables that all frameworks read."""
    os.environ.update(dict.fromkeys(_BLAS_THREADS, "1"))
    if device is Device.CPU:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def allocator() -> str:
    """Return the setting of the C library's allocator, as protocols name it."""
    return "hugepages" if variables.has_huge_pages(os.environ) else "malloc"


def flags() -> dict[str, str]:
    """Return the environment variables that are recorded."""
    return variables.recorded(os.environ, os.path.expanduser("~"))


def public(text: str) -> str:
    """Return `text` without secrets and home directories."""
    return variables.public(text, os.environ, os.path.expanduser("~"))


def tie_to_parent(parent: int) -> None:
    """End this process when its parent ends, even by kill -9 or while a library runs."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def offer_to_oom_killer(device: Device | None) -> None:
    """Have the kernel kill this process first when memory of the host runs out, not an editor."""
    score = Path("/proc/self/oom_score_adj")
    if device is Device.CPU and score.exists():
        score.write_text("1000")


def answer_signals() -> None:
    """Print all stacks on SIGUSR1, which the driver sends to a hung worker; ignore Ctrl-C.

    The driver alone handles Ctrl-C in the terminal.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
