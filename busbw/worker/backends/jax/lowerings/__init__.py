"""The collectives in JAX: a file each, found by the collective's name.

Each has one function, ``lower(case, axes, values)``: what a rank gets for its `values`, along the
mesh's `axes`, typed as if ranks differed, since a loop wants what it gave.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

import jax

from busbw.model.case import Case

from ...base import unavailable


def lower(case: Case, axes: tuple[str, ...], values: jax.Array) -> jax.Array:
    """The collective of `case`. Raises MeasuringError UNAVAILABLE for one that has no file here."""
    if importlib.util.find_spec(f"{__name__}.{case.collective}") is None:
        raise unavailable(f"JAX has no {case.collective} here")
    one: Callable[..., jax.Array] = importlib.import_module(f"{__name__}.{case.collective}").lower
    return one(case, axes, values)
