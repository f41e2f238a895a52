"""Environment variables that must stand before a framework, or the C library, starts.

What decides a time or a memory limit here is named in the protocol id by the back ends.
"""

from __future__ import annotations

import os
import sys

from busbw.model import Capability, Device, variables
from busbw.worker import huge_pages

# TensorFlow's CPU ring allocates its output anew each time. With oneDNN its allocator keeps the
# memory, as in everyday use; without, every all-reduce would fault its pages in again.
_VARIABLES = {
    ("jax", Capability.MEASURE): {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TPU_SKIP_MDS_QUERY": "1",
    },
    ("tensorflow", Capability.MEASURE): {
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    },
    # A server that is no more is an error at once, and not waited for until it comes back.
    ("tensorflow", Capability.PARAMETER_SERVER): {
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "GRPC_FAIL_FAST": "use_caller",
    },
    ("tensorflow", Capability.TRAIN): {
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "GRPC_FAIL_FAST": "use_caller",
    },
    # Compilers alone: no hardware is looked for, here or in a cloud's metadata.
    ("jax", Capability.COMPILE): {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        # Several may compile at once: there is no chip to be had by one alone.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    },
}

# numpy's library for products keeps its threads spinning for tens of milliseconds after each, on
# the cores that ranks are on: after the values of a training step had been checked, the next steps
# took up to twice as long (seen).
_PRODUCTS_ON_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# Tells a worker which release of a compiler its library is of, where that cannot be looked up.
RELEASE = "BUSBW_COMPILER_RELEASE"


def prepare(
    framework: str, device: Device | None, capability: Capability = Capability.MEASURE
) -> None:
    """Set what is not set yet; start this process anew if it has no huge pages."""
    for name, value in _VARIABLES.get((framework, capability), {}).items():
        os.environ.setdefault(name, value)
    os.environ.update(dict.fromkeys(_PRODUCTS_ON_ONE_THREAD, "1"))
    if (framework, capability) == ("jax", Capability.COMPILE):
        # The private folder that this process was started from, which is removed afterwards.
        os.environ.setdefault("TPU_LOG_DIR", os.path.join(sys.path[0], "tpu_logs"))
    if device is Device.CPU and framework == "jax":
        os.environ["JAX_PLATFORMS"] = "cpu"
    if device is Device.CPU:
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
