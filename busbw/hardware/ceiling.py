"""The bus bandwidth that links and memory allow: a bound derived from topology, no measurement.

Of S bytes over c chips and n ranks links carry 2 (c-1) S at C bytes per second, so that busbw <=
(n-1)/n C/(c-1); with k colors C is at most k b c, b one link's bandwidth. Memory of M bytes per
second allows (n-1)/n M, a switch that adds up 2 (n-1)/n L, L what a chip sends; GPUs on several
hosts have network cards besides, which carry no more than L. docs/measuring.md says why.
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

from .chips import Chip, Confidence, chip_of, kind_of_type

# Larger than any chip's own memory or cache, so that every round goes through the main memory.
_BEYOND_CACHES_BYTES = 256 * MIB


def ceiling_of(
    key: EnvironmentKey, case: Case, algorithm: Mapping[str, str] | None = None
) -> Ceiling | None:
    """Return the busbw that links and memory allow `case` on `key`; None without a trusted figure.

    `algorithm` is the choice that the compiler published; its ``colors`` count. There is no ceiling
    for a collective along a part of the axes, between hosts of GPUs, for all-to-all and permute,
    and where ranks share a device, so that no link is passed.
    """
    chip = chip_of(key.device_kind) if not key.shared else None
    if chip is None or chip.confidence is Confidence.LOW or chip.link_bytes_per_s is None:
        return None
    if case.axes or not COLLECTIVES[case.collective].passes_all_links:
        return None
    if chip.shapes:
        ceiling = _of_torus(chip, chip.link_bytes_per_s, key, algorithm or {})
    else:
        ceiling = _of_switch(chip, chip.link_bytes_per_s, key, case)
    return _with_memory(ceiling, chip, case) if ceiling is not None else None


def bound_of(key: EnvironmentKey, case: Case) -> Ceiling | None:
    """Return the busbw that all links of the chips can give `case`, in any shape of slice.

    The bound is twice the figure if the figure is not trusted, or if GPUs are on several hosts.
    None for an unknown chip, and within one chip or on a shared one, where nothing passes a link.
    """
    if key.shared:
        return None
    chip = chip_of(key.device_kind) or chip_of(kind_of_type(key.device_kind))
    each = (chip.link_bytes_per_s or chip.doubted_bytes_per_s) if chip is not None else None
    chips = math.ceil(case.group_size / chip.devices) if chip is not None else 0
    if chip is None or each is None or chips < 2:
        return None
    torus = bool(chip.shapes)
    doubled = chip.confidence is not Confidence.HIGH or (key.hosts > 1 and not torus)
    share = (case.group_size - 1) / case.group_size * (chips / (chips - 1) if torus else 2)
    most_bytes_per_s = share * each * (2 if doubled else 1)
    links = f"all {chip.links} links of {rate_text(each / chip.links)} of every chip at once"
    return Ceiling(
        bytes_per_s=most_bytes_per_s,
        most_bytes_per_s=most_bytes_per_s,
        text=f"{links}, whatever the shape{', doubled for what is not known' if doubled else ''}",
        sure=True,
    )


def _of_torus(
    chip: Chip, link_bytes_per_s: float, key: EnvironmentKey, algorithm: Mapping[str, str]
) -> Ceiling | None:
    chips = key.ranks // chip.devices
    if not key.mesh or math.prod(mesh_shape(key.mesh)) != chips or chips < 2:
        return None
    one_bytes_per_s = link_bytes_per_s / chip.links
    used = directed_links(key.mesh)
    colors = int(algorithm["colors"]) if algorithm.get("colors", "").isdecimal() else 0
    by_algorithm = min(used, colors * chips) if colors else used
    share = (key.ranks - 1) / key.ranks / (chips - 1)
    mean = f"{used / chips:.2g} of {chip.links} links of {rate_text(one_bytes_per_s)} in use"
    chosen = f", {colors} colors" if by_algorithm < used else ""
    return Ceiling(
        bytes_per_s=share * by_algorithm * one_bytes_per_s,
        most_bytes_per_s=share * used * one_bytes_per_s,
        text=f"links: {mean}{chosen}",
        sure=chip.confidence is Confidence.HIGH,
    )


def _of_switch(
    chip: Chip, link_bytes_per_s: float, key: EnvironmentKey, case: Case
) -> Ceiling | None:
    if key.hosts > 1:
        return None
    in_switch = chip.reduces_in_switch and COLLECTIVES[case.collective].added_in_switch
    with_switch = 2 * (key.ranks - 1) / key.ranks * link_bytes_per_s
    return Ceiling(
        bytes_per_s=link_bytes_per_s,
        most_bytes_per_s=max(link_bytes_per_s, with_switch) if in_switch else link_bytes_per_s,
        text=f"links: {chip.links} of {rate_text(link_bytes_per_s / chip.links)}",
        sure=chip.confidence is Confidence.HIGH,
        in_switch=in_switch,
    )


def directed_links(shape: str) -> int:
    """Count the links in each direction; two chips share a link, and on a closed axis each has two.

    Of two axes, one of 16 chips is the whole length of a pod of v5e or v6e and closes. Of three
    axes, the slices of whole cubes of 4 x 4 x 4 chips close, through the optical switches between
    cubes.
    """
    extents = mesh_shape(shape)
    chips = math.prod(extents)
    whole_cubes = all(extent % 4 == 0 for extent in extents)
    closed = [extent == 16 if len(extents) == 2 else whole_cubes for extent in extents]
    return sum(
        2 * (chips // extent) * (extent if closes else extent - 1)
        for extent, closes in zip(extents, closed, strict=True)
    )


def _with_memory(ceiling: Ceiling, chip: Chip, case: Case) -> Ceiling:
    bytes_per_s = chip.memory_bytes_per_s / chip.devices * (case.group_size - 1) / case.group_size
    if case.payload_bytes < _BEYOND_CACHES_BYTES or bytes_per_s >= ceiling.bytes_per_s:
        return ceiling
    return replace(
        ceiling,
        bytes_per_s=bytes_per_s,
        most_bytes_per_s=max(bytes_per_s, ceiling.most_bytes_per_s),
        text=f"memory of {rate_text(chip.memory_bytes_per_s / chip.devices)}",
    )
