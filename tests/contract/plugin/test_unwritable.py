"""Results and baselines that cannot be written: the earlier file stays unchanged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.helpers.session_folder import Folder, Ran
from tests.helpers.sweep import sweep

NOT_BEGUN = "busbw device:"


def usage_error_of(folder: Folder, path: Path | str, *options: str) -> str:
    """Return the sentence of a usage error that comes before any worker is started."""
    ran = folder.run(f"--results={path}", *options, exit_code=4)
    assert NOT_BEGUN not in ran.text
    return ran.sentence


def error_after_the_verdicts(ran: Ran) -> str:
    """Check that the verdicts come before the error; return the error."""
    lines = ran.text.splitlines()
    verdict = next(place for place, line in enumerate(lines) if line.startswith("NO_VERDICT: "))
    assert any("NO_BASELINE" in line for line in lines[:verdict])
    (error,) = (line for line in lines[verdict:] if line.startswith("ERROR: "))
    assert lines[verdict].startswith(f"NO_VERDICT: {error.removeprefix('ERROR: ')}; ")
    return error


def test_an_earlier_results_file_stays_unchanged_if_new_results_do_not_fit_on_the_disk(
    folder: Folder,
) -> None:
    file = folder.path / "mine.json"
    folder.run(f"--results={file}", exit_code=0)
    before = file.read_bytes()
    folder.fill_disk()
    ran = folder.run(f"--results={file}", "--junitxml=", exit_code=1)
    message = error_after_the_verdicts(ran)
    assert message == f"ERROR: --results: nothing was written: {file}: File too large"
    assert "1 without baseline" in ran.last_line
    assert file.read_bytes() == before
    assert not list(folder.path.glob("mine.json?*"))


@pytest.mark.parametrize(
    "text",
    sweep(
        [
            "def pytest_configure(): ...\n",
            "{}",
            '{"document": "busbw record", "version": 1}',
            '{"document": "busbw results", "version": 2}',
            '{"schema": 12, "session": null, "cases": []}',
            "[1, 2",
        ],
        in_gate=2,
    ),
)
def test_the_option_results_does_not_overwrite_a_file_that_holds_no_results(
    folder: Folder, text: str
) -> None:
    file = folder.path / "mine.py"
    file.write_text(text)
    message = usage_error_of(folder, file)
    assert f"--results: {file} is not earlier results of busbw; expected" in message
    assert file.read_text() == text


@pytest.mark.parametrize("how", sweep(["path", "relative", "symbolic", "hard"], in_gate=3))
def test_the_option_results_does_not_overwrite_a_baseline_file_under_any_name_or_link(
    folder: Folder, how: str
) -> None:
    folder.with_baselines()
    (baseline,) = folder.baseline_files
    before, link = baseline.read_bytes(), folder.path / "link.json"
    if how == "symbolic":
        link.symlink_to(baseline)
    if how == "hard":
        os.link(baseline, link)
    names = {
        "path": baseline,
        "relative": Path("perf", "..", baseline.relative_to(folder.path)),
    }
    assert "--results: " in usage_error_of(folder, names.get(how, link))
    assert baseline.read_bytes() == before
    assert folder.baseline_files == [baseline]


@pytest.mark.exhaustive
def test_the_option_results_refuses_a_file_without_permission_to_write(folder: Folder) -> None:
    folder.without_root()
    file = folder.path / "mine.json"
    file.touch(mode=0o444)
    assert f"{file} cannot be written: no permission" in usage_error_of(folder, file)
    target = folder.path / "there"
    target.mkdir(mode=0o555)
    assert "cannot be written: no permission" in usage_error_of(folder, target / "results.json")


THREE = ("--collectives=all_reduce,all_gather,permute", "--payloads=1K", "--launches=2")
# Two new files of one payload take less, one of many payloads more.
LEFT = 2000


def contents(folder: Folder) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.baseline_files}


def fill_baselines_and_disk(folder: Folder) -> dict[Path, bytes]:
    """Store a file of many payloads, and leave no room on the disk for a second copy."""
    folder.with_baselines("--collectives=permute", "--payloads=1K:1M", "--launches=2")
    folder.fill_disk(LEFT)
    return contents(folder)


@pytest.mark.exhaustive
def test_a_baseline_file_that_does_not_fit_on_the_disk_is_an_error_and_stays_unchanged(
    folder: Folder,
) -> None:
    ((large, before),) = fill_baselines_and_disk(folder).items()
    ran = folder.run("--update-baselines", *THREE, reports=False, exit_code=1)
    assert f"ERROR: not all baselines were written: {large}: File too large" in ran.text
    assert "baselines written" not in ran.text
    assert "NO_VERDICT: not all baselines were written: " in ran.text
    assert large.read_bytes() == before
    assert all(json.loads(content) for content in contents(folder).values())
