"""Two processes that share a single GPU, which every output names as shared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.session_folder import Folder

GPU: dict[str, Any] = {
    "device": "gpu",
    "device_kind": "NVIDIA H100 80GB HBM3",
    "clocks": ["device", "host"],
    "latency_s": 1e-3,
}
ONE = {**GPU, "ranks": 1}
TWO = {**GPU, "ranks": 2}
SHARED = "2 ranks, 1 host, 2 processes, on a shared device"


def test_a_gpu_that_two_processes_share_is_marked_as_shared_in_every_output(folder: Folder) -> None:
    # Above what the links of two such GPUs allow, and no error.
    folder.script(**{**ONE, "latency_s": 1e-7, "gb_per_s": 4000})
    ran = folder.run("--device=gpu", "--update-baselines", exit_code=0)
    assert f"{SHARED}; one GPU found, and a single rank is no collective: 2 processes" in ran.text
    assert folder.baseline_file.parent.name == "2r-1h2p-shared"
    key = ran.document["environment"]["key"]
    assert (key["ranks"], key["processes"], key["hosts"], key["shared"]) == (2, 2, 1, True)
    assert ran.properties()["shared_device"] == "True"
    case = ran.case()
    assert (case["outcome"], case["ceiling"]) == ("NO_BASELINE", None)


@pytest.mark.exhaustive
def test_a_session_without_the_option_device_prefers_a_single_gpu_to_the_cpu(
    folder: Folder,
) -> None:
    folder.script(**ONE)
    assert SHARED in folder.run(exit_code=0).text
    folder.script(**{**ONE, "device": "tpu"})
    assert "two are needed" in folder.run(exit_code=4).sentence


@pytest.mark.exhaustive
def test_four_ranks_on_a_single_gpu_without_processes_are_a_usage_error(folder: Folder) -> None:
    folder.script(**ONE)
    ran = folder.run("--device=gpu", "--ranks=4", exit_code=4)
    assert "1 rank (NVIDIA H100 80GB HBM3), two are needed" in ran.sentence


@pytest.mark.exhaustive
def test_times_on_a_shared_gpu_are_not_compared_with_times_on_two_gpus(
    folder: Folder,
) -> None:
    folder.script(**TWO)
    folder.updated()
    folder.script(**ONE)
    ran = folder.run(exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert "; 2 ranks here until " in ran.text and ", 2 today on a shared device" in ran.text
    assert folder.run("--require-baselines", exit_code=1).outcomes == {"1M": "NO_BASELINE"}
    folder.updated()
    assert folder.run(exit_code=0).outcomes == {"1M": "PASS"}
    (folder.path / "baselines/nvidia-h100-80gb-hbm3/2r/fake.all_reduce.fake.json").unlink()
    folder.script(**TWO)
    ran = folder.run(exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert "; 2 ranks here until " in ran.text
