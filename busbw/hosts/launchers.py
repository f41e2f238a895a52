"""What a launcher tells a process that it started: its rank, how many there are, where rank 0 is.

A function for each launcher reads the environment it is given, opens no port and starts nothing.
Open MPI is asked before Slurm: where it runs inside an allocation, its processes inherit variables
of Slurm's that do not count them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from busbw.model.words import plural


class LauncherError(ValueError):
    """Variables that cannot be what a launcher sets; the message is what the user reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """What `launcher`, such as ``Slurm``, says of this process.

    `count` is None where it does not say how many processes there are. Rank 0 is on `host`; where
    that is empty, `unnamed` says why. `job` is the same for all processes of one start, and another
    for the next where the launcher can tell them apart. `one_host`: all processes are on this one.
    """

    launcher: str
    rank: int
    count: int | None
    job: str
    host: str = ""
    unnamed: str = ""
    one_host: bool = False

    @property
    def started(self) -> str:
        count = "an unknown number of processes"
        if self.count is not None:
            count = plural(self.count, "process")
        return f"{self.launcher} started {count}"


def _whole(environment: Mapping[str, str], name: str, least: int = 0) -> int:
    """The number in a variable. Raises LauncherError for anything else, also for none."""
    text = environment.get(name, "").strip()
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise LauncherError(f"{name}={text[:60]!r}; accepted is a whole number from {least} on")
    return int(text)


def _rank(environment: Mapping[str, str], name: str, count: int) -> int:
    """The rank in a variable. Raises LauncherError unless it is below `count`."""
    rank = _whole(environment, name)
    if rank >= count:
        raise LauncherError(f"{name}={rank}; of {plural(count, 'process')} ranks are below {count}")
    return rank


_MPI_RANK, _MPI_COUNT = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
_MPI_LOCAL_COUNT = "OMPI_COMM_WORLD_LOCAL_SIZE"
# Of Open MPI 4, such as 1531576320.0;tcp://10.96.0.1,10.148.0.1:34911;tcp6://[2001:db8::1]:43370
_MPI_URI = "OMPI_MCA_orte_hnp_uri"
_MPI_ADDRESS = re.compile(r"tcp://([^,:;]+)|tcp6://\[([^,\]]+)")
# Of Open MPI 4 and 5; of 5 such as prterun-host-a-4093@1, with mpirun's host and process id.
_MPI_JOB, _MPI_HERE = "PMIX_NAMESPACE", "PMIX_HOSTNAME"
_MPI_NAMED = re.compile(r"prterun-(.+)-\d+@\d+")


def open_mpi(environment: Mapping[str, str]) -> Launched | None:
    """What `mpirun` or `mpiexec` says of this process. Raises LauncherError.

    It starts rank 0 on the host of mpirun, unless a host file says otherwise. Open MPI 4 tells its
    processes the addresses of that host, Open MPI 5 its name, within the name of the job.
    """
    if not all(environment.get(name) for name in (_MPI_RANK, _MPI_COUNT)):
        return None
    count = _whole(environment, _MPI_COUNT, least=1)
    has_local = _MPI_LOCAL_COUNT in environment
    one_host = has_local and _whole(environment, _MPI_LOCAL_COUNT, least=1) == count
    host, unnamed = ("127.0.0.1", "") if one_host else _mpi_host(environment)
    return Launched(
        launcher="Open MPI",
        rank=_rank(environment, _MPI_RANK, count),
        count=count,
        job=environment.get(_MPI_JOB, ""),
        host=host,
        unnamed=unnamed,
        one_host=one_host,
    )


def _mpi_host(environment: Mapping[str, str]) -> tuple[str, str]:
    """The host of rank 0, or why there is none."""
    if found := _MPI_ADDRESS.search(environment.get(_MPI_URI, "")):
        return found[1] or found[2], ""
    if not (found := _MPI_NAMED.fullmatch(environment.get(_MPI_JOB, ""))):
        return "", "Open MPI does not say on which host rank 0 is"
    here = environment.get(_MPI_HERE, "")
    if environment[_MPI_RANK] == "0" and here not in ("", found[1]):
        return "", f"rank 0 is on {here}, and not on mpirun's host, {found[1]}"
    return found[1], ""


_STEP_COUNT, _STEP_RANK = "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"
_STEP_NODES, _STEP_HERE = "SLURM_STEP_NODELIST", "SLURMD_NODENAME"
_STEP = ("SLURM_JOB_ID", "SLURM_STEP_ID")
_RANGE = r"\d+(?:-\d+)?"
_NODE = re.compile(rf"(?:[^\[\],]|\[{_RANGE}(?:,{_RANGE})*\])+")


def slurm(environment: Mapping[str, str]) -> Launched | None:
    """What `srun` says of this task of a step, by variables as in its manual. Raises LauncherError.

    The script of `sbatch` and the shell of `salloc` have variables of the job, SLURM_PROCID among
    them, and are no task of a step: they have no SLURM_STEP_NUM_TASKS.
    """
    if not all(environment.get(name) for name in (_STEP_COUNT, _STEP_RANK, _STEP_NODES)):
        return None
    count = _whole(environment, _STEP_COUNT, least=1)
    rank = _rank(environment, _STEP_RANK, count)
    host, *others = itertools.islice(nodes(environment[_STEP_NODES]), 2)
    here = environment.get(_STEP_HERE, "")
    unnamed = ""
    if rank == 0 and here and here != host:
        # Such as --distribution=arbitrary, whose list of nodes is in another order.
        unnamed = f"rank 0 is on {here}, and not on the first node of the step, {host}"
    return Launched(
        launcher="Slurm",
        rank=rank,
        count=count,
        job=".".join(environment.get(name, "") for name in _STEP),
        host="" if unnamed else host,
        unnamed=unnamed,
        one_host=not others,
    )


def nodes(text: str) -> Iterator[str]:
    """The nodes of a list such as ``n[01-04,7],m3``, in its order. Raises LauncherError."""
    at = 0
    while at <= len(text):
        found = _NODE.match(text, at)
        if found is None or text[found.end() : found.end() + 1] not in ("", ","):
            raise _no_list(text)
        yield from _expanded(found[0], text)
        at = found.end() + 1


def _expanded(name: str, text: str) -> Iterator[str]:
    """The last brackets change fastest; nothing is made before it is asked for."""
    before, bracket, rest = name.partition("[")
    if not bracket:
        yield name
        return
    inside, _, after = rest.partition("]")
    ends = [(begin, end or begin) for begin, end in re.findall(r"(\d+)(?:-(\d+))?", inside)]
    if any(int(begin) > int(end) for begin, end in ends):
        raise _no_list(text)
    for begin, end in ends:
        for number in range(int(begin), int(end) + 1):
            for others in _expanded(after, text):
                yield f"{before}{number:0{len(begin)}d}{others}"


def _no_list(text: str) -> LauncherError:
    words = "is no list of nodes; accepted are lists such as n[01-04,7],m3"
    return LauncherError(f"{_STEP_NODES}={text[:60]!r} {words}")


# The hosts of a TPU slice, on each of which the same command is started. GKE, and TPU VMs that set
# them, have variables; else Google's metadata server knows, which is asked only where TPU chips are
# attached. No framework is asked: one that waits for other hosts hangs.
HOST_NAMES = "TPU_WORKER_HOSTNAMES"
RANK = "TPU_WORKER_ID"
ENDPOINTS = "worker-network-endpoints"
NUMBER = "agent-worker-number"
_ALONE = ("TPU_PROCESS_BOUNDS", "1,1,1")
_WITHOUT_METADATA = "TPU_SKIP_MDS_QUERY"
_METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
_METADATA_S = 2.0


def metadata(name: str) -> str:
    """An attribute of this machine as Google's metadata server has it; empty without one."""
    # Imported where it is asked: it takes as long as all else here.
    import urllib.error
    import urllib.request

    request = urllib.request.Request(_METADATA + name, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_S) as answer:
            text: str = answer.read(2**20).decode(errors="replace")
            return text
    except (urllib.error.URLError, OSError):
        return ""


def has_chips(devices: Path = Path("/dev")) -> bool:
    return any(devices.glob("accel[0-9]*")) or any(devices.glob("vfio/[0-9]*"))


def hosts_of_slice(
    environment: Mapping[str, str],
    *,
    chips: Callable[[], bool] = has_chips,
    asked: Callable[[str], str] = metadata,
) -> tuple[tuple[str, ...], str]:
    """And who says so; none if unknown. The metadata server is `asked` where there are `chips`."""
    name, alone = _ALONE
    if environment.get(name) == alone:
        return (), name
    names = _listed(environment.get(HOST_NAMES, ""))
    if names or environment.get(_WITHOUT_METADATA) or not chips():
        return names, HOST_NAMES
    return tuple(_address(one) for one in _listed(asked(ENDPOINTS))), ENDPOINTS


def _listed(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _address(endpoint: str) -> str:
    """The address in an endpoint: its third field between colons; empty where it has none."""
    return [*endpoint.split(":"), "", ""][2]


_SLICES = "MEGASCALE_NUM_SLICES"


def tpu_slice(
    environment: Mapping[str, str],
    *,
    chips: Callable[[], bool] = has_chips,
    asked: Callable[[str], str] = metadata,
) -> Launched | None:
    """None without a slice. Raises LauncherError for one of several, or without numbered hosts."""
    hosts, source = hosts_of_slice(environment, chips=chips, asked=asked)
    if not hosts:
        return None
    if environment.get(_SLICES) and _whole(environment, _SLICES) > 1:
        raise LauncherError(
            f"{_SLICES}={environment[_SLICES]}: the hosts of one slice do not know those of the "
            "others; accepted are --rank=I, --agents=N and --session=HOST:PORT, counted over all "
            "slices"
        )
    rank = 0
    if len(hosts) > 1:
        name = RANK if source == HOST_NAMES else NUMBER
        numbers = environment if name == RANK else {name: asked(name)}
        rank = _rank(numbers, name, len(hosts))
    return Launched(
        launcher="the TPU slice",
        rank=rank,
        count=len(hosts),
        job=",".join(hosts),
        host=hosts[0],
        unnamed="" if hosts[0] else f"{source} has no address of rank 0",
        one_host=len(set(hosts)) == 1,
    )


_INDEX = "JOB_COMPLETION_INDEX"


def kubernetes(environment: Mapping[str, str]) -> Launched | None:
    """The rank of a pod of an indexed Job, such as a JobSet makes. Raises LauncherError.

    A pod knows its index and neither how many there are nor their names, which the manifest gives
    as options. On TPUs GKE says more, in variables of the slice.
    """
    if not environment.get(_INDEX):
        return None
    return Launched(
        launcher="Kubernetes",
        rank=_whole(environment, _INDEX),
        count=None,
        job="",
        unnamed=f"{_INDEX} does not say which pod rank 0 is",
    )


Finder: TypeAlias = Callable[[Mapping[str, str]], Launched | None]

# By the names that --launcher has for them, in the order in which they are asked.
FINDERS: Mapping[str, Finder] = {
    "open-mpi": open_mpi,
    "slurm": slurm,
    "tpu": tpu_slice,
    "kubernetes": kubernetes,
}


def launched(
    environment: Mapping[str, str], finders: Mapping[str, Finder] = FINDERS
) -> Launched | None:
    """None where none of them did. Raises LauncherError for what its variables cannot mean."""
    return next(filter(None, (find(environment) for find in finders.values())), None)
