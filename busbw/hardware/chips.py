"""The table of chips: memory, memory bandwidth and links.

Bandwidths are stated by vendors: docs/measuring.md names the source of each chip, and why its
bandwidths may be wrong. The bandwidth of links is the bandwidth of all links of a chip together, in
one direction. (Vendors' 300, 600 and 900 GB/s of NVLink count both directions.)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

_GB_PER_S = 1e9
_GIB = 2**30


class Confidence(enum.StrEnum):
    """How reliable the stated bandwidths of a chip are; low, only their order of magnitude."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """A kind of chip, as its vendor describes it.

    Attributes:
        device_kind: The name that JAX has for its devices.
        memory_bytes: The size of its main memory.
        memory_bytes_per_s: The bandwidth of its main memory.
        links: The number of its links to other chips.
        link_bytes_per_s: The bandwidth of all its links together in one direction.
        confidence: How reliable its bandwidths are.
        devices_per_chip: The number of devices that JAX makes of a chip.
        can_reduce_in_switch: Its switch can add up the data that passes.
        name: Google's name of a TPU, such as ``v5e``; "" for a GPU.
        shapes: The shapes of a TPU's slices, such as ``2x4``; `name` and shape name a slice.

    """

    device_kind: str
    memory_bytes: int
    memory_bytes_per_s: float
    links: int
    link_bytes_per_s: float
    confidence: Confidence
    devices_per_chip: int = 1
    can_reduce_in_switch: bool = False
    name: str = ""
    shapes: tuple[str, ...] = ()


# The shapes of slices. _PODS has the shapes of v3; a pod of v2 has at most 16x16 chips.
_PODS = ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32")
_FLAT = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")


def _tpu_chip(
    name: str,
    device_kind: str,
    devices_per_chip: int,
    shapes: tuple[str, ...],
    memory_gib: int,
    memory_gb_per_s: float,
    link_gb_per_s: float,
    confidence: Confidence,
) -> Chip:
    """Return a TPU, which has two links along each axis of its slices."""
    axes = shapes[0].count("x") + 1
    return Chip(
        name=name,
        device_kind=device_kind,
        devices_per_chip=devices_per_chip,
        shapes=shapes,
        memory_bytes=memory_gib * _GIB,
        memory_bytes_per_s=memory_gb_per_s * _GB_PER_S,
        links=2 * axes,
        link_bytes_per_s=link_gb_per_s * _GB_PER_S,
        confidence=confidence,
    )


def _gpu_chip(
    device_kind: str,
    nvlink: int,
    memory_gib: int,
    memory_gb_per_s: float,
    links: int,
    link_gb_per_s: float,
    confidence: Confidence,
) -> Chip:
    """Return a GPU with NVLink of generation `nvlink`; from the fourth on, switches can add up."""
    return Chip(
        device_kind=device_kind,
        memory_bytes=memory_gib * _GIB,
        memory_bytes_per_s=memory_gb_per_s * _GB_PER_S,
        links=links,
        link_bytes_per_s=link_gb_per_s * _GB_PER_S,
        can_reduce_in_switch=nvlink >= 4,
        confidence=confidence,
    )


CHIPS = (
    # Devices per chip, shapes, memory in GiB, memory in GB/s, all links in GB/s, confidence.
    _tpu_chip("v2", "TPU v2", 2, _PODS[:6], 16, 700, 4 * 496 / 8, Confidence.LOW),
    _tpu_chip("v3", "TPU v3", 2, _PODS, 32, 900, 340e3 / 1024, Confidence.LOW),
    _tpu_chip("v4", "TPU v4", 1, _CUBES, 32, 1200, 270, Confidence.HIGH),
    _tpu_chip("v5e", "TPU v5 lite", 1, _FLAT, 16, 819, 200, Confidence.HIGH),
    _tpu_chip("v5p", "TPU v5", 1, _CUBES, 95, 2765, 600, Confidence.HIGH),
    _tpu_chip("v6e", "TPU v6 lite", 1, _FLAT, 32, 1600, 400, Confidence.HIGH),
    _tpu_chip("tpu7x", "TPU7x", 2, _CUBES, 192, 7380, 600, Confidence.MEDIUM),
    # Generation of NVLink, memory in GiB, memory in GB/s, number of links, all links in GB/s.
    _gpu_chip("NVIDIA V100-SXM2", 2, 32, 900, 6, 150, Confidence.MEDIUM),
    _gpu_chip("NVIDIA A100-SXM4", 3, 80, 2039, 12, 300, Confidence.HIGH),
    _gpu_chip("NVIDIA H100 80GB HBM3", 4, 80, 3350, 18, 450, Confidence.HIGH),
    _gpu_chip("NVIDIA H200", 4, 141, 4800, 18, 450, Confidence.HIGH),
    _gpu_chip("NVIDIA B200", 5, 180, 8000, 18, 900, Confidence.MEDIUM),
    _gpu_chip("NVIDIA GB200", 5, 186, 8000, 18, 900, Confidence.MEDIUM),
)


def chip_of(device_kind: str) -> Chip | None:
    """Return the chip whose devices JAX calls `device_kind`; None for an unknown chip.

    The name of a GPU may continue after the known name, such as ``NVIDIA A100-SXM4-80GB``. The name
    of a TPU may not: ``TPU v4 lite`` is another chip than ``TPU v4``.
    """
    for chip in CHIPS:
        longer = (f"{chip.device_kind}-", f"{chip.device_kind} ") if not chip.shapes else ()
        if device_kind == chip.device_kind or device_kind.startswith(longer):
            return chip
    return None


# The names in this table by the names that clouds use.
_NAMES_BY_CLOUD_NAME = {"v5litepod": "v5e", "v5lite": "v5e", "v5 lite": "v5e", "v7x": "tpu7x"}


def device_kind_of_type(accelerator_type: str) -> str:
    """Return JAX's name for a TPU from its name in clouds, such as ``v5litepod-8``.

    Returns "" if `accelerator_type` is no known TPU.
    """
    name = accelerator_type.partition("-")[0]
    slice_name = _NAMES_BY_CLOUD_NAME.get(name, name)
    return next((chip.device_kind for chip in CHIPS if chip.shapes and chip.name == slice_name), "")


def has_tpu_chips(device_folder: Path = Path("/dev")) -> bool:
    """Return whether the kernel has device files of TPU chips in `device_folder`."""
    return any(device_folder.glob("accel[0-9]*")) or any(device_folder.glob("vfio/[0-9]*"))
