"""Chips: memory, memory bandwidth, links. One row each, with its source.

Vendors' figures, one direction only: what one chip can send over all of its links together.
(NVLink's 300, 600 and 900 GB/s in sales figures count both directions.)
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

_GB_PER_S = 1e9
_GIB = 2**30


class Confidence(str, enum.Enum):
    """How reliable a chip's figures are."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Fabric(str, enum.Enum):
    """How chips are joined: to neighbours along two or three axes, by a switch, or in a cube."""

    TORUS_2D = "2D torus"
    TORUS_3D = "3D torus"
    SWITCH = "switch"
    CUBE_MESH = "hybrid cube mesh"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """One kind of chip, as its vendor describes it.

    `device_kind` is what JAX calls it, `devices` how many devices JAX makes of one chip.
    `link_bytes_per_s` is what one chip can send, all links together, one direction; None where no
    trusted figure is known, but `doubted_bytes_per_s` of which the order of magnitude holds.
    `reduces_in_switch` says that its switch can add up what passes.
    """

    device_kind: str
    vendor_name: str
    memory_bytes: int
    memory_bytes_per_s: float
    links: int
    link_bytes_per_s: float | None
    confidence: Confidence
    source: str
    devices: int = 1
    fabric: Fabric = Fabric.SWITCH
    doubt: str = ""
    doubted_bytes_per_s: float | None = None
    reduces_in_switch: bool = False


_CLOUD = "https://cloud.google.com/tpu/docs/"
_since_hopper = functools.partial(Chip, links=18, reduces_in_switch=True)

CHIPS = (
    Chip(
        device_kind="TPU v2",
        vendor_name="Cloud TPU v2",
        devices=2,
        memory_bytes=16 * _GIB,
        memory_bytes_per_s=700 * _GB_PER_S,
        links=4,
        link_bytes_per_s=None,
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.LOW,
        source="secondary pages",
        doubt="public pages disagree: 496 Gbit/s per link, 600 to 700 GB/s memory",
        doubted_bytes_per_s=4 * 496 / 8 * _GB_PER_S,
    ),
    Chip(
        device_kind="TPU v3",
        vendor_name="Cloud TPU v3",
        devices=2,
        memory_bytes=32 * _GIB,
        memory_bytes_per_s=900 * _GB_PER_S,
        links=4,
        link_bytes_per_s=None,
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.LOW,
        source=_CLOUD + "v3",
        doubt="no trusted figure of its links, 340 TB/s of all-reduce in a pod of 1024 chips; "
        "that of its memory is",
        doubted_bytes_per_s=340e3 / 1024 * _GB_PER_S,
    ),
    Chip(
        device_kind="TPU v4",
        vendor_name="Cloud TPU v4",
        memory_bytes=32 * _GIB,
        memory_bytes_per_s=1200 * _GB_PER_S,
        links=6,
        link_bytes_per_s=270 * _GB_PER_S,
        fabric=Fabric.TORUS_3D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v4 and https://jax-ml.github.io/scaling-book/tpus",
    ),
    Chip(
        device_kind="TPU v5 lite",
        vendor_name="Cloud TPU v5e",
        memory_bytes=16 * _GIB,
        memory_bytes_per_s=819 * _GB_PER_S,
        links=4,
        link_bytes_per_s=200 * _GB_PER_S,
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v5e",
        doubt="200 GB/s is the official figure of the chip, the scaling book counts 4 x 45",
    ),
    Chip(
        device_kind="TPU v5",
        vendor_name="Cloud TPU v5p",
        memory_bytes=95 * _GIB,
        memory_bytes_per_s=2765 * _GB_PER_S,
        links=6,
        link_bytes_per_s=600 * _GB_PER_S,
        fabric=Fabric.TORUS_3D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v5p",
        doubt="600 GB/s is the official figure of the chip, the scaling book counts 6 x 90",
    ),
    Chip(
        device_kind="TPU v6 lite",
        vendor_name="Cloud TPU v6e",
        memory_bytes=32 * _GIB,
        memory_bytes_per_s=1600 * _GB_PER_S,
        links=4,
        link_bytes_per_s=400 * _GB_PER_S,
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v6e",
        doubt="400 GB/s is the official figure of the chip, the scaling book counts 4 x 90",
    ),
    Chip(
        device_kind="TPU7x",
        vendor_name="Cloud TPU7x (Ironwood)",
        devices=2,
        memory_bytes=192 * _GIB,
        memory_bytes_per_s=7380 * _GB_PER_S,
        links=6,
        link_bytes_per_s=600 * _GB_PER_S,
        fabric=Fabric.TORUS_3D,
        confidence=Confidence.MEDIUM,
        source=_CLOUD + "tpu7x",
        doubt="600 GB/s is the official figure of the chip, a draft of the scaling book counts "
        "6 x 90",
    ),
    Chip(
        device_kind="NVIDIA V100-SXM2",
        vendor_name="NVLink 2",
        memory_bytes=32 * _GIB,
        memory_bytes_per_s=900 * _GB_PER_S,
        links=6,
        link_bytes_per_s=150 * _GB_PER_S,
        confidence=Confidence.MEDIUM,
        source="NVIDIA NVLink generation table",
        fabric=Fabric.CUBE_MESH,
    ),
    Chip(
        device_kind="NVIDIA A100-SXM4",
        vendor_name="NVLink 3",
        memory_bytes=80 * _GIB,
        memory_bytes_per_s=2039 * _GB_PER_S,
        links=12,
        link_bytes_per_s=300 * _GB_PER_S,
        confidence=Confidence.HIGH,
        source="NVIDIA A100 datasheet",
    ),
    _since_hopper(
        device_kind="NVIDIA H100 80GB HBM3",
        vendor_name="NVLink 4",
        memory_bytes=80 * _GIB,
        memory_bytes_per_s=3350 * _GB_PER_S,
        link_bytes_per_s=450 * _GB_PER_S,
        confidence=Confidence.HIGH,
        source="NVIDIA NVLink table",
    ),
    _since_hopper(
        device_kind="NVIDIA H200",
        vendor_name="NVLink 4",
        memory_bytes=141 * _GIB,
        memory_bytes_per_s=4800 * _GB_PER_S,
        link_bytes_per_s=450 * _GB_PER_S,
        confidence=Confidence.HIGH,
        source="MLPerf inference v4.1 system file",
    ),
    _since_hopper(
        device_kind="NVIDIA B200",
        vendor_name="NVLink 5",
        memory_bytes=180 * _GIB,
        memory_bytes_per_s=8000 * _GB_PER_S,
        link_bytes_per_s=900 * _GB_PER_S,
        confidence=Confidence.MEDIUM,
        source="NVIDIA NVLink table",
    ),
    _since_hopper(
        device_kind="NVIDIA GB200",
        vendor_name="NVLink 5",
        memory_bytes=186 * _GIB,
        memory_bytes_per_s=8000 * _GB_PER_S,
        link_bytes_per_s=900 * _GB_PER_S,
        confidence=Confidence.MEDIUM,
        source="NVIDIA NVLink table",
    ),
)


def chip_of(device_kind: str) -> Chip | None:
    """The chip that JAX calls `device_kind`; None for one that is not known.

    A GPU's name may go on after what is known of it, as ``NVIDIA A100-SXM4-80GB`` does. A TPU's may
    not: ``TPU v4 lite`` is another chip than ``TPU v4``.
    """
    exact = [chip for chip in CHIPS if chip.device_kind == device_kind]
    longer = [
        chip
        for chip in CHIPS
        if chip.device_kind.startswith("NVIDIA")
        and device_kind.startswith((chip.device_kind + "-", chip.device_kind + " "))
    ]
    return next(iter(exact + longer), None)
