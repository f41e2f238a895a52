"""The programs of `steps`, as compilers really compiled them. No test lives here."""

from __future__ import annotations

import gzip
from pathlib import Path

DUMPS = Path(__file__).parent / "dumps"
MESHES = {"tensor_parallel": {"data": 4, "model": 2}, "experts": {"expert": 8}}


def dump(name: str) -> str:
    """Return the optimized HLO of a step for a chip, such as ``fsdp.h100``."""
    return gzip.decompress((DUMPS / f"{name}.hlo.gz").read_bytes()).decode()


def mesh_of(name: str) -> dict[str, int]:
    """Return the extents of the axes of a step's mesh."""
    return MESHES.get(name.partition(".")[0], {"data": 8})
