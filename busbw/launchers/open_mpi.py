"""Open MPI: a process that `mpirun` or `mpiexec` started.

It starts rank 0 on the host of mpirun, unless a host file says otherwise. Open MPI 4 tells its
processes the addresses of that host, Open MPI 5 its name, within the name of the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .base import Launched, rank_of, whole

_RANK = "OMPI_COMM_WORLD_RANK"
_COUNT = "OMPI_COMM_WORLD_SIZE"
_LOCAL_COUNT = "OMPI_COMM_WORLD_LOCAL_SIZE"
# Of Open MPI 4, such as 1531576320.0;tcp://10.96.0.1,10.148.0.1:34911;tcp6://[2001:db8::1]:43370
_URI = "OMPI_MCA_orte_hnp_uri"
_ADDRESS = re.compile(r"tcp://([^,:;]+)|tcp6://\[([^,\]]+)")
# Of Open MPI 4 and 5; of 5 such as prterun-host-a-4093@1, with mpirun's host and process id.
_JOB = "PMIX_NAMESPACE"
_NAMED = re.compile(r"prterun-(.+)-\d+@\d+")
_HERE = "PMIX_HOSTNAME"

_LOOPBACK = "127.0.0.1"


def launched(environment: Mapping[str, str]) -> Launched | None:
    """What mpirun says of this process. Raises LauncherError for variables that are none of it."""
    if not all(environment.get(name) for name in (_RANK, _COUNT)):
        return None
    count = whole(environment, _COUNT, least=1)
    local = whole(environment, _LOCAL_COUNT, least=1) if _LOCAL_COUNT in environment else 0
    host, unnamed = (_LOOPBACK, "") if local == count else _host(environment)
    return Launched(
        launcher="Open MPI",
        rank=rank_of(environment, _RANK, count),
        count=count,
        job=environment.get(_JOB, ""),
        host=host,
        unnamed=unnamed,
        one_host=local == count,
    )


def _host(environment: Mapping[str, str]) -> tuple[str, str]:
    if found := _ADDRESS.search(environment.get(_URI, "")):
        return found[1] or found[2], ""
    if not (found := _NAMED.fullmatch(environment.get(_JOB, ""))):
        return "", "Open MPI does not say on which host rank 0 is"
    here = environment.get(_HERE, "")
    if environment[_RANK] == "0" and here not in ("", found[1]):
        return "", f"rank 0 is on {here}, and not on mpirun's host, {found[1]}"
    return found[1], ""
