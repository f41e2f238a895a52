"""Links of a host's inside and between hosts, from options: by name, or by rate and latency."""

from __future__ import annotations

import argparse
from dataclasses import replace

from busbw import costmodel, hardware
from busbw.costmodel import Level, Link

from . import quantities
from .workload import AskedWrongly


def links_of(options: argparse.Namespace) -> dict[Level, Link]:
    """The links that were named, one or both levels. Raises AskedWrongly."""
    if options.latency is not None and options.bandwidth is None:
        raise AskedWrongly("--latency belongs to --bandwidth; --intra and --inter have their own")
    if options.bandwidth is not None:
        if options.intra is not None or options.inter is not None:
            raise AskedWrongly("--bandwidth is one link for everything: without --intra, --inter")
        one = _link("--bandwidth", options.bandwidth, full_duplex=not options.half_duplex)
        one = replace(one, latency_s=options.latency or one.latency_s)
        return {Level.INTRA: one, Level.INTER: one}
    asked = {Level.INTRA: options.intra, Level.INTER: options.inter}
    return {
        level: _link(f"--{level.value}", text, full_duplex=not options.half_duplex)
        for level, text in asked.items()
        if text is not None
    }


def known() -> dict[str, costmodel.NamedLink]:
    """All links by name, those of chips with a trusted figure too; capitals do not count."""
    chips = [
        costmodel.of_chip(chip.device_kind, chip.link_bytes_per_s, chip.source)
        for chip in hardware.CHIPS
        if chip.link_bytes_per_s is not None
    ]
    return {link.name.lower(): link for link in (*costmodel.LINKS, *chips)}


def _link(option: str, text: str, *, full_duplex: bool) -> Link:
    what, _, latency = text.partition(",")
    named = known().get(what.strip().lower())
    try:
        bytes_per_s = named.bytes_per_s if named else quantities.rate(what.strip())
        latency_s = quantities.duration(latency.strip()) if latency else 0.0
    except ValueError as error:
        names = ", ".join(one.name for one in known().values())
        raise AskedWrongly(f"{option}: {error}; names are {names}") from error
    return Link(
        name=named.name if named else what.strip(),
        bytes_per_s=bytes_per_s,
        latency_s=latency_s,
        full_duplex=full_duplex,
    )
