"""What no Case, key, time or date can be: for those who read one that somebody else wrote.

A value that is made here needs no check. Beyond these limits formulas overflow and lists of ranks
fill the memory. Each check raises ValueError whose message begins with the field.
"""

from __future__ import annotations

import datetime
import math

from .case import Case
from .compiled import Compiled
from .machine import EnvironmentKey
from .mesh import AXES, extents_of

MOST_RANKS = 1_000_000
MOST_BYTES = 10**15
# No clock is finer than the one; the other is a session of eleven days.
LEAST_S, MOST_S = 1e-12, 1e6

_LONGEST_MESH = 60


def check_case(case: Case) -> None:
    """Ranks, payload, mesh and axes are some that can be measured."""
    _check_count("payload_bytes", case.payload_bytes, MOST_BYTES)
    _check_count("ranks", case.ranks, MOST_RANKS)
    _check_mesh(case.mesh)
    if case.axes:
        _check_axes(case)


def _check_axes(case: Case) -> None:
    if not case.mesh:
        raise ValueError("axes: expected none without a mesh")
    extents = extents_of(case.mesh)
    known = AXES[: len(extents)]
    if len(set(case.axes)) != len(case.axes) or not set(case.axes) <= set(known):
        raise ValueError(f"axes: expected some of {known}, got {case.axes[:60]!r}")
    if math.prod(extents) != case.ranks:
        raise ValueError(f"mesh: {case.mesh} is not of {case.ranks} ranks")


def check_key(key: EnvironmentKey) -> None:
    """Ranks, cores, hosts and processes can be counted, and the mesh is one."""
    for name in ("ranks", "hosts", "processes", "cores"):
        count = getattr(key, name)
        if count is not None:
            _check_count(name, count, MOST_RANKS)
    _check_mesh(key.mesh)


def check_compiled(compiled: Compiled) -> None:
    """Nothing is counted below 0."""
    for name in ("argument", "output", "alias", "temporary", "peak"):
        count = getattr(compiled, f"{name}_bytes")
        if count < 0:
            raise ValueError(f"{name}_bytes: expected 0 or more, got {count}")
    for name in ("collectives", "around", "around_loop"):
        for kind, count in getattr(compiled, name).items():
            if count < 0:
                raise ValueError(f"{name}.{kind[:60]}: expected 0 or more, got {count}")


def check_seconds(name: str, seconds: float) -> None:
    """A time that something took."""
    if not LEAST_S <= seconds <= MOST_S:
        raise ValueError(f"{name}: expected {LEAST_S:g} to {MOST_S:g} seconds, got {seconds:g}")


def check_date(name: str, text: str) -> None:
    """A day, such as 2026-01-31."""
    try:
        datetime.datetime.strptime(text, "%Y-%m-%d")
    except ValueError as error:
        raise ValueError(
            f"{name}: expected a date such as 2026-01-31, got {text[:60]!r}"
        ) from error


def _check_count(name: str, count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise ValueError(f"{name}: expected 1 to {most}, got {count}")


def _check_mesh(mesh: str) -> None:
    if len(mesh) > _LONGEST_MESH:
        raise ValueError(f"mesh: expected one such as 2x4, got {mesh[:60]!r}...")
    if mesh:
        try:
            extents_of(mesh)
        except ValueError as error:
            raise ValueError(f"mesh: {error}") from error
