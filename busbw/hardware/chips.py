"""Chips: memory, memory bandwidth, links. One row each, with its source.

Vendors' figures, one direction only: what one chip can send over all of its links together.
(NVLink's 300, 600 and 900 GB/s in sales figures count both directions.)
"""

from __future__ import annotations

import enum
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
    devices: int
    memory_bytes: int
    memory_bytes_per_s: float
    links: int
    link_bytes_per_s: float | None
    fabric: Fabric
    confidence: Confidence
    source: str
    doubt: str = ""
    doubted_bytes_per_s: float | None = None
    reduces_in_switch: bool = False


def _chip(
    device_kind: str,
    vendor_name: str,
    *,
    memory: tuple[int, float],
    links: tuple[int, float | None],
    confidence: Confidence,
    source: str,
    devices: int = 1,
    fabric: Fabric = Fabric.SWITCH,
    doubt: str = "",
    doubted: float | None = None,
    reduces_in_switch: bool = False,
) -> Chip:
    """`memory` in GiB and GB/s, `links` as how many and GB/s of all together, `doubted` in GB/s."""
    return Chip(
        device_kind=device_kind,
        vendor_name=vendor_name,
        devices=devices,
        memory_bytes=memory[0] * _GIB,
        memory_bytes_per_s=memory[1] * _GB_PER_S,
        links=links[0],
        link_bytes_per_s=None if links[1] is None else links[1] * _GB_PER_S,
        fabric=fabric,
        confidence=confidence,
        source=source,
        doubt=doubt,
        doubted_bytes_per_s=None if doubted is None else doubted * _GB_PER_S,
        reduces_in_switch=reduces_in_switch,
    )


_CLOUD = "https://cloud.google.com/tpu/docs/"

CHIPS = (
    _chip(
        "TPU v2",
        "Cloud TPU v2",
        devices=2,
        memory=(16, 700),
        links=(4, None),
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.LOW,
        source="secondary pages",
        doubt="public pages disagree: 496 Gbit/s per link, 600 to 700 GB/s memory",
        doubted=4 * 496 / 8,
    ),
    _chip(
        "TPU v3",
        "Cloud TPU v3",
        devices=2,
        memory=(32, 900),
        links=(4, None),
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.LOW,
        source=_CLOUD + "v3",
        doubt="no trusted figure of its links, 340 TB/s of all-reduce in a pod of 1024 chips; "
        "that of its memory is",
        doubted=340e3 / 1024,
    ),
    _chip(
        "TPU v4",
        "Cloud TPU v4",
        memory=(32, 1200),
        links=(6, 270),
        fabric=Fabric.TORUS_3D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v4 and https://jax-ml.github.io/scaling-book/tpus",
    ),
    _chip(
        "TPU v5 lite",
        "Cloud TPU v5e",
        memory=(16, 819),
        links=(4, 200),
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v5e",
        doubt="200 GB/s is the official figure of the chip, the scaling book counts 4 x 45",
    ),
    _chip(
        "TPU v5",
        "Cloud TPU v5p",
        memory=(95, 2765),
        links=(6, 600),
        fabric=Fabric.TORUS_3D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v5p",
        doubt="600 GB/s is the official figure of the chip, the scaling book counts 6 x 90",
    ),
    _chip(
        "TPU v6 lite",
        "Cloud TPU v6e",
        memory=(32, 1600),
        links=(4, 400),
        fabric=Fabric.TORUS_2D,
        confidence=Confidence.HIGH,
        source=_CLOUD + "v6e",
        doubt="400 GB/s is the official figure of the chip, the scaling book counts 4 x 90",
    ),
    _chip(
        "TPU7x",
        "Cloud TPU7x (Ironwood)",
        devices=2,
        memory=(192, 7380),
        links=(6, 600),
        fabric=Fabric.TORUS_3D,
        confidence=Confidence.MEDIUM,
        source=_CLOUD + "tpu7x",
        doubt="600 GB/s is the official figure of the chip, a draft of the scaling book counts "
        "6 x 90",
    ),
    _chip(
        "NVIDIA V100-SXM2",
        "NVLink 2",
        memory=(32, 900),
        links=(6, 150),
        confidence=Confidence.MEDIUM,
        source="NVIDIA NVLink generation table",
        fabric=Fabric.CUBE_MESH,
    ),
    _chip(
        "NVIDIA A100-SXM4",
        "NVLink 3",
        memory=(80, 2039),
        links=(12, 300),
        confidence=Confidence.HIGH,
        source="NVIDIA A100 datasheet",
    ),
    _chip(
        "NVIDIA H100 80GB HBM3",
        "NVLink 4",
        memory=(80, 3350),
        links=(18, 450),
        confidence=Confidence.HIGH,
        source="NVIDIA NVLink table",
        reduces_in_switch=True,
    ),
    _chip(
        "NVIDIA H200",
        "NVLink 4",
        memory=(141, 4800),
        links=(18, 450),
        confidence=Confidence.HIGH,
        source="MLPerf inference v4.1 system file",
        reduces_in_switch=True,
    ),
    _chip(
        "NVIDIA B200",
        "NVLink 5",
        memory=(180, 8000),
        links=(18, 900),
        confidence=Confidence.MEDIUM,
        source="NVIDIA NVLink table",
        reduces_in_switch=True,
    ),
    _chip(
        "NVIDIA GB200",
        "NVLink 5",
        memory=(186, 8000),
        links=(18, 900),
        confidence=Confidence.MEDIUM,
        source="NVIDIA NVLink table",
        reduces_in_switch=True,
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
