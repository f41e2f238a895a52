"""Environment variables that must stand before a framework, or the C library, starts.

What decides a time or a memory limit here is named in the protocol id by the back ends.
"""

from __future__ import annotations

import os
import sys

from busbw.model import Capability, Device, variables
from busbw.worker import huge_pages

# numpy's library for products keeps its threads spinning for tens of milliseconds after each, on
# the cores that ranks are on: after the values of a training step had been checked, the next steps
# took up to twice as long (seen).
_PRODUCTS_ON_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# Tells a worker which release of a compiler its library is of, where that cannot be looked up.
RELEASE = "BUSBW_COMPILER_RELEASE"


def prepare(device: Device | None, capability: Capability = Capability.MEASURE) -> None:
    """What holds for every framework; start this process anew if it has no huge pages."""
    os.environ.update(dict.fromkeys(_PRODUCTS_ON_ONE_THREAD, "1"))
    if capability is Capability.COMPILE:
        # The private folder that this process was started from, which is removed afterwards.
        os.environ.setdefault("TPU_LOG_DIR", os.path.join(sys.path[0], "tpu_logs"))
    if device is Device.CPU:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    huge_pages.ask_for()


def compiler_flags() -> dict[str, str]:
    """The variables of the environment that steer a compiler, as they stand: not to be written."""
    return variables.of_compilers(os.environ)


def allocator() -> str:
    """What the C library was told, as part of a protocol id."""
    return "hugepages" if huge_pages.are_asked_for() else "malloc"


def flags() -> dict[str, str]:
    """The variables of the environment that steer a framework, as they may be written down."""
    return variables.recorded(os.environ, os.path.expanduser("~"))
