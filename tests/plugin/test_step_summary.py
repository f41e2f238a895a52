"""The summary of a workflow run, of what real sessions write: verdict, changes, all cases."""

from __future__ import annotations

import re
import subprocess
import sys

from . import nightly
from .folder import ROOT, SLOW, Folder

TPU = {**SLOW, "device": "tpu", "device_kind": "TPU v2", "ranks": 8}
SEVEN = "--payloads=1K:64K"


def _summary(folder: Folder, *names: str) -> list[str]:
    """The lines of the script, by a Python that has nothing installed."""
    script = ROOT / ".github" / "summarize.py"
    done = subprocess.run(
        [sys.executable, "-E", "-S", str(script), *names],
        cwd=folder.path,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


def _history(folder: Folder) -> str:
    """The file of what the command prints of the folder's history."""
    command = [sys.executable, "-m", "busbw", "history", "history", "--json"]
    with (folder.path / "history.json").open("w") as out:
        subprocess.run(command, cwd=folder.path, stdout=out, check=True)
    return "history.json"


def test_what_changed_comes_first_and_what_is_as_usual_is_a_count(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines("--payloads=1K,1M,2M,4M", "--launches=2")
    folder.scale_baseline(1 / 3)
    folder.scale_baseline(3, "2M")
    folder.run("--payloads=1K,1M,2M,4M", "--launches=2", exit_code=1)
    lines = _summary(folder, "results.json")
    assert lines[2].startswith("**FAILED**: ")
    at = lines.index("### What changed")
    slower, faster = lines[at + 4 : at + 6]
    assert re.match(
        r"\| fake default float32 \| 1M \| .* \*\*REGRESSED\*\*: .* 3\.000 x the", slower
    )
    assert re.match(r"\| fake default float32 \| 2M \| .* IMPROVED: ", faster)
    assert lines[at + 6 : at + 8] == ["", "The other 2: 2 PASS."]
    folded = lines[lines.index("<details>") :]
    assert folded[1] == "<summary>All 4 cases</summary>"
    assert sum(line.startswith("| fake ") for line in folded) == 4


def test_memory_that_ran_out_is_a_change_only_if_it_is_new(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K,1M", "--launches=2")
    folder.script(cases=[{"payload_bytes": 2**20, "then": "out_of_memory"}])
    folder.run("--payloads=1K,1M", "--launches=2", exit_code=1)
    lines = _summary(folder, "results.json")
    assert "| **OUT_OF_MEMORY**: " in lines[lines.index("### What changed") + 4]
    folder.updated("--payloads=1K,1M", "--launches=2", "--accept-regression=smaller")
    folder.run("--payloads=1K,1M", "--launches=2", exit_code=0)
    lines = _summary(folder, "results.json")
    assert "None of 2 changed: 1 PASS, 1 OUT_OF_MEMORY as expected." in lines


def test_a_level_that_changed_is_shown_with_its_night_and_what_changed_then(
    folder: Folder,
) -> None:
    folder.script(**TPU)
    folder.with_baselines(SEVEN)
    nightly.stored_before(folder, {20: 1.0})
    old, new = {"fake": "0.9"}, {"fake": "1"}
    nightly.nights(folder, [*[1.0] * 12, *[1.05] * 6], versions=[*[old] * 12, *[new] * 6])
    folder.script(**TPU, cases=[{"slower": 1.05}])
    folder.run(SEVEN, "--history=history", exit_code=1)
    lines = _summary(folder, "results.json", _history(folder))
    assert lines[2].startswith("**DRIFT**: all cases of fake are ")
    assert lines[4] == "None of 7 changed: 7 PASS."
    head, _, machine, *_, row = lines[lines.index("</details>") + 2 :]
    assert head.startswith("### Levels that changed since ")
    assert machine == "tpu-v2/8r: 1 change"
    night = nightly.days_ago(6)[:10]
    said = rf"\| {night} \| all cases of fake \| [45]\.?\d* % slower \| 7 \| fake 0\.9 -> 1 \|  \|"
    assert re.fullmatch(said, row)
