"""JAX: `jax.lax.psum` and the other collectives of `jax.lax`."""

from __future__ import annotations

from busbw.model import DENSE

from .base import Framework

FRAMEWORK = Framework(
    name="jax",
    strategies=("default", "psum"),
    only_strategy="lax",
    steps=(DENSE,),
    ring="psum",
    extra="jax",
    compiles=True,
)
