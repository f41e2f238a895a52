"""--ranks: two at least; virtual ones as many as wanted, attached ones no more than there are."""

from __future__ import annotations

from .folder import Folder


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
