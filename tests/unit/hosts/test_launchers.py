"""Launchers: variables as real ones set them, and odd ones; and which of them is asked first."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.hosts.launchers import (
    FINDERS,
    Finder,
    Launched,
    LauncherError,
    has_chips,
    hosts_of_slice,
    kubernetes,
    launched,
    nodes,
    open_mpi,
    slurm,
    tpu_slice,
)

SLURM = {
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
TPU = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b"}
KUBERNETES = {"JOB_COMPLETION_INDEX": "5"}


def test_an_environment_of_no_launcher_has_none() -> None:
    others = {name: find for name, find in FINDERS.items() if name != "tpu"}
    assert launched({"HOME": "/", "SLURM_PROCID": "0", "PATH": ""}, others) is None


def test_what_is_nearer_to_the_process_is_asked_first() -> None:
    found = [
        launched({**KUBERNETES, **TPU, **SLURM, **OPEN_MPI}),
        launched({**KUBERNETES, **TPU, **SLURM}),
        launched({**KUBERNETES, **TPU}),
    ]
    assert [one and one.launcher for one in found] == ["Open MPI", "Slurm", "the TPU slice"]


def test_daemons_of_open_mpi_that_slurm_starts_do_not_count() -> None:
    """In an allocation mpirun starts a daemon on each other host, as a step of its own."""
    found = launched({**OPEN_MPI, **SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})
    assert found is not None and (found.launcher, found.rank, found.count) == ("Open MPI", 3, 4)


def test_it_says_how_many_it_has_started() -> None:
    def started(count: int | None) -> str:
        return Launched(launcher="Slurm", rank=0, count=count, job="").started

    assert started(1) == "Slurm started 1 process"
    assert started(2) == "Slurm started 2 processes"
    assert started(None) == "Slurm started an unknown number of processes"


OPEN_MPI_4 = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_MCA_ess_base_jobid": "1662058497",
    "OMPI_MCA_orte_hnp_uri": (
        "1662058496.0;tcp://192.0.2.2,172.17.0.1:38657;tcp6://[fd00::2]:59639"
    ),
    "PMIX_HOSTNAME": "host-b",
    "PMIX_NAMESPACE": "1662058497",
    "PMIX_SERVER_URI41": "1662058496.1;tcp4://127.0.0.1:38615",
}
OPEN_MPI_5 = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "PMIX_HOSTNAME": "host-b",
    "PMIX_NAMESPACE": "prterun-host-a-4093@1",
    "PMIX_SERVER_URI41": "prterun-host-a-4093@0.1;tcp4://127.0.0.1:56263",
}
# What srun sets for a task, of which most is not read.
SRUN = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOBID": "4711",
    "SLURM_JOB_NODELIST": "n[01-04]",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.9",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_NPROCS": "2",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_STEP_ID": "3",
    "SLURM_STEP_NODELIST": "n[02-03]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_TASKS_PER_NODE": "1(x4)",
    "SLURMD_NODENAME": "n03",
}
# The script of `sbatch`, before any srun.
SBATCH = {name: text for name, text in SRUN.items() if not name.startswith("SLURM_STEP_")} | {
    "SLURM_PROCID": "0",
    "SLURMD_NODENAME": "n01",
}
ENDPOINTS = "unused:8470:10.0.0.2,unused:8470:10.0.0.3,unused:8470:10.0.0.4"
GKE = {
    "TPU_WORKER_ID": "2",
    "TPU_WORKER_HOSTNAMES": "job-0.svc,job-1.svc,job-2.svc,job-3.svc",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "JOB_COMPLETION_INDEX": "2",
}


def _nobody(name: str) -> str:
    raise AssertionError("the metadata server is not to be asked")


def _chips() -> bool:
    return True


def _no_chips() -> bool:
    return False


def _in_metadata(number: str = "1", endpoints: str = ENDPOINTS) -> Finder:
    """A slice by the metadata server, and not by variables."""
    said = {"worker-network-endpoints": endpoints, "agent-worker-number": number}
    return functools.partial(tpu_slice, chips=_chips, asked=said.__getitem__)


_by_variables = functools.partial(tpu_slice, chips=_no_chips, asked=_nobody)
_RANK, _COUNT = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
_LOCAL, _URI = "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_orte_hnp_uri"
_NODES = "SLURM_STEP_NODELIST"
_ADDRESSES = {
    "1531576320.0;tcp://10.96.0.1,10.148.0.1,10.108.0.1:34911": "10.96.0.1",
    "1314521088.0;tcp6://[fe80::b9b:ac5d,2620:10d::2]:43370": "fe80::b9b:ac5d",
    "1314521088.0;tcp6://[2620:10d::2]:43370": "2620:10d::2",
}


def says(
    find: Finder, environment: Mapping[str, str], **fields: object
) -> tuple[Finder, Mapping[str, str], dict[str, object]]:
    """Fields of what it finds."""
    return find, environment, fields


LOOPBACK = "127.0.0.1"
NO_POD = "JOB_COMPLETION_INDEX does not say which pod rank 0 is"
NO_HOST = "Open MPI does not say on which host rank 0 is"
OTHER_HOST = "rank 0 is on host-b, and not on mpirun's host, host-a"
OTHER_NODE = "rank 0 is on n03, and not on the first node of the step, n02"
NO_ADDRESS = "worker-network-endpoints has no address of rank 0"
FIRST = {**SRUN, "SLURM_PROCID": "0"}
SAYS = [
    says(kubernetes, KUBERNETES, rank=5, count=None, host="", unnamed=NO_POD),
    says(open_mpi, OPEN_MPI_4, rank=1, count=2, host="192.0.2.2", job="1662058497"),
    *(says(open_mpi, {**OPEN_MPI_4, _URI: uri}, host=host) for uri, host in _ADDRESSES.items()),
    says(open_mpi, OPEN_MPI_5, rank=1, count=2, host="host-a", job="prterun-host-a-4093@1"),
    says(open_mpi, {**OPEN_MPI_5, _RANK: "0"}, host="", unnamed=OTHER_HOST),
    says(open_mpi, OPEN_MPI_4, one_host=False, unnamed=""),
    says(open_mpi, {**OPEN_MPI_4, _LOCAL: "2"}, host=LOOPBACK, one_host=True),
    says(open_mpi, {**OPEN_MPI_5, _LOCAL: "2"}, host=LOOPBACK, one_host=True),
    *(
        says(open_mpi, {**OPEN_MPI_5, "PMIX_NAMESPACE": job}, host="", unnamed=NO_HOST)
        for job in ("", "1662058497", "mpirun")
    ),
    says(slurm, SRUN, rank=1, count=2, host="n02", job="4711.3", one_host=False),
    says(slurm, {**SRUN, _NODES: "n02"}, one_host=True),
    says(slurm, {**SRUN, "SLURM_STEP_ID": "4"}, job="4711.4"),
    says(slurm, FIRST, host="", unnamed=OTHER_NODE),
    says(slurm, {**FIRST, "SLURMD_NODENAME": "n02"}, host="n02", unnamed=""),
    says(_by_variables, GKE, rank=2, count=4, host="job-0.svc", one_host=False),
    says(_by_variables, GKE, job=GKE["TPU_WORKER_HOSTNAMES"]),
    says(_by_variables, {**GKE, "MEGASCALE_NUM_SLICES": "1"}, count=4),
    says(_by_variables, {"TPU_WORKER_HOSTNAMES": "localhost"}, rank=0, count=1),
    says(_in_metadata("1\n"), {}, rank=1, count=3, host="10.0.0.2"),
    says(_in_metadata("0", "a:1,b:2"), {}, count=2, host="", unnamed=NO_ADDRESS),
]


@pytest.mark.parametrize(("find", "environment", "said"), SAYS)
def test_each_launcher_says_rank_and_count_and_where_rank_0_is_or_why_not(
    find: Finder, environment: Mapping[str, str], said: dict[str, object]
) -> None:
    found = find(environment)
    assert {name: getattr(found, name) for name in said} == said


@pytest.mark.parametrize(
    ("find", "environment"),
    [
        (kubernetes, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
        (open_mpi, {"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"}),
        (slurm, SBATCH),
        (_by_variables, {}),
        (_by_variables, {"TPU_SKIP_MDS_QUERY": "1"}),
        (_by_variables, {**TPU, "TPU_PROCESS_BOUNDS": "1,1,1"}),
    ],
)
def test_a_process_that_is_alone_or_of_another_launcher_is_none_of_its_own(
    find: Finder, environment: dict[str, str]
) -> None:
    assert find(environment) is None


# No number, or none of the hosts.
ODD = ("", "x", "4")


@pytest.mark.parametrize(
    ("find", "environment", "why"),
    [
        (kubernetes, {"JOB_COMPLETION_INDEX": "x"}, "INDEX='x'; accepted is a whole number from 0"),
        (open_mpi, {**OPEN_MPI_4, _RANK: "2"}, f"{_RANK}="),
        (open_mpi, {**OPEN_MPI_4, _RANK: "x"}, f"{_RANK}="),
        (open_mpi, {**OPEN_MPI_4, _COUNT: "0"}, f"{_COUNT}="),
        (open_mpi, {**OPEN_MPI_4, _LOCAL: ""}, f"{_LOCAL}="),
        (slurm, {**SRUN, "SLURM_PROCID": "2"}, "SLURM_PROCID=2; of 2 processes ranks are below 2"),
        (slurm, {**SRUN, "SLURM_PROCID": "-1"}, "SLURM_PROCID='-1'; accepted is a whole"),
        (slurm, {**SRUN, "SLURM_STEP_NUM_TASKS": "0"}, "accepted is a whole number from 1 on"),
        (slurm, {**SRUN, _NODES: "n[3-1]"}, "is no list of nodes"),
        (_by_variables, {**GKE, "MEGASCALE_NUM_SLICES": "2"}, "MEGASCALE_NUM_SLICES=2: the hosts"),
        (_by_variables, {"TPU_WORKER_HOSTNAMES": "a,b"}, "TPU_WORKER_ID="),
        *((_by_variables, {**TPU, "TPU_WORKER_ID": text}, "TPU_WORKER_ID=") for text in ODD),
        *((_in_metadata(text), {}, "agent-worker-number=") for text in ODD),
    ],
)
def test_variables_that_cannot_be_are_refused_by_name(
    find: Finder, environment: dict[str, str], why: str
) -> None:
    with pytest.raises(LauncherError) as refused:
        find(environment)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n1", ["n1"]),
        ("n[01-04,7],m3", ["n01", "n02", "n03", "n04", "n7", "m3"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("rack[1-2]-n[1-2]", ["rack1-n1", "rack1-n2", "rack2-n1", "rack2-n2"]),
        ("a[3]b,gpu-node.example", ["a3b", "gpu-node.example"]),
    ],
)
def test_a_list_of_nodes_is_expanded_in_order(text: str, wanted: list[str]) -> None:
    assert list(nodes(text)) == wanted


def test_a_long_list_is_not_made_to_find_its_first_node() -> None:
    assert next(nodes("n[000000000-999999999]")) == "n000000000"
    assert list(itertools.islice(nodes("n[1-999999999]m[1-999999999]"), 2)) == ["n1m1", "n1m2"]


@pytest.mark.parametrize("text", [",", "n1,", "n[1-", "n[]", "n[a-b]", "n[1-2", "n]", "n[1[2]]"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(LauncherError, match="is no list of nodes; accepted are lists such as"):
        list(nodes(text))


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({}, 0),
        ({"TPU_WORKER_HOSTNAMES": "localhost"}, 1),
        ({"TPU_WORKER_HOSTNAMES": "a,b,c,d"}, 4),
        ({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_PROCESS_BOUNDS": "1,1,1"}, 0),
        ({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_PROCESS_BOUNDS": "2,1,1"}, 2),
    ],
)
def test_the_environment_says_how_many_hosts_a_slice_has(
    environment: dict[str, str], hosts: int
) -> None:
    assert len(hosts_of_slice(environment, chips=_no_chips, asked=_nobody)[0]) == hosts


def test_with_chips_the_metadata_server_is_asked() -> None:
    hosts = ("10.0.0.2", "10.0.0.3", "10.0.0.4")
    assert hosts_of_slice({}, chips=_chips, asked=lambda name: ENDPOINTS) == (
        hosts,
        "worker-network-endpoints",
    )
    assert hosts_of_slice({}, chips=_chips, asked=lambda name: "")[0] == ()
    assert hosts_of_slice({"TPU_SKIP_MDS_QUERY": "1"}, chips=_chips, asked=_nobody)[0] == ()
    assert hosts_of_slice({"TPU_WORKER_HOSTNAMES": "a"}, chips=_chips, asked=_nobody)[0] == ("a",)


@pytest.mark.parametrize(
    ("name", "there"), [("accel0", True), ("vfio/0", True), ("vfio/vfio", False), ("sda", False)]
)
def test_chips_are_devices_of_the_kernel(tmp_path: Path, name: str, there: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert has_chips(tmp_path) is there
