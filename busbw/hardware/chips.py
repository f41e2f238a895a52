"""Chips: memory, memory bandwidth, links. One row each, with its source.

Vendors' figures, one direction only: what one chip can send over all of its links together.
(NVLink's 300, 600 and 900 GB/s in sales figures count both directions.)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

_GB_PER_S = 1e9
_GIB = 2**30


class Confidence(enum.StrEnum):
    """How reliable a chip's figures are."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """One kind of chip, as its vendor describes it.

    `device_kind` is what JAX calls it, `devices` how many devices JAX makes of one chip.
    `link_bytes_per_s` is what one chip can send, all links together, one direction; None where no
    trusted figure is known, but `doubted_bytes_per_s` of which the order of magnitude holds.
    `reduces_in_switch` says that its switch can add up what passes. Of a TPU `name` and one of
    `shapes` name a slice, such as ``v5e:2x4``.
    """

    device_kind: str
    memory_bytes: int
    memory_bytes_per_s: float
    links: int
    link_bytes_per_s: float | None
    confidence: Confidence
    source: str
    devices: int = 1
    doubt: str = ""
    doubted_bytes_per_s: float | None = None
    reduces_in_switch: bool = False
    name: str = ""
    shapes: tuple[str, ...] = ()


# Shapes of slices. All of v3 in _PODS; a pod of v2 ends at 16x16.
_PODS = ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32")
_FLAT = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")

_CLOUD = "https://cloud.google.com/tpu/docs/"
_SOURCES = {
    "v2": "secondary pages",
    "v4": f"{_CLOUD}v4 and https://jax-ml.github.io/scaling-book/tpus",
}
_OFFICIAL = "GB/s is the official figure of the chip,"
_DOUBTS = {
    "v2": "public pages disagree: 496 Gbit/s per link, 600 to 700 GB/s memory",
    "v3": "no trusted figure of its links, 340 TB/s of all-reduce in a pod of 1024 chips; that of "
    "its memory is",
    "v5e": f"200 {_OFFICIAL} the scaling book counts 4 x 45",
    "v5p": f"600 {_OFFICIAL} the scaling book counts 6 x 90",
    "v6e": f"400 {_OFFICIAL} the scaling book counts 4 x 90",
    "tpu7x": f"600 {_OFFICIAL} a draft of the scaling book counts 6 x 90",
}
_DOUBTED_BYTES_PER_S = {"v2": 4 * 496 / 8 * _GB_PER_S, "v3": 340e3 / 1024 * _GB_PER_S}


def _tpu(
    name: str,
    device_kind: str,
    devices: int,
    shapes: tuple[str, ...],
    memory_gib: int,
    memory_gb_per_s: float,
    link_gb_per_s: float,
    confidence: Confidence,
) -> Chip:
    """Return a chip with two links along each axis of its slices; 0 is no trusted figure."""
    axes = shapes[0].count("x") + 1
    return Chip(
        name=name,
        device_kind=device_kind,
        devices=devices,
        shapes=shapes,
        memory_bytes=memory_gib * _GIB,
        memory_bytes_per_s=memory_gb_per_s * _GB_PER_S,
        links=2 * axes,
        link_bytes_per_s=link_gb_per_s * _GB_PER_S or None,
        confidence=confidence,
        source=_SOURCES.get(name, _CLOUD + name),
        doubt=_DOUBTS.get(name, ""),
        doubted_bytes_per_s=_DOUBTED_BYTES_PER_S.get(name),
    )


def _gpu(
    device_kind: str,
    nvlink: int,
    memory_gib: int,
    memory_gb_per_s: float,
    links: int,
    link_gb_per_s: float,
    confidence: Confidence,
    source: str,
) -> Chip:
    """Return a chip with NVLink of this generation, whose switches add up since the fourth."""
    return Chip(
        device_kind=device_kind,
        memory_bytes=memory_gib * _GIB,
        memory_bytes_per_s=memory_gb_per_s * _GB_PER_S,
        links=links,
        link_bytes_per_s=link_gb_per_s * _GB_PER_S,
        reduces_in_switch=nvlink >= 4,
        confidence=confidence,
        source=source,
    )


_LOW, _MEDIUM, _HIGH = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH
_TABLE = "NVIDIA NVLink table"
CHIPS = (
    # Devices, shapes; memory in GiB and GB/s, links in GB/s.
    _tpu("v2", "TPU v2", 2, _PODS[:6], 16, 700, 0, _LOW),
    _tpu("v3", "TPU v3", 2, _PODS, 32, 900, 0, _LOW),
    _tpu("v4", "TPU v4", 1, _CUBES, 32, 1200, 270, _HIGH),
    _tpu("v5e", "TPU v5 lite", 1, _FLAT, 16, 819, 200, _HIGH),
    _tpu("v5p", "TPU v5", 1, _CUBES, 95, 2765, 600, _HIGH),
    _tpu("v6e", "TPU v6 lite", 1, _FLAT, 32, 1600, 400, _HIGH),
    _tpu("tpu7x", "TPU7x", 2, _CUBES, 192, 7380, 600, _MEDIUM),
    # Generation of NVLink; memory in GiB and GB/s; links, and all of them in GB/s.
    _gpu("NVIDIA V100-SXM2", 2, 32, 900, 6, 150, _MEDIUM, "NVIDIA NVLink generation table"),
    _gpu("NVIDIA A100-SXM4", 3, 80, 2039, 12, 300, _HIGH, "NVIDIA A100 datasheet"),
    _gpu("NVIDIA H100 80GB HBM3", 4, 80, 3350, 18, 450, _HIGH, _TABLE),
    _gpu("NVIDIA H200", 4, 141, 4800, 18, 450, _HIGH, "MLPerf inference v4.1 system file"),
    _gpu("NVIDIA B200", 5, 180, 8000, 18, 900, _MEDIUM, _TABLE),
    _gpu("NVIDIA GB200", 5, 186, 8000, 18, 900, _MEDIUM, _TABLE),
)


def chip_of(device_kind: str) -> Chip | None:
    """Return the chip that JAX calls `device_kind`; None for an unknown chip.

    A GPU's name may go on after what is known of it, as ``NVIDIA A100-SXM4-80GB`` does. A TPU's may
    not: ``TPU v4 lite`` is another chip than ``TPU v4``.
    """
    for chip in CHIPS:
        longer = (f"{chip.device_kind}-", f"{chip.device_kind} ") if not chip.shapes else ()
        if device_kind == chip.device_kind or device_kind.startswith(longer):
            return chip
    return None


# What clouds call some chips.
_OTHERS = {"v5litepod": "v5e", "v5lite": "v5e", "v5 lite": "v5e", "v7x": "tpu7x"}


def kind_of_type(accelerator_type: str) -> str:
    """Return JAX's name of a TPU that clouds call such as ``v5litepod-8``; "" for another."""
    name = accelerator_type.partition("-")[0]
    slice_name = _OTHERS.get(name, name)
    return next((chip.device_kind for chip in CHIPS if chip.shapes and chip.name == slice_name), "")


def has_tpu_chips(devices: Path = Path("/dev")) -> bool:
    """Return whether the kernel shows TPU chips."""
    return any(devices.glob("accel[0-9]*")) or any(devices.glob("vfio/[0-9]*"))
