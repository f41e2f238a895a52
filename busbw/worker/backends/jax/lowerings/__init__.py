"""The collectives in JAX: each collective is in a module with the collective's name.

Each module has a function ``run_collective(case, axes, values)``. This function takes the `values`
of a rank, and returns the result of the rank after a collective along the `axes` of the mesh. JAX
has different types for values that differ between ranks and for values that are equal on all ranks.
The result has the type of values that differ, as the argument has, because the result of an
iteration is the argument of the next iteration.
"""

from __future__ import annotations

import jax

from busbw.model.case import Case

from ... import load_module
from ...base import unavailable


def run_collective(case: Case, axes: tuple[str, ...], values: jax.Array) -> jax.Array:
    """Run the collective of `case` on a rank by the collective's module, and return the result.

    `axes` are the names of the axes of the mesh along which the collective runs, and `values` is
    the input of the rank, a flat array. Raises MeasuringError UNAVAILABLE if no module has the name
    of the collective.
    """
    module = load_module("jax", f"lowerings.{case.collective}")
    if module is None:
        raise unavailable(f"JAX has no {case.collective} here")
    result: jax.Array = module.run_collective(case, axes, values)
    return result
