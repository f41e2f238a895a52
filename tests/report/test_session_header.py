"""The header: what is measured, where, with what, against what."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from busbw.model.machine import Environment
from busbw.model.words import Device
from busbw.report.session import header_lines
from tests import build

FOLDER = PurePosixPath("amd-epyc-2c/4r")


def _header(
    environment: Environment | None = None, root: Path = Path("gone"), **unreached: str
) -> list[str]:
    return list(header_lines(environment or build.environment(), root, FOLDER, unreached))


def _on_tpu(**key: Any) -> Environment:
    tpu = build.key(device_kind="TPU v5 lite", cores=None, **key)
    return build.environment(device=Device.TPU, key=tpu)


def test_a_cpu_says_its_cores_and_that_its_devices_are_virtual() -> None:
    assert _header()[0] == ("busbw device: AMD EPYC (CPU, 2 cores), 4 virtual devices; asked for")


def test_the_devices_of_several_processes_of_a_cpu_are_not_virtual() -> None:
    found = build.environment(key=build.key(processes=4))
    assert _header(found)[0].startswith("busbw device: AMD EPYC (CPU, 2 cores), 4 ranks, 1 host, ")


def test_why_other_devices_were_not_found_is_said_only_if_more_is_asked_for() -> None:
    found = build.environment(not_found=("no TPU to measure on (jax: no libtpu)",))
    assert "libtpu" not in "".join(_header(found))
    lines = header_lines(found, None, FOLDER, {}, verbose=True)
    assert lines[1] == "busbw device: no TPU to measure on (jax: no libtpu)"


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ({"ranks": 8}, "8 ranks;"),
        ({"ranks": 8, "mesh": "2x4"}, "8 ranks in a 2x4 mesh;"),
        ({"ranks": 16, "hosts": 4, "processes": 4}, "16 ranks, 4 hosts, 4 processes;"),
    ],
)
def test_an_accelerator_says_ranks_mesh_and_hosts(key: dict[str, Any], shape: str) -> None:
    assert f"busbw device: TPU v5 lite (TPU), {shape}" in _header(_on_tpu(**key))[0]


def test_every_framework_says_its_versions() -> None:
    versions = {"jax": {"jax": "0.10.0", "jaxlib": "0.10.1"}, "tensorflow": {"tensorflow": "2.20"}}
    lines = _header(build.environment(versions=versions))
    assert "busbw jax: jax 0.10.0, jaxlib 0.10.1" in lines
    assert "busbw tensorflow: tensorflow 2.20" in lines


def test_a_framework_that_does_not_reach_the_device_is_not_passed_over_in_silence() -> None:
    lines = _header(tensorflow="not built for it")
    assert "busbw tensorflow: does not reach the device: not built for it" in lines


def test_the_baselines_folder_is_named_and_whether_it_is_there(tmp_path: Path) -> None:
    assert _header(root=tmp_path)[-1] == f"busbw baselines: {tmp_path / FOLDER} (none yet)"
    (tmp_path / FOLDER).mkdir(parents=True)
    assert _header(root=tmp_path)[-1] == f"busbw baselines: {tmp_path / FOLDER}"
