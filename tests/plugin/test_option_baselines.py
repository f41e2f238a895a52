"""--baselines: the folder that times are compared with and, when asked, written to."""

from __future__ import annotations

from .folder import Folder


def test_another_folder_is_read_and_written(folder: Folder) -> None:
    ran = folder.with_baselines("--baselines=elsewhere")
    assert not folder.baseline_files
    (path,) = (folder.path / "elsewhere").rglob("*.json")
    assert f"baselines written: {path}" in ran.text
    ran = folder.run("--baselines=elsewhere", exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}
    assert f"busbw baselines: {path.parent}" in ran.text


def test_it_is_relative_to_the_root_directory_wherever_pytest_is_started(folder: Folder) -> None:
    folder.with_baselines()
    folder.environment.chdir(folder.path / "perf")
    options = (".", "--frameworks=fake", "--payloads=1M", "--launches=1", "-p", "no:cacheprovider")
    ran = folder.pytest(*options, exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}


def test_a_folder_that_is_not_there_holds_no_baseline_and_is_not_made(folder: Folder) -> None:
    ran = folder.run("--baselines=nowhere", exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert "(none yet)" in ran.text
    assert not (folder.path / "nowhere").exists()
