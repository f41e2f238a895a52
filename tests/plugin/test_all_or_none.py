"""Baselines are written all or none where a disk is full, and what is said of it is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .folder import SLOW, WITHOUT_CACHE, Folder, Ran

THREE = ("--collectives=all_reduce,all_gather,permute", "--payloads=1K", "--launches=2")
# Two new files of one payload take less, one of many payloads more.
LEFT = 2000


def contents(folder: Folder) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.baseline_files}


def filled(folder: Folder) -> dict[Path, bytes]:
    """One file of many payloads, and from now on a disk that has no room for another like it."""
    folder.with_baselines("--collectives=permute", "--payloads=1K:1M", "--launches=2")
    folder.fill_disk(LEFT)
    return contents(folder)


def test_where_the_third_file_does_not_fit_none_is_written(folder: Folder) -> None:
    before = filled(folder)
    (large,) = before
    ran = folder.run("--update-baselines", *THREE, reports=False, exit_code=1)
    assert f"ERROR: no baseline was written: {large}: File too large" in ran.text
    assert "baselines written" not in ran.text
    assert "FINE: " in ran.text
    assert contents(folder) == before


@pytest.mark.exhaustive
def test_where_all_fit_all_are_written(folder: Folder) -> None:
    folder.fill_disk(LEFT)
    folder.run("--update-baselines", *THREE, reports=False, exit_code=0)
    assert len(folder.baseline_files) == 3


@pytest.mark.exhaustive
def test_an_update_a_rebase_and_a_prune_are_one_change(folder: Folder) -> None:
    folder.script(**SLOW)
    asked = ("--update-baselines", "--rebase=why", "--prune-baselines", "--launches=2")
    folder.with_baselines("--payloads=1K,1M", "--launches=2")
    (path,) = folder.baseline_files
    ran = folder.run(*asked, "--payloads=1M", exit_code=0)
    document = json.loads(path.read_text())
    assert [entry["payload"] for entry in document["entries"]] == ["1M"]
    assert len(document["entries"][0]["sessions"]) == 2
    assert document["history"][-1]["reason"] == "pruned"
    assert ran.text.count(f"baselines written: {path}") == 1


@pytest.mark.exhaustive
def test_where_an_update_does_not_fit_nothing_is_pruned_either(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K", "--launches=2")
    before = contents(folder)
    folder.fill_disk(64)
    asked = ("--update-baselines", "--prune-baselines", "--payloads=1M", "--launches=2")
    ran = folder.run(*asked, reports=False, exit_code=1)
    assert "ERROR: no baseline was written: " in ran.text
    assert contents(folder) == before


def test_what_was_compiled_is_written_all_or_none(folder: Folder) -> None:
    def compiled(topologies: str, payloads: str, exit_code: int) -> Ran:
        asked = (f"--topology={topologies}", f"--payloads={payloads}", "--compile-cache=none")
        options = ("perf", "--frameworks=fake", *WITHOUT_CACHE, "--update-baselines", *asked)
        return folder.pytest(*options, exit_code=exit_code, reports=False)

    compiled("v5e:2x2", "1K:1M", 0)
    before = contents(folder)
    (large,) = before
    changed = {"cases": [{"topology": "v5e:2x2", "strategy": "FakeTree"}]}
    folder.environment.setenv("BUSBW_FAKE_COMPILER", json.dumps(changed))
    folder.fill_disk(LEFT)
    ran = compiled("v5e:2x4,v5e:2x2", "1K", 1)
    assert f"ERROR: no baseline was written: {large}: File too large" in ran.text
    assert contents(folder) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [("--rebase=why",), ("--prune-baselines",)])
def test_upkeep_that_does_not_fit_is_an_error_and_leaves_the_file(
    folder: Folder, options: tuple[str, ...]
) -> None:
    folder.with_baselines("--payloads=1K,2K", "--launches=2")
    folder.run("--update-baselines", "--payloads=1K,2K", "--launches=2", exit_code=0)
    (path,) = folder.baseline_files
    text = path.read_text()
    path.write_text(text.replace('"pinned_us": ', '"pinned_us": 1'))
    before = contents(folder)
    folder.fill_disk(64)
    asked = (*options, "--payloads=1K", "--launches=2")
    ran = folder.run(*asked, reports=False, exit_code=1)
    assert "ERROR: no baseline was written: " in ran.text
    assert contents(folder) == before
