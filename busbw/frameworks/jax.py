"""JAX: `jax.lax.psum` and the other collectives of `jax.lax`."""

from __future__ import annotations

from busbw.model.words import Capability
from busbw.model.workload import Framework

FRAMEWORK = Framework(
    name="jax",
    strategies=("default", "psum"),
    only_strategy="lax",
    ring="psum",
    extra="jax",
    packages=("jax", "libtpu"),
    oldest="0.5.0",
    compiles=True,
    shares_devices=True,
    environment={
        Capability.MEASURE: {
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "TPU_SKIP_MDS_QUERY": "1",
        },
        # Compilers only: no search for hardware, here or in a cloud's metadata.
        Capability.COMPILE: {
            "JAX_PLATFORMS": "cpu",
            "TPU_SKIP_MDS_QUERY": "1",
            "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
            # Several may compile at once: there is no chip to lock.
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "CUDA_VISIBLE_DEVICES": "-1",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        },
    },
)
