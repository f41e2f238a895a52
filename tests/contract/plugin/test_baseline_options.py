"""--baselines and --require-baselines: the folder of baselines, and cases without a baseline."""

from __future__ import annotations

import os

import pytest

from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep


def test_baselines_are_read_and_written_in_the_folder_that_the_option_baselines_names(
    folder: Folder,
) -> None:
    ran = folder.updated("--baselines=elsewhere")
    assert not folder.baseline_files
    (path,) = (folder.path / "elsewhere").rglob("*.json")
    assert f"baselines written: {path}" in ran.text
    ran = folder.run("--baselines=elsewhere", exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}
    assert f"busbw baselines: {path.parent.relative_to(folder.path)}\n" in ran.text


def test_the_default_folder_of_baselines_is_in_the_root_directory_of_pytest(folder: Folder) -> None:
    folder.with_baselines()
    folder.environment.chdir(folder.path / "perf")
    options = (".", "--frameworks=fake", "--payloads=1M", "--launches=1", "-p", "no:cacheprovider")
    assert folder.pytest(*options, exit_code=0).outcomes == {"1M": "PASS"}


def test_a_session_does_not_create_the_default_folder_of_baselines(
    folder: Folder,
) -> None:
    ran = folder.run(exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert "(none yet)" in ran.text
    assert not (folder.path / "baselines").exists()


def usage_error_of(folder: Folder, *options: str) -> str:
    """Return the sentence of a usage error that comes before any worker is started."""
    ran = folder.run(*options, exit_code=4)
    assert "busbw device:" not in ran.text
    assert ran.results is None
    return ran.sentence


@pytest.mark.parametrize("also", sweep(["", "--prune-baselines", "--against=python"]))
def test_a_missing_folder_of_baselines_is_a_usage_error_if_an_option_names_the_folder(
    folder: Folder, also: str
) -> None:
    assert usage_error_of(folder, "--baselines=nowhere", *([also] if also else [])).endswith(
        f"--baselines: there is no folder {folder.path / 'nowhere'}; --update-baselines makes it"
    )
    assert not (folder.path / "nowhere").exists()


WRONG = {
    "file": "Not a directory",
    "fifo": "Not a directory",
    "loop": "Too many levels of symbolic links",
    "file/below": "Not a directory",
    "": "expected a value, got an empty text",
}


@pytest.mark.parametrize("also", sweep([[], ["--update-baselines"]]))
@pytest.mark.parametrize("name", sweep(WRONG))
def test_a_value_of_the_option_baselines_that_is_no_folder_is_an_error_before_measuring(
    folder: Folder, name: str, also: list[str]
) -> None:
    (folder.path / "file").write_text("kept")
    os.mkfifo(folder.path / "fifo")
    (folder.path / "loop").symlink_to("loop")
    message = usage_error_of(folder, f"--baselines={name}", *also)
    assert "--baselines: " in message and WRONG[name] in message
    assert (folder.path / "file").read_text() == "kept"


@pytest.mark.exhaustive
@pytest.mark.parametrize("option", sweep(["--update-baselines", "--prune-baselines"]))
def test_a_read_only_folder_of_baselines_is_a_usage_error_for_options_that_write_baselines(
    folder: Folder, option: str
) -> None:
    folder.with_baselines("--baselines=theirs")
    folder.without_root()
    (folder.path / "theirs").chmod(0o500)
    message = usage_error_of(folder, "--baselines=theirs", option)
    assert f"{folder.path / 'theirs'} is not a folder in which you may write" in message
    assert folder.run("--baselines=theirs", exit_code=0).outcomes == {"1M": "PASS"}
    (folder.path / "theirs").chmod(0o700)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", sweep(["folder", "file"]))
def test_the_option_update_baselines_with_a_read_only_file_is_a_usage_error_before_measuring(
    folder: Folder, kind: str
) -> None:
    folder.with_baselines()
    (path,) = folder.baseline_files
    folder.without_root()
    closed = path if kind == "file" else path.parent
    closed.chmod(0o500)
    ran = folder.run("--update-baselines", exit_code=4)
    assert f"{closed} " in ran.sentence and "writ" in ran.sentence
    assert "busbw: pass" not in ran.text
    closed.chmod(0o700)


@pytest.mark.parametrize("kind", sweep(["folder", "file", "no folder"]))
def test_a_baseline_that_cannot_be_read_is_a_usage_error_and_does_not_count_as_missing(
    folder: Folder, kind: str
) -> None:
    folder.with_baselines()
    (path,) = folder.baseline_files
    folder.without_root()
    if kind == "no folder":
        path.unlink()
        path.parent.rmdir()
        path.parent.touch()
    else:
        (path if kind == "file" else path.parent).chmod(0)
    ran = folder.run(exit_code=4)
    assert str(path) in ran.sentence
    assert "busbw: pass" not in ran.text
    path.parent.chmod(0o700)


def test_the_option_require_baselines_fails_only_cases_without_a_baseline(
    folder: Folder,
) -> None:
    ran = folder.run("--require-baselines", exit_code=1)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert "a baseline is required" in ran.text
    assert "1 failed" in ran.last_line
    folder.with_baselines()
    folder.run("--require-baselines", exit_code=0)


@pytest.mark.parametrize(("value", "exit_code"), sweep([("1", 1), ("", 0), ("true", 1)], in_gate=2))
def test_the_environment_variable_ci_requires_baselines_unless_the_variable_is_empty(
    folder: Folder, value: str, exit_code: int
) -> None:
    folder.environment.setenv("CI", value)
    assert folder.run(exit_code=exit_code).outcomes == {"1M": "NO_BASELINE"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("setting", "ci", "exit_code"),
    sweep([("true", "", 1), ("false", "1", 0), ("auto", "1", 1), ("auto", "", 0)]),
)
def test_the_ini_setting_require_baselines_overrides_the_environment_variable_ci(
    folder: Folder, setting: str, ci: str, exit_code: int
) -> None:
    folder.ini({"busbw_require_baselines": setting})
    folder.environment.setenv("CI", ci)
    folder.run(exit_code=exit_code)
