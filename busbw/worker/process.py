"""A worker's process before a framework starts: environment, ties to its parent and machine.

Whatever here affects a time or a memory limit is named in the protocol id by the back ends. No tie
may need the interpreter lock later on: a framework can hold it for minutes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
from pathlib import Path

from busbw.model import variables
from busbw.model.words import Device

# numpy's BLAS keeps its threads spinning for tens of milliseconds after each product, on the cores
# of the ranks: after the values of a training step were checked, the next steps took up to twice as
# long (observed).
_PRODUCTS_ON_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_PR_SET_PDEATHSIG = 1


def prepare(device: Device | None) -> None:
    """Set what holds for every framework; restart this process if it has no huge pages."""
    os.environ.update(dict.fromkeys(_PRODUCTS_ON_ONE_THREAD, "1"))
    if device is Device.CPU:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    _restart_with_huge_pages()


def _restart_with_huge_pages() -> None:
    if variables.has_huge_pages(os.environ):
        return
    os.environ.update(variables.with_huge_pages(os.environ))
    if not variables.has_huge_pages(os.environ):
        raise AssertionError("a process without huge pages would restart without end")
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def allocator() -> str:
    """What the C library was told, as part of a protocol id."""
    return "hugepages" if variables.has_huge_pages(os.environ) else "malloc"


def flags() -> dict[str, str]:
    return variables.recorded(os.environ, os.path.expanduser("~"))


def public(text: str) -> str:
    return variables.public(text, os.environ, os.path.expanduser("~"))


def tie_to_parent(parent: int) -> None:
    """End this process when its parent ends, even by kill -9 or while a library is running."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def offer_to_oom_killer(device: Device | None) -> None:
    """On the CPU, have the kernel kill this process first when memory runs out, not an editor."""
    score = Path("/proc/self/oom_score_adj")
    if device is Device.CPU and score.exists():
        score.write_text("1000")


def answer_signals() -> None:
    """The driver sends SIGUSR1 to a hung worker; it alone handles Ctrl-C in the terminal."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
