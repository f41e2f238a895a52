"""--mesh and --axes: all ranks in a shape, and the axes that a collective runs over."""

from __future__ import annotations

import pytest

from tests.sweep import sweep
from tests.worker.backends.real import needs

from .folder import Folder


def test_a_cpu_has_as_many_virtual_ranks_as_the_mesh(folder: Folder) -> None:
    case = folder.run("--mesh=2x4", exit_code=0).case()
    assert case["id"] == "fake-2x4-default-float32-1M"
    assert (case["case"]["ranks"], case["case"]["mesh"], case["case"]["axes"]) == (8, "2x4", "")
    ratio = case["measured"]["busbw_gb_per_s"] / case["measured"]["algbw_gb_per_s"]
    assert ratio == pytest.approx(2 * 7 / 8)


@pytest.mark.parametrize(("axes", "ratio"), sweep([("y", 2 * 3 / 4), ("x", 2 * 1 / 2)]))
def test_along_an_axis_the_bus_factor_is_that_of_its_group(
    folder: Folder, axes: str, ratio: float
) -> None:
    case = folder.run("--mesh=2x4", f"--axes={axes}", exit_code=0).case()
    assert case["id"] == f"fake-2x4-{axes}-default-float32-1M"
    assert (case["case"]["ranks"], case["case"]["axes"]) == (8, axes)
    found = case["measured"]["busbw_gb_per_s"] / case["measured"]["algbw_gb_per_s"]
    assert found == pytest.approx(ratio)


def test_all_axes_are_the_same_as_none_and_in_any_order(folder: Folder) -> None:
    case = folder.run("--mesh=2x2", "--axes=y,x", exit_code=0).case()
    assert (case["id"], case["case"]["axes"]) == ("fake-2x2-default-float32-1M", "")
    case = folder.run("--mesh=2x2x2", "--axes=z,x", exit_code=0).case()
    assert (case["id"], case["case"]["axes"]) == ("fake-2x2x2-xz-default-float32-1M", "xz")


def test_each_axis_and_each_mesh_has_a_baseline_of_its_own(folder: Folder) -> None:
    for options in (("--axes=x",), ("--axes=y",), ()):
        folder.with_baselines("--mesh=2x2", *options)
    (path,) = folder.baseline_files
    assert path.parent.name == "4r-2x2"
    assert path.read_text().count('"payload": "1M"') == 3
    assert folder.run("--mesh=2x2", "--axes=y", exit_code=0).outcomes == {"1M": "PASS"}
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}


NAMED = ("--processes=2", "--mesh=hosts:2,devices:4")


@pytest.mark.parametrize(("axes", "size"), sweep([("hosts", 2), ("devices", 4)]))
def test_the_axes_of_hosts_and_of_devices_have_curves_of_their_own(
    folder: Folder, axes: str, size: int
) -> None:
    ran = folder.run(*NAMED, f"--axes={axes}", exit_code=0)
    case = ran.case()
    assert case["id"] == f"fake-hosts2xdevices4-{axes}-default-float32-1M"
    assert (case["case"]["mesh"], case["case"]["axes"]) == ("hosts:2,devices:4", axes)
    ratio = case["measured"]["busbw_gb_per_s"] / case["measured"]["algbw_gb_per_s"]
    assert ratio == pytest.approx(2 * (size - 1) / size)
    assert f"{8 // size} groups of {size} along {axes}" in ran.text


def test_a_mesh_of_processes_says_how_many_ranks_each_has(folder: Folder) -> None:
    case = folder.run(*NAMED, exit_code=0).case()
    assert (case["case"]["ranks"], case["case"]["axes"]) == (8, "")


@pytest.mark.exhaustive
def test_a_mesh_of_hosts_has_baselines_in_a_folder_of_its_layout(folder: Folder) -> None:
    folder.with_baselines(*NAMED, "--axes=hosts")
    (path,) = folder.baseline_files
    assert path.parent.name == "8r-hosts2xdevices4-1h2p"
    assert folder.run(*NAMED, "--axes=hosts", exit_code=0).outcomes == {"1M": "PASS"}
    assert folder.run(*NAMED, "--axes=devices", exit_code=0).outcomes == {"1M": "NO_BASELINE"}


@pytest.mark.exhaustive
@needs("jax")
@pytest.mark.parametrize("axes", ["hosts", "devices"])
def test_jax_runs_along_hosts_and_along_devices(folder: Folder, axes: str) -> None:
    options = ("--processes=2", "--mesh=hosts:2,devices:2", f"--axes={axes}", "--payloads=4K")
    case = folder.run("--frameworks=jax", *options, exit_code=0).case("4K")
    assert case["outcome"] == "NO_BASELINE"
    assert case["launches"][0]["values_checked"] > 0
