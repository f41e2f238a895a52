"""What a page says of the nights of machines: the heat map, changed cases, all others in a line."""

from __future__ import annotations

from collections.abc import Sequence

from ..nights import MachineNights
from .content import Section


def machine_sections(machines: Sequence[MachineNights]) -> tuple[Section, ...]:
    """A section for each machine."""
    return ()
