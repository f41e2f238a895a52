"""Permute in JAX: `ppermute`, by the collective's own pairs."""

from __future__ import annotations

from typing import Any

import jax

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case


def lower(case: Case, axes: tuple[str, ...], values: jax.Array) -> Any:
    pairs = COLLECTIVES[case.collective].pairs(case.group_size)
    return jax.lax.ppermute(values, axes, pairs)
