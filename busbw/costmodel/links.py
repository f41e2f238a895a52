"""Links by name: what one end can send in one direction, and who says so.

Sales figures of NVLink count both directions; here is half of them, as everywhere in this room.
Chips are handed in: this room knows none.
"""

from __future__ import annotations

from dataclasses import dataclass

_GB_PER_S = 1e9
_GIB_PER_S = 2.0**30
_MB_PER_S = 1e6

_PLACEMENT = '"placement的估计"'


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedLink:
    """One direction of a link, bytes per second; `stated` is the figure as its source has it."""

    name: str
    bytes_per_s: float
    stated: str
    source: str


def _nvlink(generation: int, chip: str, links: int, gb_per_s: float) -> NamedLink:
    """`gb_per_s` of one link, both directions."""
    both = links * gb_per_s
    return NamedLink(
        name=f"nvlink-{generation}",
        bytes_per_s=both / 2 * _GB_PER_S,
        stated=f"{both:g} GB/s of a {chip}, {links} links of {gb_per_s:g}, both directions",
        source=f"{_PLACEMENT}, after NVIDIA",
    )


def _measured(where: str, place: int, mb_per_s: float) -> NamedLink:
    return NamedLink(
        name=f"measured-{where}-{place}",
        bytes_per_s=mb_per_s * _MB_PER_S,
        stated=f"{mb_per_s:g} MB/s, the {place}. of eight",
        source=f"{_PLACEMENT}, measured; which machines or models these are it does not say",
    )


_INTER_MB_PER_S = (91.875, 233.0, 59.5, 145.875, 120.125, 60.75, 92.125, 10.375)
_INTRA_MB_PER_S = (306.5, 427.75, 63.0, 1082.125, 181.125, 159.625, 65.625, 22.875)

LINKS = (
    _nvlink(1, "P100", 4, 40),
    _nvlink(2, "V100", 6, 50),
    _nvlink(3, "A100", 12, 50),
    NamedLink(
        name="nvlink-2-cpu",
        bytes_per_s=63 * _GIB_PER_S,
        stated="63 GiB/s, measured between a POWER9 and a V100",
        source=_PLACEMENT,
    ),
    NamedLink(
        name="pcie-3",
        bytes_per_s=16 * _GB_PER_S,
        stated="16 GB/s, 16 lanes, one direction",
        source=_PLACEMENT,
    ),
    NamedLink(
        name="upi",
        bytes_per_s=31 * _GIB_PER_S,
        stated="about 31 GiB/s, between two Xeons",
        source=_PLACEMENT,
    ),
    NamedLink(
        name="x-bus",
        bytes_per_s=31 * _GIB_PER_S,
        stated="about 31 GiB/s, between two POWER9",
        source=_PLACEMENT,
    ),
    NamedLink(
        name="10gbe",
        bytes_per_s=1.25 * _GB_PER_S,
        stated="10 Gbit/s, from a network card through a switch to another",
        source=_PLACEMENT,
    ),
    NamedLink(
        name="1gbe",
        bytes_per_s=125 * _MB_PER_S,
        stated="1000 Mbit/s",
        source='"tensorflow分布式"',
    ),
    *(_measured("intra", i, rate) for i, rate in enumerate(_INTRA_MB_PER_S, 1)),
    *(_measured("inter", i, rate) for i, rate in enumerate(_INTER_MB_PER_S, 1)),
)


def of_chip(name: str, bytes_per_s: float, source: str) -> NamedLink:
    """All links of a chip together, one direction, by the chip's name."""
    stated = f"{bytes_per_s / _GB_PER_S:g} GB/s, all links of the chip, one direction"
    return NamedLink(name=name, bytes_per_s=bytes_per_s, stated=stated, source=source)
