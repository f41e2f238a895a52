"""A TPU slice of several hosts: told before anything waits for the others for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.plugin.slices import has_chips, hosts_of_slice
from tests.worker.backends.real import needs

from .folder import Folder

ENDPOINTS = "unused:8470:10.0.0.2,unused:8470:10.0.0.3,unused:8470:10.0.0.4"


def _asked(name: str) -> str:
    assert name == "worker-network-endpoints"
    return ENDPOINTS


def _nobody(name: str) -> str:
    raise AssertionError("the metadata server is not to be asked")


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({}, 1),
        ({"TPU_WORKER_HOSTNAMES": "localhost"}, 1),
        ({"TPU_WORKER_HOSTNAMES": "a,b,c,d"}, 4),
        ({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_PROCESS_BOUNDS": "1,1,1"}, 1),
        ({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_PROCESS_BOUNDS": "2,1,1"}, 2),
    ],
)
def test_the_environment_says_how_many_hosts_a_slice_has(
    environment: dict[str, str], hosts: int
) -> None:
    assert hosts_of_slice(environment, chips=False, asked=_nobody)[0] == hosts


def test_with_chips_the_metadata_server_is_asked() -> None:
    assert hosts_of_slice({}, chips=True, asked=_asked) == (3, "worker-network-endpoints")
    assert hosts_of_slice({}, chips=True, asked=lambda name: "")[0] == 1
    assert hosts_of_slice({"TPU_SKIP_MDS_QUERY": "1"}, chips=True, asked=_nobody)[0] == 1
    assert hosts_of_slice({"TPU_WORKER_HOSTNAMES": "a"}, chips=True, asked=_nobody)[0] == 1


@pytest.mark.parametrize(
    ("name", "there"), [("accel0", True), ("vfio/0", True), ("vfio/vfio", False), ("sda", False)]
)
def test_chips_are_devices_of_the_kernel(tmp_path: Path, name: str, there: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert has_chips(tmp_path) is there


@needs("jax")
def test_one_host_of_a_slice_alone_is_a_usage_error(folder: Folder) -> None:
    folder.environment.setenv("TPU_WORKER_HOSTNAMES", "a,b,c,d")
    options = ("perf", "--frameworks=jax", "--device=tpu", "--payloads=1K")
    sentence = folder.pytest(*options, exit_code=4).sentence
    assert "this host is one of 4 of its TPU slice (TPU_WORKER_HOSTNAMES)" in sentence
    assert "did you run on all hosts?" in sentence
