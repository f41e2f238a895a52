"""The collectives in JAX: each collective is a function with the collective's name.

Such a function takes the `values` of a rank, a flat array, and returns the result of the rank after
a collective along the `axes` of the mesh. `case` has further properties of the collective, such as
its reduction. JAX has different types for values that differ between ranks and for values that are
equal on all ranks. The result has the type of values that differ, as the argument has, because the
result of an iteration is the argument of the next iteration.
"""

from __future__ import annotations

from typing import Any

import jax

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case

from . import versions

# The width of a TPU's vector registers, in elements.
_ROW_ELEMENTS = 128


def all_gather(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Return the values of all ranks along `axes` as a flat array, one rank after the other.

    `case` is not used.
    """
    return jax.lax.all_gather(values, axes, tiled=True)


def all_reduce(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Return the sum, maximum or minimum of the values of all ranks along `axes`.

    `case.reduce_op` says which of these reductions is used. All these ranks have the same result.
    Nevertheless the result gets JAX's type for values that differ between ranks (`jax.lax.pcast`),
    so that the result can be the next input.
    """
    reduce = {"sum": jax.lax.psum, "max": jax.lax.pmax, "min": jax.lax.pmin}[case.reduce_op]
    return versions.type_as_varying(reduce(values, axes), axes)


def all_to_all(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Exchange a block between each two ranks along `axes`; return the blocks that this rank gets.

    The result is a flat array, with the blocks in the order of their senders. `case` is not used.
    """
    return jax.lax.all_to_all(values, axes, 0, 0, tiled=True)


def permute(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Send `values` to another rank along `axes`, and return the values that this rank gets.

    The collective of `case` says which rank sends to which rank, as pairs of positions (source,
    target).
    """
    pairs = COLLECTIVES[case.collective].source_target_pairs(case.group_size)
    return jax.lax.ppermute(values, axes, pairs)


def reduce_scatter(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Return this rank's block of the sum of the values of all ranks along `axes`.

    If a block is a whole number of rows of `_ROW_ELEMENTS` elements, `values` are first reshaped to
    such rows. For a flat array XLA for TPUs would compile an all-reduce and a slice instead.
    """
    has_whole_rows = values.size % (case.group_size * _ROW_ELEMENTS) == 0
    rows = values.reshape(-1, _ROW_ELEMENTS) if has_whole_rows else values
    return jax.lax.psum_scatter(rows, axes, tiled=True).reshape(-1)
