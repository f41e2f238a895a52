"""Reduce-scatter in JAX: `psum_scatter`."""

from __future__ import annotations

from typing import Any

import jax

from busbw.model.case import Case

# The width of a TPU's vector registers, in elements.
_ROW = 128


def run_collective(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Return this rank's block of the sum of the values of all ranks along `axes`.

    If the length of the block is a multiple of `_ROW` elements, the values are reshaped to rows of
    this length first. For a flat array XLA for TPUs would compile an all-reduce and a slice
    instead.
    """
    has_whole_rows = values.size % (case.group_size * _ROW) == 0
    rows = values.reshape(-1, _ROW) if has_whole_rows else values
    return jax.lax.psum_scatter(rows, axes, tiled=True).reshape(-1)
