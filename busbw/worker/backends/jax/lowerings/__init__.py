"""The collectives in JAX, one file each, found by the name of the collective.

Each file has a function ``lower(case, axes, values)``. It returns the result of a rank for its
`values`, along the mesh's `axes`, with the type of values that differ between ranks: the loop needs
the type of its argument.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

import jax

from busbw.model.case import Case

from ...base import unavailable


def lower(case: Case, axes: tuple[str, ...], values: jax.Array) -> jax.Array:
    """Return the result of the case's collective.

    Raises MeasuringError UNAVAILABLE if there is no file for it.
    """
    if importlib.util.find_spec(f"{__name__}.{case.collective}") is None:
        raise unavailable(f"JAX has no {case.collective} here")
    module = importlib.import_module(f"{__name__}.{case.collective}")
    lower_collective: Callable[..., jax.Array] = module.lower
    return lower_collective(case, axes, values)
