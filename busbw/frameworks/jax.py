"""The framework JAX: its all-reduce is `jax.lax.psum`, and it has the other collectives, too."""

from __future__ import annotations

from busbw.model.case import Framework

FRAMEWORK = Framework(
    name="jax",
    strategies=("default", "psum"),
    strategy_of_other_collectives="lax",
    pip_extra="jax",
    packages=("jax", "libtpu"),
    can_share_devices=True,
    environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TPU_SKIP_MDS_QUERY": "1"},
)
