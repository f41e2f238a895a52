"""A ring through all ranks, laid over hosts: which links its steps go over."""

from __future__ import annotations

from .cost import Flow, Level, Part, Placement


def ring_part(placement: Placement, *, steps: int, sent_bytes: float) -> Part:
    """Steps in which every rank sends to the next and takes from the one before, all at once.

    Ranks follow each other host by host, so that one of a host's ranks sends to another host and
    one takes from another: the host's link carries as much as a rank's. All links are used in each
    step, and the slower level decides.
    """
    levels = [Level.INTRA] if placement.per_host > 1 else []
    levels += [Level.INTER] if placement.hosts > 1 else []
    return Part(
        flows=tuple(
            Flow(level=level, steps=steps, out_bytes=sent_bytes, in_bytes=sent_bytes)
            for level in levels
        )
    )
