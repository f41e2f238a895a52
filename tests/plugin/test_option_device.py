"""--device: the named device or none; auto takes the first in order and says why."""

from __future__ import annotations

from .folder import Folder


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
