"""Permute in JAX: `ppermute`, with the pairs that the module of the collective defines."""

from __future__ import annotations

from typing import Any

import jax

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case


def run_collective(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    """Return the values of the rank along `axes` that sends its values to this rank.

    The collective of `case` defines the pairs of positions (source, target).
    """
    pairs = COLLECTIVES[case.collective].source_target_pairs(case.group_size)
    return jax.lax.ppermute(values, axes, pairs)
