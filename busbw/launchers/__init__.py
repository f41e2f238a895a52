"""What a launcher tells a process that it started: its rank, how many there are, where rank 0 is.

One file for each launcher, which reads the environment it is given and returns a `Launched`. Opens
no port, starts nothing, and knows no option of a command. What is outside the environment, such as
Google's metadata server, is asked through a function that is handed in.

Open MPI is asked before Slurm: its daemons on other hosts are a step of Slurm where it runs inside
an allocation, and their variables, which its processes inherit, do not count those processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from . import kubernetes, open_mpi, slurm, tpu
from .base import Launched, LauncherError

__all__ = ["FINDERS", "Finder", "Launched", "LauncherError", "launched"]

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
    """What the first launcher says that started this process; None where none of them did.

    Raises LauncherError for what its variables cannot mean.
    """
    for find in finders.values():
        found = find(environment)
        if found is not None:
            return found
    return None
