"""--device: the named device or none; auto takes the first in order and says why."""

from __future__ import annotations

import pytest

from .folder import Folder


@pytest.mark.parametrize("device", ["tpu", "gpu"])
def test_a_named_device_that_is_not_there_is_a_usage_error_in_one_sentence(
    folder: Folder, device: str
) -> None:
    ran = folder.run(f"--device={device}", exit_code=4)
    assert ran.sentence == (
        f"ERROR: busbw: --device={device}: no {device.upper()} to measure on "
        "(fake: not in the script)"
    )
    assert ran.results is None


def test_a_device_with_one_rank_is_a_usage_error_that_says_so(folder: Folder) -> None:
    folder.script(device="tpu", device_kind="TPU v2", ranks=1)
    ran = folder.run("--device=tpu", exit_code=4)
    assert "1 rank (TPU v2), two are needed" in ran.sentence
    ran = folder.run(exit_code=4)
    assert "1 rank (TPU v2), two are needed" in ran.sentence


def test_auto_says_what_was_looked_for_first(folder: Folder) -> None:
    ran = folder.run(exit_code=0)
    (header,) = (line for line in ran.text.splitlines() if line.startswith("busbw device: "))
    assert header.endswith("4 virtual devices; using CPU: no TPU or GPU found")


def test_with_more_verbosity_it_says_why_nothing_else_was_found(folder: Folder) -> None:
    ran = folder.run("-v", exit_code=0)
    for name in ("TPU", "GPU"):
        assert f"busbw device: no {name} to measure on (fake: not found)" in ran.text


def test_a_named_device_that_is_there_is_measured_and_the_header_names_it(folder: Folder) -> None:
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    ran = folder.run("--device=tpu", exit_code=0)
    assert "busbw device: TPU v2 (TPU), 8 ranks; asked for" in ran.text
    assert "busbw fake: fake 1" in ran.text
    assert "busbw baselines: " in ran.text
    assert ran.case()["case"]["ranks"] == 8


def test_a_probe_that_dies_or_finds_nothing_is_a_usage_error_with_its_log(folder: Folder) -> None:
    folder.script(probe="exit")
    ran = folder.run(exit_code=4)
    assert "ended with exit code 3 while looking for devices with fake" in ran.sentence
    assert "the script says exit" in ran.sentence


def test_an_unknown_device_is_refused_with_the_choices(folder: Folder) -> None:
    ran = folder.run("--device=quantum", exit_code=4)
    assert "auto" in ran.text and "tpu" in ran.text
