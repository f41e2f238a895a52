"""Calculate ceilings: the busbw that links and memory allow, derived from topology alone.

An all-reduce of S bytes over c chips with n ranks moves 2 (c-1) S bytes over links that carry C
bytes per second together, so that busbw <= (n-1)/n C/(c-1). With k colors (routes) C is at
most k b c; b is the bandwidth of a link. Memory with M bytes per second allows (n-1)/n M. A switch
that adds up allows 2 (n-1)/n L; L is the bandwidth of all links of a chip. GPUs on several hosts
also have network cards, which carry at most L. docs/measuring.md gives the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.machine import EnvironmentKey, mesh_shape
from busbw.model.verdict import Ceiling
from busbw.model.words import MIB, rate_text

from .chips import Chip, Confidence, chip_of, device_kind_of_type

# A payload of this size is larger than any on-chip memory or cache, so each collective uses main
# memory.
_MORE_THAN_CACHES_BYTES = 256 * MIB


def ceiling_of(
    key: EnvironmentKey, case: Case, algorithm: Mapping[str, str] | None = None
) -> Ceiling | None:
    """Return the busbw that links and memory allow a case; None if no bandwidth is trusted.

    There is also no ceiling for a collective along a part of the axes, between hosts of GPUs, for
    all-to-all and permute, and if ranks share a device, so that data crosses no link.

    Args:
        key: The device, the ranks and the mesh that the case was measured on.
        case: The measured case.
        algorithm: The compiler's published choices; ``colors`` can lower the ceiling.

    """
    chip = chip_of(key.device_kind) if not key.shared else None
    if chip is None or chip.confidence is Confidence.LOW:
        return None
    if case.axes or not COLLECTIVES[case.collective].uses_all_links:
        return None
    if chip.shapes:
        ceiling = _torus_ceiling(chip, key, algorithm or {})
    else:
        ceiling = _switch_ceiling(chip, key, case)
    return _limit_by_memory(ceiling, chip, case) if ceiling is not None else None


def ceiling_of_all_links(key: EnvironmentKey, case: Case) -> Ceiling | None:
    """Return a generous ceiling of a case: the busbw of all links of all chips at the same time.

    The ceiling holds for any shape of slice. It is doubled if the stated bandwidth is not trusted,
    or if GPUs are on several hosts. Returns None for an unknown chip, for ranks on a single chip,
    and for a shared device, where data crosses no link.
    """
    chip = chip_of(key.device_kind) or chip_of(device_kind_of_type(key.device_kind))
    chips = math.ceil(case.group_size / chip.devices_per_chip) if chip is not None else 0
    if chip is None or chips < 2 or key.shared:
        return None
    is_torus = bool(chip.shapes)
    is_doubled = chip.confidence is not Confidence.HIGH or (key.hosts > 1 and not is_torus)
    factor = (case.group_size - 1) / case.group_size * (chips / (chips - 1) if is_torus else 2)
    most_bytes_per_s = factor * chip.link_bytes_per_s * (2 if is_doubled else 1)
    return Ceiling(
        bytes_per_s=most_bytes_per_s,
        most_bytes_per_s=most_bytes_per_s,
        text=f"all {chip.links} links of {rate_text(chip.link_bytes_per_s / chip.links)} "
        "of every chip at once, whatever the shape"
        f"{', doubled for what is not known' if is_doubled else ''}",
        sure=True,
    )


def _torus_ceiling(chip: Chip, key: EnvironmentKey, algorithm: Mapping[str, str]) -> Ceiling | None:
    """Return the ceiling of the links of a TPU slice.

    Returns None if the mesh does not have the shape of the slice, and for a slice of one chip.
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
        f"{used_links / chips:.2g} of {chip.links} links of {rate_text(bytes_per_s_of_link)} in use"
    )
    chosen = f", {colors} colors" if links_of_algorithm < used_links else ""
    return Ceiling(
        bytes_per_s=factor * links_of_algorithm * bytes_per_s_of_link,
        most_bytes_per_s=factor * used_links * bytes_per_s_of_link,
        text=f"links: {mean}{chosen}",
        sure=chip.confidence is Confidence.HIGH,
    )


def _switch_ceiling(chip: Chip, key: EnvironmentKey, case: Case) -> Ceiling | None:
    """Return the ceiling of GPUs that a switch connects; None for GPUs on several hosts."""
    if key.hosts > 1:
        return None
    in_switch = chip.can_reduce_in_switch and COLLECTIVES[case.collective].can_add_in_switch
    with_switch = 2 * (key.ranks - 1) / key.ranks * chip.link_bytes_per_s
    return Ceiling(
        bytes_per_s=chip.link_bytes_per_s,
        most_bytes_per_s=max(chip.link_bytes_per_s, with_switch if in_switch else 0.0),
        text=f"links: {chip.links} of {rate_text(chip.link_bytes_per_s / chip.links)}",
        sure=chip.confidence is Confidence.HIGH,
        in_switch=in_switch,
    )


def count_directed_links(mesh: str) -> int:
    """Count the links between the chips of a slice, each link once in each direction.

    Neighboring chips share a link, and an axis that wraps around has a link between its ends. With
    two axes, an axis of 16 chips is the whole length of a pod of v5e or v6e, and wraps around. With
    three axes, all axes wrap around if the slice consists of whole cubes of 4 x 4 x 4 chips, which
    optical switches connect.
    """
    extents = mesh_shape(mesh)
    chips = math.prod(extents)
    whole_cubes = all(extent % 4 == 0 for extent in extents)
    wraps_around = [extent == 16 if len(extents) == 2 else whole_cubes for extent in extents]
    return sum(
        2 * (chips // extent) * (extent if wraps else extent - 1)
        for extent, wraps in zip(extents, wraps_around, strict=True)
    )


def _limit_by_memory(ceiling: Ceiling, chip: Chip, case: Case) -> Ceiling:
    """Return the ceiling of the main memory if it is lower than `ceiling`, else `ceiling`.

    The main memory is no limit for payloads that fit into caches.
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
        text=f"memory of {rate_text(chip.memory_bytes_per_s / chip.devices_per_chip)}",
    )
