"""Chips, slices and links: their stated bandwidths, and the busbw that they allow (ceilings).

If no bandwidth can be trusted, there is no ceiling, because a wrong ceiling would be worse. A
ceiling is computed only from stated bandwidths and from the shape of the slice.

The formulas for n ranks, which docs/measuring.md explains:

- On c chips an all-reduce of S bytes moves 2 (c-1) S bytes over the links. If all links together
  carry C bytes per second, busbw <= (n-1)/n C/(c-1).
- If the program has k colors (routes), C is at most k b c; b is the bandwidth of a link.
- A memory with M bytes per second allows (n-1)/n M.
- A switch that adds up allows 2 (n-1)/n L; L is the bandwidth of all links of a chip. GPUs on
  several hosts also have network cards, which carry at most L.

The file chips.json has the bandwidths that vendors state. docs/measuring.md names the source for
each chip, and why its bandwidths may be wrong. The bandwidth of links is the bandwidth of all links
of a chip together, in one direction. (Vendors' 300, 600 and 900 GB/s of NVLink count both
directions.)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.machine import EnvironmentKey, mesh_shape
from busbw.model.verdict import BandwidthCeiling
from busbw.model.words import MIB, bandwidth_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """A kind of chip, as its vendor describes the chip.

    Attributes:
        device_kind: The name that JAX has for the chip's devices, such as ``TPU v5 lite``.
        memory_bytes_per_s: The bandwidth of the main memory.
        links: The number of links to other chips.
        link_bytes_per_s: The bandwidth of all links of the chip together in one direction.
        confidence: The reliability of the bandwidths, such as ``low``, which means that only the
            order of magnitude is reliable.
        devices_per_chip: The number of devices that JAX makes of a chip.
        can_reduce_in_switch: Whether the switch between the chips can add up the data that passes.
        name: Google's name of a TPU, such as ``v5e``; "" for a GPU.
        shapes: The shapes of a TPU's slices, such as ``2x4``; empty for a GPU.

    """

    device_kind: str
    memory_bytes_per_s: float
    links: int
    link_bytes_per_s: float
    confidence: Literal["high", "medium", "low"]
    devices_per_chip: int = 1
    can_reduce_in_switch: bool = False
    name: str = ""
    shapes: tuple[str, ...] = ()


# The file chips.json beside this module has the fields of Chip.
CHIPS = tuple(
    Chip(**{**fields, "shapes": tuple(fields.get("shapes", ()))})
    for fields in json.loads(Path(__file__).with_name("chips.json").read_text(encoding="utf-8"))
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
    """Return JAX's name of a TPU, given the cloud's name, such as ``v5litepod-8``.

    Returns "" if `accelerator_type`, the cloud's name, is not the name of a known TPU.
    """
    name = accelerator_type.partition("-")[0]
    slice_name = _NAMES_BY_CLOUD_NAME.get(name, name)
    return next((chip.device_kind for chip in CHIPS if chip.shapes and chip.name == slice_name), "")


def has_tpu_chips(device_folder: Path = Path("/dev")) -> bool:
    """Return whether the kernel has device files of TPU chips in `device_folder`."""
    return any(device_folder.glob("accel[0-9]*")) or any(device_folder.glob("vfio/[0-9]*"))


# A payload of this size is larger than any on-chip memory or cache, so each collective uses main
# memory.
_MORE_THAN_CACHES_BYTES = 256 * MIB


def ceiling_of(
    key: EnvironmentKey, case: Case, algorithm: Mapping[str, str] | None = None
) -> BandwidthCeiling | None:
    """Return the ceiling of a case: the busbw that the links and the memory of the chips allow.

    Returns None if no stated bandwidth is trusted, for a collective along a part of the axes, for
    GPUs on several hosts, for all-to-all and permute, and if ranks share a device.

    Args:
        key: The device, the ranks and the mesh that the case was measured on.
        case: The measured case.
        algorithm: The properties of the algorithm that the compiler states, by name; the number of
            ``colors`` (routes) can lower the ceiling. None if no properties are known.

    """
    chip = chip_of(key.device_kind) if not key.shared else None
    if chip is None or chip.confidence == "low":
        return None
    if case.axes or not COLLECTIVES[case.collective].uses_all_links:
        return None
    if chip.shapes:
        ceiling = _torus_ceiling(chip, key, algorithm or {})
    else:
        ceiling = _switch_ceiling(chip, key, case)
    return _limit_by_memory(ceiling, chip, case) if ceiling is not None else None


def ceiling_of_all_links(key: EnvironmentKey, case: Case) -> BandwidthCeiling | None:
    """Return a generous ceiling of a case: the busbw if all links of all chips were used at once.

    The ceiling holds for any shape of slice. The ceiling is doubled if the stated bandwidth is not
    trusted, or if GPUs are on several hosts. Returns None for an unknown chip, for ranks on a
    single chip, and for a shared device, because data then crosses no link.
    """
    chip = chip_of(key.device_kind) or chip_of(device_kind_of_type(key.device_kind))
    chips = math.ceil(case.group_size / chip.devices_per_chip) if chip is not None else 0
    if chip is None or chips < 2 or key.shared:
        return None
    is_torus = bool(chip.shapes)
    is_doubled = chip.confidence != "high" or (key.hosts > 1 and not is_torus)
    factor = (case.group_size - 1) / case.group_size * (chips / (chips - 1) if is_torus else 2)
    most_bytes_per_s = factor * chip.link_bytes_per_s * (2 if is_doubled else 1)
    return BandwidthCeiling(
        bytes_per_s=most_bytes_per_s,
        most_bytes_per_s=most_bytes_per_s,
        text=f"all {chip.links} links of {bandwidth_text(chip.link_bytes_per_s / chip.links)} "
        "of every chip at once, whatever the shape"
        f"{', doubled for what is not known' if is_doubled else ''}",
        sure=True,
    )


def _torus_ceiling(
    chip: Chip, key: EnvironmentKey, algorithm: Mapping[str, str]
) -> BandwidthCeiling | None:
    """Return the ceiling of the links of a TPU slice with the shape `key.mesh`.

    Returns None without a mesh, if the mesh does not have a place for each chip, and for a slice of
    a single chip. `algorithm` has the properties of the algorithm that the compiler states. Among
    them can be the number of ``colors`` (routes). A chip sends on at most as many links as there
    are colors, so that few colors lower the ceiling.
    """
    chips = key.ranks // chip.devices_per_chip
    if not key.mesh or math.prod(mesh_shape(key.mesh)) != chips or chips < 2:
        return None
    bytes_per_s_of_link = chip.link_bytes_per_s / chip.links
    used_links = count_directed_links(key.mesh)
    colors = int(algorithm["colors"]) if algorithm.get("colors", "").isdecimal() else 0
    links_of_algorithm = min(used_links, colors * chips) if colors else used_links
    factor = (key.ranks - 1) / key.ranks / (chips - 1)
    mean = (
        f"{used_links / chips:.2g} of {chip.links} links of "
        f"{bandwidth_text(bytes_per_s_of_link)} in use"
    )
    chosen = f", {colors} colors" if links_of_algorithm < used_links else ""
    return BandwidthCeiling(
        bytes_per_s=factor * links_of_algorithm * bytes_per_s_of_link,
        most_bytes_per_s=factor * used_links * bytes_per_s_of_link,
        text=f"links: {mean}{chosen}",
        sure=chip.confidence == "high",
    )


def _switch_ceiling(chip: Chip, key: EnvironmentKey, case: Case) -> BandwidthCeiling | None:
    """Return the ceiling of GPUs that a switch connects; None for GPUs on several hosts."""
    if key.hosts > 1:
        return None
    in_switch = chip.can_reduce_in_switch and COLLECTIVES[case.collective].can_add_in_switch
    with_switch = 2 * (key.ranks - 1) / key.ranks * chip.link_bytes_per_s
    return BandwidthCeiling(
        bytes_per_s=chip.link_bytes_per_s,
        most_bytes_per_s=max(chip.link_bytes_per_s, with_switch if in_switch else 0.0),
        text=f"links: {chip.links} of {bandwidth_text(chip.link_bytes_per_s / chip.links)}",
        sure=chip.confidence == "high",
        in_switch=in_switch,
    )


def count_directed_links(mesh: str) -> int:
    """Return twice the number of links in a TPU slice of shape `mesh`: a link has two directions.

    Neighboring chips share a link, and an axis that wraps around also has a link between its ends.
    With two axes, an axis of 16 chips wraps around, because it is the whole length of a pod of v5e
    or v6e. With three axes, all axes wrap around if the slice consists of whole cubes of 4 x 4 x 4
    chips, which optical switches connect.
    """
    extents = mesh_shape(mesh)
    chips = math.prod(extents)
    whole_cubes = all(extent % 4 == 0 for extent in extents)
    wraps_around = [extent == 16 if len(extents) == 2 else whole_cubes for extent in extents]
    return sum(
        2 * (chips // extent) * (extent if wraps else extent - 1)
        for extent, wraps in zip(extents, wraps_around, strict=True)
    )


def _limit_by_memory(ceiling: BandwidthCeiling, chip: Chip, case: Case) -> BandwidthCeiling:
    """Return the lower ceiling: `ceiling`, or the ceiling of the chip's main memory.

    For payloads that fit into caches, `ceiling` is returned.
    """
    bytes_per_s = (
        chip.memory_bytes_per_s / chip.devices_per_chip * (case.group_size - 1) / case.group_size
    )
    if case.payload_bytes < _MORE_THAN_CACHES_BYTES or bytes_per_s >= ceiling.bytes_per_s:
        return ceiling
    return replace(
        ceiling,
        bytes_per_s=bytes_per_s,
        most_bytes_per_s=max(bytes_per_s, ceiling.most_bytes_per_s),
        text=f"memory of {bandwidth_text(chip.memory_bytes_per_s / chip.devices_per_chip)}",
    )
