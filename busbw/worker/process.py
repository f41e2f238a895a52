"""Prepares a worker's process before a framework starts: its environment variables and signals.

A setting of this module that affects times or limits of memory is a part of the protocol, so that
times with different settings are never compared. If the driver, which is the parent, ends, the
kernel ends the worker. A thread of Python could not end the worker, because a framework can hold
Python's interpreter lock for minutes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from pathlib import Path

from busbw.model import variables
from busbw.model.words import DeviceClass

# These variables limit numpy's BLAS library to a single thread. After each matrix product, other
# threads would keep the cores of the ranks busy for tens of milliseconds. After busbw had checked
# the values of a training step, the next steps took up to twice as long (observed).
_BLAS_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# The operation of prctl(2) that chooses the signal of a process whose parent ends.
_PR_SET_PDEATHSIG = 1


def set_framework_variables(device: DeviceClass | None) -> None:
    """Set this process's environment variables that frameworks read when they start.

    `device` is the class of device to measure, None for any class. If it is the CPU, frameworks do
    not see the GPUs.
    """
    os.environ.update(dict.fromkeys(_BLAS_THREAD_VARIABLES, "1"))
    if device is DeviceClass.CPU:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def allocator_setting() -> str:
    """Return the word that protocols have for the setting of the C library's memory allocator.

    The word is ``hugepages`` if the allocator uses huge pages, otherwise ``malloc``.
    """
    return "hugepages" if variables.has_huge_pages(os.environ) else "malloc"


def recorded_variables() -> dict[str, str]:
    """Return the environment variables that busbw records with its results, by name.

    Secrets and home directories are removed from the values.
    """
    return variables.recorded_variables(os.environ, os.path.expanduser("~"))


def remove_secrets(text: str) -> str:
    """Return `text` without secrets and home directories, so that the text can be published."""
    return variables.without_secrets(text, os.environ, os.path.expanduser("~"))


def end_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent process ends, for whatever reason.

    `parent_pid` is the process id of the parent. If the parent has ended already, end this process
    now.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def prepare_for_failures(device: DeviceClass | None) -> None:
    """Set what this worker process does if it hangs, or if the host's memory runs out.

    On SIGUSR1, which the driver sends to a worker that hangs, the process prints the stacks of all
    threads to stderr. The process ignores Ctrl-C (SIGINT), because only the driver handles Ctrl-C.
    `device` is the class of device to measure. On the CPU, the kernel kills this process before
    other processes if memory runs out. Cases on other devices take little memory of the host.
    """
    score = Path("/proc/self/oom_score_adj")
    if device is DeviceClass.CPU and score.exists():
        score.write_text("1000")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
