"""The collectives in JAX. Each is in a module with the collective's name.

Each module has a function ``run_collective(case, axes, values)``. It takes the `values` of a rank,
and returns the result of the rank after a collective along the `axes` of the mesh. JAX
distinguishes values that differ between ranks from values that are equal. The result has the type
of values that differ, as the argument has, because the result of an iteration is the argument of
the next iteration.
"""

from __future__ import annotations

import jax

from busbw.model.case import Case

from ... import load_module
from ...base import unavailable


def run_collective(case: Case, axes: tuple[str, ...], values: jax.Array) -> jax.Array:
    """Return the result of the collective of `case` on a rank.

    `axes` are the axes of the mesh along which the collective runs, and `values` the input of the
    rank. Raises MeasuringError UNAVAILABLE if there is no module for the collective.
    """
    module = load_module("jax", f"lowerings.{case.collective}")
    if module is None:
        raise unavailable(f"JAX has no {case.collective} here")
    result: jax.Array = module.run_collective(case, axes, values)
    return result
