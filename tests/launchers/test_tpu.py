"""Hosts of a TPU slice, by variables and by the metadata server."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.launchers.base import LauncherError
from busbw.launchers.tpu import has_chips, hosts_of_slice, launched

ENDPOINTS = "unused:8470:10.0.0.2,unused:8470:10.0.0.3,unused:8470:10.0.0.4"
GKE = {
    "TPU_WORKER_ID": "2",
    "TPU_WORKER_HOSTNAMES": "job-0.svc,job-1.svc,job-2.svc,job-3.svc",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "JOB_COMPLETION_INDEX": "2",
}


def _asked(name: str) -> str:
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
    assert len(hosts_of_slice(environment, chips=_no_chips, asked=_nobody)[0]) == hosts


def test_with_chips_the_metadata_server_is_asked() -> None:
    hosts = ("10.0.0.2", "10.0.0.3", "10.0.0.4")
    assert hosts_of_slice({}, chips=_chips, asked=_asked) == (hosts, "worker-network-endpoints")
    assert hosts_of_slice({}, chips=_chips, asked=lambda name: "")[0] == ()
    assert hosts_of_slice({"TPU_SKIP_MDS_QUERY": "1"}, chips=_chips, asked=_nobody)[0] == ()
    assert hosts_of_slice({"TPU_WORKER_HOSTNAMES": "a"}, chips=_chips, asked=_nobody)[0] == ("a",)


def test_on_gke_variables_say_all() -> None:
    found = launched(GKE, chips=_no_chips, asked=_nobody)
    assert found is not None
    assert (found.rank, found.count, found.host) == (2, 4, "job-0.svc")
    assert found.job == GKE["TPU_WORKER_HOSTNAMES"]
    assert not found.one_host


def test_on_a_tpu_vm_the_metadata_server_says_all() -> None:
    found = launched({}, chips=_chips, asked=_asked)
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
    assert launched(environment, chips=_no_chips, asked=_nobody) is None


def test_a_slice_of_one_host_has_one_process() -> None:
    found = launched({"TPU_WORKER_HOSTNAMES": "localhost"}, chips=_chips, asked=_nobody)
    assert found is not None and (found.rank, found.count) == (0, 1)


@pytest.mark.parametrize("number", [None, "", "x", "4"])
def test_hosts_that_are_not_numbered_are_refused(number: str | None) -> None:
    environment = {"TPU_WORKER_HOSTNAMES": "a,b"}
    if number is not None:
        environment["TPU_WORKER_ID"] = number
    with pytest.raises(LauncherError, match="TPU_WORKER_ID="):
        launched(environment, chips=_no_chips, asked=_nobody)
    with pytest.raises(LauncherError, match="agent-worker-number="):
        launched({}, chips=_chips, asked=lambda name: "" if "number" in name else ENDPOINTS)


def test_an_endpoint_without_an_address_names_no_host() -> None:
    found = launched({}, chips=_chips, asked=lambda name: "0" if "number" in name else "a:1,b:2")
    assert found is not None and (found.count, found.host) == (2, "")
    assert found.unnamed == "worker-network-endpoints has no address of rank 0"


def test_several_slices_do_not_know_each_other() -> None:
    with pytest.raises(LauncherError, match="MEGASCALE_NUM_SLICES=2: the hosts of one slice"):
        launched({**GKE, "MEGASCALE_NUM_SLICES": "2"}, chips=_no_chips, asked=_nobody)
    found = launched({**GKE, "MEGASCALE_NUM_SLICES": "1"}, chips=_no_chips, asked=_nobody)
    assert found is not None and found.count == 4


@pytest.mark.parametrize(
    ("name", "there"), [("accel0", True), ("vfio/0", True), ("vfio/vfio", False), ("sda", False)]
)
def test_chips_are_devices_of_the_kernel(tmp_path: Path, name: str, there: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert has_chips(tmp_path) is there
