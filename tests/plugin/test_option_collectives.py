"""--collectives: each is a case of its own with its own bytes, rates and baseline file."""

from __future__ import annotations

import pytest

from busbw.collectives import COLLECTIVES

from .folder import Folder


def test_every_collective_is_measured_under_its_name_with_its_bus_factor(folder: Folder) -> None:
    ran = folder.run("--collectives=" + ",".join(COLLECTIVES), exit_code=0)
    assert ran.results is not None
    cases = ran.results["cases"]
    assert [case["id"] for case in cases] == [
        "fake-default-float32-1M",
        "fake-all_gather-out_of_place-default-float32-1M",
        "fake-reduce_scatter-out_of_place-default-float32-1M",
        "fake-all_to_all-out_of_place-default-float32-1M",
        "fake-permute-out_of_place-default-float32-1M",
    ]
    factors = {
        case["case"]["collective"]: case["measured"]["busbw_gb_per_s"]
        / case["measured"]["algbw_gb_per_s"]
        for case in cases
    }
    assert factors == pytest.approx(
        {
            "all_reduce": 1.5,
            "all_gather": 0.75,
            "reduce_scatter": 0.75,
            "all_to_all": 0.75,
            "permute": 1.0,
        }
    )


def test_each_has_a_baseline_file_of_its_own_and_is_found_in_it_again(folder: Folder) -> None:
    options = ("--collectives=all_reduce,permute",)
    folder.with_baselines(*options)
    assert [path.name for path in folder.baseline_files] == [
        "fake.all_reduce.fake.json",
        "fake.permute.fake.json",
    ]
    ran = folder.run(*options, exit_code=0)
    assert ran.results is not None
    assert [case["outcome"] for case in ran.results["cases"]] == ["PASS", "PASS"]


def test_a_framework_that_nobody_named_drops_out_where_it_has_none_of_them(
    folder: Folder,
) -> None:
    for name in ("jax", "tensorflow"):
        (folder.path / f"{name}.py").write_text("raise AssertionError('not to be imported')\n")
    options = ("--collectives=all_gather", "--payloads=1K", "--collect-only")
    ran = folder.pytest("perf", *options, exit_code=0)
    assert "test_collective[jax-all_gather-out_of_place-default-float32-1K]" in ran.text
    assert "[tensorflow-" not in ran.text


def test_one_named_twice_is_measured_once(folder: Folder) -> None:
    ran = folder.run("--collectives=permute,permute", exit_code=0)
    assert ran.results is not None
    assert [case["case"]["collective"] for case in ran.results["cases"]] == ["permute"]
