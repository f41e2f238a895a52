"""--prune-baselines: what the options do not ask for leaves the files of measured cases."""

from __future__ import annotations

import json

import pytest

from .folder import Folder


def payloads(folder: Folder) -> list[str]:
    """The payloads that have a baseline, over all files."""
    documents = (json.loads(path.read_text()) for path in folder.baseline_files)
    return [entry["payload"] for document in documents for entry in document["entries"]]


@pytest.mark.exhaustive
def test_without_the_flag_nothing_goes(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K:4K")
    folder.with_baselines("--payloads=2K")
    assert payloads(folder) == ["1K", "2K", "4K"]


def test_what_was_not_asked_for_goes_and_is_shown(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K:4K")
    ran = folder.run("--prune-baselines", "--payloads=2K", exit_code=0)
    assert payloads(folder) == ["2K"]
    gone = [line for line in ran.text.splitlines() if line.endswith(" -> none")]
    assert [line.split()[1] for line in gone] == ["1K", "4K"]


@pytest.mark.exhaustive
def test_what_was_deselected_was_asked_for(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K:8K")
    folder.run("--prune-baselines", "--payloads=1K:4K", "-k", "2K", exit_code=0)
    assert payloads(folder) == ["1K", "2K", "4K"]


@pytest.mark.exhaustive
def test_files_of_other_cases_stay(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K")
    folder.with_baselines("--payloads=1K", "--ranks=8")
    folder.with_baselines("--payloads=1K", "--collectives=all_gather")
    folder.run("--prune-baselines", "--payloads=2K", exit_code=0)
    assert payloads(folder) == ["1K", "1K"]


def test_it_goes_with_an_update(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K")
    folder.with_baselines("--prune-baselines", "--payloads=2K,4K")
    assert payloads(folder) == ["2K", "4K"]


@pytest.mark.exhaustive
def test_a_session_without_a_verdict_removes_nothing_and_says_why(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K,2K")
    ran = folder.run("--prune-baselines", "--payloads=1K", "--benchmark-skip", exit_code=1)
    assert "note: no baseline was written: NO_VERDICT" in ran.text
    assert payloads(folder) == ["1K", "2K"]


def test_it_takes_no_value(folder: Folder) -> None:
    folder.run("--prune-baselines=all", exit_code=4)
