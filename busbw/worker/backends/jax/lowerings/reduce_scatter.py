"""Reduce-scatter in JAX: `psum_scatter`."""

from __future__ import annotations

from typing import Any

import jax

from busbw.model.case import Case

# The width of a TPU's vector registers, in elements.
_ROW = 128


def lower(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Scatter whole rows of the payload if it has whole rows.

    For a flat array XLA for TPUs makes an all-reduce and a slice.
    """
    has_whole_rows = values.size % (case.group_size * _ROW) == 0
    rows = values.reshape(-1, _ROW) if has_whole_rows else values
    return jax.lax.psum_scatter(rows, axes, tiled=True).reshape(-1)
