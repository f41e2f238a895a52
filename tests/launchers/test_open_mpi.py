"""Open MPI: variables of 4.1.4 and 5.0.11, on one host and on two."""

from __future__ import annotations

import pytest

from busbw.launchers.base import LauncherError
from busbw.launchers.open_mpi import launched

FOUR = {
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
FIVE = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "PMIX_HOSTNAME": "host-b",
    "PMIX_NAMESPACE": "prterun-host-a-4093@1",
    "PMIX_SERVER_URI41": "prterun-host-a-4093@0.1;tcp4://127.0.0.1:56263",
}


def test_open_mpi_4_says_the_address_of_its_host() -> None:
    found = launched(FOUR)
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
def test_the_first_address_counts(uri: str, host: str) -> None:
    found = launched({**FOUR, "OMPI_MCA_orte_hnp_uri": uri})
    assert found is not None and found.host == host


def test_open_mpi_5_says_the_name_of_its_host() -> None:
    found = launched(FIVE)
    assert found is not None
    assert (found.rank, found.count, found.host) == (1, 2, "host-a")
    assert (found.job, found.one_host) == ("prterun-host-a-4093@1", False)


def test_rank_0_on_another_host_than_mpirun_is_not_named() -> None:
    found = launched({**FIVE, "OMPI_COMM_WORLD_RANK": "0"})
    assert found is not None and found.host == ""
    assert found.unnamed == "rank 0 is on host-b, and not on mpirun's host, host-a"


@pytest.mark.parametrize("version", [FOUR, FIVE], ids=["4", "5"])
def test_on_one_host_it_is_the_loopback_address(version: dict[str, str]) -> None:
    found = launched({**version, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert found is not None and (found.host, found.one_host) == ("127.0.0.1", True)


@pytest.mark.parametrize("namespace", ["", "1662058497", "mpirun"])
def test_what_names_no_host_says_so(namespace: str) -> None:
    found = launched({**FIVE, "PMIX_NAMESPACE": namespace})
    assert found is not None and found.host == ""
    assert found.unnamed == "Open MPI does not say on which host rank 0 is"


def test_what_another_pmix_server_sets_is_none_of_it() -> None:
    assert launched({"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"}) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OMPI_COMM_WORLD_RANK", "2"),
        ("OMPI_COMM_WORLD_RANK", "x"),
        ("OMPI_COMM_WORLD_SIZE", "0"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", ""),
    ],
)
def test_variables_that_fit_no_job_are_refused(name: str, text: str) -> None:
    with pytest.raises(LauncherError, match=f"{name}="):
        launched({**FOUR, name: text})
