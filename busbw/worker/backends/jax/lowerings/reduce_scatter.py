"""Reduce-scatter in JAX: `psum_scatter`."""

from __future__ import annotations

from typing import Any

import jax

from busbw.model.case import Case

# The width of a TPU's vector registers, in elements.
_ROW = 128


def lower(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """In rows, where blocks are whole rows; of a line a TPU makes an all-reduce and a slice."""
    whole = values.size % (case.group_size * _ROW) == 0
    rows = values.reshape(-1, _ROW) if whole else values
    return jax.lax.psum_scatter(rows, axes, tiled=True).reshape(-1)
