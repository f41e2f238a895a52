"""The collectives of a program as cases, so that each collective is measured by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.grid import check_equal_blocks
from busbw.model.case import GridError, Spec
from busbw.model.machine import LETTER_AXES

from .worker_values import CONSECUTIVE, STRIDED, CollectiveUse


def spec_of_collective(
    use: CollectiveUse, mesh: Mapping[str, int], *, framework: str, clock: str
) -> Spec:
    """Return the Spec that measures the collective `use` by itself.

    `mesh` maps the axis names of the program's mesh to their extents. Raises GridError, with the
    reason as its message, if busbw cannot measure the collective.
    """
    dtype = _dtype_to_measure(use, len(mesh))
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


def _dtype_to_measure(use: CollectiveUse, axis_count: int) -> str:
    """Return the dtype to measure the collective `use` with.

    A collective that only moves data is measured as float32 if busbw does not support its dtype.
    `axis_count` is the number of axes of the program's mesh. Raises GridError if busbw cannot
    measure the collective; the message is the reason.
    """
    collective = COLLECTIVES.get(use.kind)
    if collective is None:
        raise GridError("busbw has no such collective")
    # A collective that only moves data takes the same time with every dtype of the same bytes.
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
        f"its mesh has more than {len(LETTER_AXES)} axes": axis_count > len(LETTER_AXES),
        "its groups are no axes of a mesh, or no rings along one": (
            not use.groups or (not use.axes and use.groups > 1)
        ),
    }
    for reason, is_true in reasons.items():
        if is_true:
            raise GridError(reason)
    return dtype
