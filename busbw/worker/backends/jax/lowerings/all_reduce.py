"""All-reduce in JAX: `psum`, `pmax` and `pmin`."""

from __future__ import annotations

from typing import Any

import jax

from busbw.model.case import Case

from .. import versions


def run_collective(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Return the sum, maximum or minimum of the values of all ranks along `axes`.

    `case` says which of these reductions is used. The result has JAX's type for values that differ
    between ranks (`jax.lax.pcast`), as the input has, although all these ranks have the same
    result.
    """
    reduce = {"sum": jax.lax.psum, "max": jax.lax.pmax, "min": jax.lax.pmin}[case.reduce_op]
    return versions.type_as_varying(reduce(values, axes), axes)
