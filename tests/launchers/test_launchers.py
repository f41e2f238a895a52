"""Launchers: variables as real ones set them, and odd ones; and which of them is asked first."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from busbw.launchers import (
    FINDERS,
    Launched,
    LauncherError,
    kubernetes,
    launched,
    nodes,
    open_mpi,
    slurm,
    tpu,
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


def test_a_pod_of_an_indexed_job_has_a_rank_and_knows_no_other_pod() -> None:
    found = kubernetes({"JOB_COMPLETION_INDEX": "3", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert found is not None
    assert (found.rank, found.count, found.host) == (3, None, "")
    assert found.unnamed == "JOB_COMPLETION_INDEX does not say which pod rank 0 is"


def test_a_pod_without_an_index_was_not_started_by_a_job() -> None:
    assert kubernetes({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) is None


def test_an_index_of_a_pod_that_is_no_number_is_refused() -> None:
    with pytest.raises(LauncherError, match="JOB_COMPLETION_INDEX='x'; accepted is a whole number"):
        kubernetes({"JOB_COMPLETION_INDEX": "x"})


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


def test_open_mpi_4_says_the_address_of_its_host() -> None:
    found = open_mpi(OPEN_MPI_4)
    assert found is not None
    assert (found.rank, found.count, found.host) == (1, 2, "192.0.2.2")
    assert (found.job, found.one_host) == ("1662058497", False)


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("1531576320.0;tcp://10.96.0.1,10.148.0.1,10.108.0.1:34911", "10.96.0.1"),
        ("1314521088.0;tcp6://[fe80::b9b:ac5d,2620:10d::2]:43370", "fe80::b9b:ac5d"),
        ("1314521088.0;tcp6://[2620:10d::2]:43370", "2620:10d::2"),
    ],
)
def test_the_first_address_of_open_mpi_counts(uri: str, host: str) -> None:
    found = open_mpi({**OPEN_MPI_4, "OMPI_MCA_orte_hnp_uri": uri})
    assert found is not None and found.host == host


def test_open_mpi_5_says_the_name_of_its_host() -> None:
    found = open_mpi(OPEN_MPI_5)
    assert found is not None
    assert (found.rank, found.count, found.host) == (1, 2, "host-a")
    assert (found.job, found.one_host) == ("prterun-host-a-4093@1", False)


def test_rank_0_on_another_host_than_mpirun_is_not_named() -> None:
    found = open_mpi({**OPEN_MPI_5, "OMPI_COMM_WORLD_RANK": "0"})
    assert found is not None and found.host == ""
    assert found.unnamed == "rank 0 is on host-b, and not on mpirun's host, host-a"


@pytest.mark.parametrize("version", [OPEN_MPI_4, OPEN_MPI_5], ids=["4", "5"])
def test_on_one_host_open_mpi_is_at_the_loopback_address(version: dict[str, str]) -> None:
    found = open_mpi({**version, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert found is not None and (found.host, found.one_host) == ("127.0.0.1", True)


@pytest.mark.parametrize("namespace", ["", "1662058497", "mpirun"])
def test_an_open_mpi_that_names_no_host_is_said_to_name_none(namespace: str) -> None:
    found = open_mpi({**OPEN_MPI_5, "PMIX_NAMESPACE": namespace})
    assert found is not None and found.host == ""
    assert found.unnamed == "Open MPI does not say on which host rank 0 is"


def test_what_another_pmix_server_sets_is_none_of_it() -> None:
    assert open_mpi({"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"}) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OMPI_COMM_WORLD_RANK", "2"),
        ("OMPI_COMM_WORLD_RANK", "x"),
        ("OMPI_COMM_WORLD_SIZE", "0"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", ""),
    ],
)
def test_variables_that_fit_no_job_of_open_mpi_are_refused(name: str, text: str) -> None:
    with pytest.raises(LauncherError, match=f"{name}="):
        open_mpi({**OPEN_MPI_4, name: text})


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


def test_a_task_has_its_rank_and_the_first_node_of_its_step() -> None:
    found = slurm(SRUN)
    assert found is not None
    assert (found.rank, found.count, found.host, found.job) == (1, 2, "n02", "4711.3")
    assert not found.one_host


def test_the_script_of_sbatch_is_no_task() -> None:
    assert slurm(SBATCH) is None


def test_tasks_of_one_node_are_on_one_host() -> None:
    found = slurm({**SRUN, "SLURM_STEP_NODELIST": "n02"})
    assert found is not None and found.one_host


def test_another_step_of_a_job_is_another_start() -> None:
    jobs = [slurm({**SRUN, "SLURM_STEP_ID": step}) for step in ("3", "4")]
    assert len({one.job for one in jobs if one}) == 2


def test_rank_0_on_another_node_than_the_first_is_not_named() -> None:
    found = slurm({**SRUN, "SLURM_PROCID": "0"})
    assert found is not None and found.host == ""
    assert found.unnamed == "rank 0 is on n03, and not on the first node of the step, n02"
    found = slurm({**SRUN, "SLURM_PROCID": "0", "SLURMD_NODENAME": "n02"})
    assert found is not None and (found.host, found.unnamed) == ("n02", "")


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
    assert list(itertools.islice(nodes("n[1-999999999]m[1-999999999]"), 2)) == [
        "n1m1",
        "n1m2",
    ]


@pytest.mark.parametrize("text", [",", "n1,", "n[1-", "n[]", "n[a-b]", "n[1-2", "n]", "n[1[2]]"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(LauncherError, match="is no list of nodes; accepted are lists such as"):
        list(nodes(text))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("SLURM_PROCID", "2", "SLURM_PROCID=2; of 2 processes ranks are below 2"),
        ("SLURM_PROCID", "-1", "SLURM_PROCID='-1'; accepted is a whole number from 0 on"),
        ("SLURM_STEP_NUM_TASKS", "0", "accepted is a whole number from 1 on"),
        ("SLURM_STEP_NODELIST", "n[3-1]", "is no list of nodes"),
    ],
)
def test_variables_that_fit_no_step_of_slurm_are_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(LauncherError) as refused:
        slurm({**SRUN, name: text})
    assert why in str(refused.value)


ENDPOINTS = "unused:8470:10.0.0.2,unused:8470:10.0.0.3,unused:8470:10.0.0.4"
GKE = {
    "TPU_WORKER_ID": "2",
    "TPU_WORKER_HOSTNAMES": "job-0.svc,job-1.svc,job-2.svc,job-3.svc",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "JOB_COMPLETION_INDEX": "2",
}


def _metadata(name: str) -> str:
    return {"worker-network-endpoints": ENDPOINTS, "agent-worker-number": "1\n"}[name]


def _nobody(name: str) -> str:
    raise AssertionError("the metadata server is not to be asked")


def _chips() -> bool:
    return True


def _no_chips() -> bool:
    return False


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
    assert len(tpu.hosts_of_slice(environment, chips=_no_chips, asked=_nobody)[0]) == hosts


def test_with_chips_the_metadata_server_is_asked() -> None:
    hosts = ("10.0.0.2", "10.0.0.3", "10.0.0.4")
    assert tpu.hosts_of_slice({}, chips=_chips, asked=_metadata) == (
        hosts,
        "worker-network-endpoints",
    )
    assert tpu.hosts_of_slice({}, chips=_chips, asked=lambda name: "")[0] == ()
    assert tpu.hosts_of_slice({"TPU_SKIP_MDS_QUERY": "1"}, chips=_chips, asked=_nobody)[0] == ()
    assert tpu.hosts_of_slice({"TPU_WORKER_HOSTNAMES": "a"}, chips=_chips, asked=_nobody)[0] == (
        "a",
    )


def test_on_gke_variables_say_all() -> None:
    found = tpu_slice(GKE, chips=_no_chips, asked=_nobody)
    assert found is not None
    assert (found.rank, found.count, found.host) == (2, 4, "job-0.svc")
    assert found.job == GKE["TPU_WORKER_HOSTNAMES"]
    assert not found.one_host


def test_on_a_tpu_vm_the_metadata_server_says_all() -> None:
    found = tpu_slice({}, chips=_chips, asked=_metadata)
    assert found is not None
    assert (found.rank, found.count, found.host) == (1, 3, "10.0.0.2")


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TPU_SKIP_MDS_QUERY": "1"},
        {"TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "0", "TPU_PROCESS_BOUNDS": "1,1,1"},
    ],
)
def test_a_host_that_is_told_to_be_alone_is_in_no_slice(environment: dict[str, str]) -> None:
    assert tpu_slice(environment, chips=_no_chips, asked=_nobody) is None


def test_a_slice_of_one_host_has_one_process() -> None:
    found = tpu_slice({"TPU_WORKER_HOSTNAMES": "localhost"}, chips=_chips, asked=_nobody)
    assert found is not None and (found.rank, found.count) == (0, 1)


@pytest.mark.parametrize("number", [None, "", "x", "4"])
def test_hosts_that_are_not_numbered_are_refused(number: str | None) -> None:
    environment = {"TPU_WORKER_HOSTNAMES": "a,b"}
    if number is not None:
        environment["TPU_WORKER_ID"] = number
    with pytest.raises(LauncherError, match="TPU_WORKER_ID="):
        tpu_slice(environment, chips=_no_chips, asked=_nobody)
    with pytest.raises(LauncherError, match="agent-worker-number="):
        tpu_slice({}, chips=_chips, asked=lambda name: "" if "number" in name else ENDPOINTS)


def test_an_endpoint_without_an_address_names_no_host() -> None:
    found = tpu_slice({}, chips=_chips, asked=lambda name: "0" if "number" in name else "a:1,b:2")
    assert found is not None and (found.count, found.host) == (2, "")
    assert found.unnamed == "worker-network-endpoints has no address of rank 0"


def test_several_slices_do_not_know_each_other() -> None:
    with pytest.raises(LauncherError, match="MEGASCALE_NUM_SLICES=2: the hosts of one slice"):
        tpu_slice({**GKE, "MEGASCALE_NUM_SLICES": "2"}, chips=_no_chips, asked=_nobody)
    found = tpu_slice({**GKE, "MEGASCALE_NUM_SLICES": "1"}, chips=_no_chips, asked=_nobody)
    assert found is not None and found.count == 4


@pytest.mark.parametrize(
    ("name", "there"), [("accel0", True), ("vfio/0", True), ("vfio/vfio", False), ("sda", False)]
)
def test_chips_are_devices_of_the_kernel(tmp_path: Path, name: str, there: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert tpu.has_chips(tmp_path) is there
