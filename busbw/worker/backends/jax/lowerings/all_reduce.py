"""All-reduce in JAX: `psum`, `pmax` and `pmin`."""

from __future__ import annotations

from typing import Any

import jax

from busbw.model.case import Case

from .. import versions


def lower(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Return the reduced values, without the type of values that are equal on all ranks."""
    reduce = {"sum": jax.lax.psum, "max": jax.lax.pmax, "min": jax.lax.pmin}[case.reduce_op]
    return versions.varying(reduce(values, axes), axes)
