"""TPU slices: which shapes each generation is offered in, and where an axis closes to a ring.

A shape counts chips along its axes, such as ``2x4``. Source: the pages on each generation at
https://cloud.google.com/tpu/docs (system architecture, "TPU configurations").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.model import extents_of

_FLAT = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = (
    "2x2x1",
    "2x2x2",
    "2x2x4",
    "2x4x4",
    "4x4x4",
    "4x4x8",
    "4x8x8",
    "8x8x8",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One generation of TPUs: its name in front of a shape, JAX's name, shapes, devices a chip.

    `chip_config` is what libtpu calls the use of a chip's cores that JAX has on such a TPU, where
    libtpu takes another one for a chip that is not there.
    """

    name: str
    device_kind: str
    devices: int
    shapes: tuple[str, ...]
    chip_config: str = ""

    def ranks(self, shape: str) -> int:
        """How many devices, hence ranks, a slice of `shape` has."""
        return self.devices * math.prod(extents_of(shape))


SLICES: Mapping[str, Generation] = {
    one.name: one
    for one in (
        Generation(
            name="v2",
            device_kind="TPU v2",
            devices=2,
            shapes=("2x2", "4x4", "4x8", "8x8", "8x16", "16x16"),
        ),
        Generation(
            name="v3",
            device_kind="TPU v3",
            devices=2,
            shapes=("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32"),
        ),
        # Both cores as one device.
        Generation(
            name="v4", device_kind="TPU v4", devices=1, shapes=_CUBES, chip_config="megacore"
        ),
        Generation(name="v5e", device_kind="TPU v5 lite", devices=1, shapes=_FLAT),
        Generation(name="v5p", device_kind="TPU v5", devices=1, shapes=_CUBES),
        Generation(name="v6e", device_kind="TPU v6 lite", devices=1, shapes=_FLAT),
        Generation(name="tpu7x", device_kind="TPU7x", devices=2, shapes=_CUBES),
    )
}


def wraps(shape: str) -> tuple[bool, ...]:
    """For each axis of a slice whether its ends are joined.

    Of two axes, one of 16 chips is the whole length of a pod of v5e or v6e and closes. Of three
    axes, the slices of whole cubes of 4 x 4 x 4 chips close, through the optical switches between
    cubes.
    """
    extents = extents_of(shape)
    if len(extents) == 2:
        return tuple(extent == 16 for extent in extents)
    whole_cubes = all(extent % 4 == 0 for extent in extents)
    return (whole_cubes,) * len(extents)
