"""--ranks: two at least; virtual ones as many as wanted, attached ones no more than there are."""

from __future__ import annotations

import pytest

from .folder import Folder


@pytest.mark.parametrize("ranks", ["0", "1"])
def test_fewer_than_two_ranks_are_a_usage_error(folder: Folder, ranks: str) -> None:
    ran = folder.run(f"--ranks={ranks}", exit_code=4)
    assert "fewer than two ranks are not a collective" in ran.sentence


@pytest.mark.parametrize("ranks", ["-3", "many", "2.5"])
def test_nonsense_is_a_usage_error_that_says_what_is_accepted(folder: Folder, ranks: str) -> None:
    ran = folder.run(f"--ranks={ranks}", exit_code=4)
    assert "accepted is a whole number from 2" in ran.sentence


def test_more_ranks_than_are_attached_are_a_usage_error(folder: Folder) -> None:
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    ran = folder.run("--device=tpu", "--ranks=16", exit_code=4)
    assert "8 ranks (TPU v2), 16 asked for" in ran.sentence


def test_a_cpu_has_four_virtual_ranks_or_as_many_as_are_asked_for(folder: Folder) -> None:
    assert folder.run(exit_code=0).case()["case"]["ranks"] == 4
    ran = folder.run("--ranks=6", exit_code=0)
    case = ran.case()
    assert case["case"]["ranks"] == 6
    ratio = case["measured"]["busbw_gb_per_s"] / case["measured"]["algbw_gb_per_s"]
    assert abs(ratio - 2 * 5 / 6) < 1e-9


def test_fewer_ranks_than_are_attached_are_measured(folder: Folder) -> None:
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    assert folder.run("--ranks=2", exit_code=0).case()["case"]["ranks"] == 2
