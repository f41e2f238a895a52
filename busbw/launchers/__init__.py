"""What a launcher tells a process that it started: its rank, how many there are, where rank 0 is.

One file for each launcher, which reads the environment it is given, opens no port and starts
nothing. Open MPI is asked before Slurm: where it runs inside an allocation, its processes inherit
variables of Slurm's that do not count them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from . import kubernetes, open_mpi, slurm, tpu
from .base import Launched

Finder: TypeAlias = Callable[[Mapping[str, str]], Launched | None]

# By the names that --launcher has for them, in the order in which they are asked.
FINDERS: Mapping[str, Finder] = {
    "open-mpi": open_mpi.launched,
    "slurm": slurm.launched,
    "tpu": tpu.launched,
    "kubernetes": kubernetes.launched,
}


def launched(
    environment: Mapping[str, str], finders: Mapping[str, Finder] = FINDERS
) -> Launched | None:
    """None where none of them did. Raises LauncherError for what its variables cannot mean."""
    for find in finders.values():
        found = find(environment)
        if found is not None:
            return found
    return None
