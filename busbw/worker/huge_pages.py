"""Big buffers on huge pages: a page fault per 2 MiB instead of one per 4 KiB.

So that an all-reduce is timed and not the kernel's page allocator. The C library reads its
tunables as a process starts, so that a worker starts anew for them: before it has imported
anything, which would be imported twice. Imports nothing of ours.
"""

from __future__ import annotations

import os
import sys

TUNABLE = "glibc.malloc.hugetlb=1"
_VARIABLE = "GLIBC_TUNABLES"


def ask_for() -> None:
    """Start this process anew unless the C library was told as it started; on Linux alone."""
    if sys.platform != "linux" or are_asked_for():
        return
    others = os.environ.get(_VARIABLE, "")
    os.environ[_VARIABLE] = f"{others}:{TUNABLE}" if others else TUNABLE
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def are_asked_for() -> bool:
    """Whether the C library was told."""
    return TUNABLE in os.environ.get(_VARIABLE, "")
