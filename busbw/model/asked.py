"""What the options ask for, before any hardware is known; and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass


class GridError(ValueError):
    """A selection that cannot be measured: an empty grid, a device that is not there."""


class NotHereError(GridError):
    """What the grid has for other machines than this one: no mistake, and nothing to measure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the options ask for. `named` frameworks must know some of it, others may drop out."""

    frameworks: tuple[str, ...]
    named: bool
    strategies: tuple[str, ...] = ("default",)
    collectives: tuple[str, ...] = ("all_reduce",)
    reduce_ops: tuple[str, ...] = ("sum",)
    placements: tuple[str, ...] = ("default",)
    dtypes: tuple[str, ...] = ("float32",)
    payloads: tuple[int, ...] = ()
    ranks: int | None = None
    mesh: str = ""
    axes: str = ""
    clock: str = "default"
