"""The collectives of a program as cases, each measured by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.grid import check_equal_blocks
from busbw.model.case import GridError, Spec
from busbw.model.machine import LETTER_AXES

from .worker_values import CONSECUTIVE, STRIDED, Use


def spec_of(use: Use, mesh: Mapping[str, int], *, framework: str, clock: str) -> Spec:
    """Return the case of one collective alone. Raises GridError where there is none."""
    dtype = _dtype_of(use, len(mesh))
    if use.axes in (CONSECUTIVE, STRIDED):
        extents = {"": use.groups, use.axes: use.ranks}
        mesh = extents if use.axes == CONSECUTIVE else dict(reversed(extents.items()))
    letters = dict(zip(mesh, LETTER_AXES))
    has_axes = bool(use.axes) and math.prod(mesh.values()) > use.ranks
    axes = "".join(letters[name] for name in use.axes.split(",") if has_axes)
    spec = Spec(
        framework=framework,
        payload_bytes=use.payload_bytes,
        collective=use.kind,
        reduce_op=use.reduce_op or "none",
        placement=COLLECTIVES[use.kind].placements[0],
        axes=axes,
        dtype=dtype,
        ranks=use.ranks * use.groups,
        mesh="x".join(map(str, mesh.values())) if has_axes else "",
        clock=clock,
    )
    check_equal_blocks(spec, use.ranks * use.groups)
    return spec


def _dtype_of(use: Use, axes: int) -> str:
    """Return the dtype to measure a collective with. Raises GridError where it has no case."""
    collective = COLLECTIVES.get(use.kind)
    if collective is None:
        raise GridError("busbw has no such collective")
    # A collective that only moves data does so whatever they mean.
    dtype = use.dtype if use.dtype in DTYPES or collective.reduce_ops else "float32"
    reasons = {
        "its payload is not known": not use.payload_bytes,
        "a group of one rank moves nothing": use.ranks == 1,
        "how often it runs depends on data": use.per_iteration,
        f"expected a dtype of {', '.join(DTYPES)}: no other one's sums are checked": (
            dtype not in DTYPES
        ),
        f"its reduce op is none of {', '.join(REDUCE_OPS)}": (
            collective.reduce_ops and use.reduce_op not in REDUCE_OPS
        ),
        f"its mesh has more than {len(LETTER_AXES)} axes": axes > len(LETTER_AXES),
        "its groups are no axes of a mesh, or no rings along one": (
            not use.groups or (not use.axes and use.groups > 1)
        ),
    }
    for reason, is_true in reasons.items():
        if is_true:
            raise GridError(reason)
    return dtype
