"""The commands in the files that `busbw init` writes run in a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.session_folder import ROOT, SLOW, TIMEOUT_S, Folder
from tests.helpers.workers import write_program
from tests.structure.test_workflows import OF_INIT, script_of


def by_shell(folder: Folder, command: str) -> dict[str, Any]:
    """Run a command that begins with `busbw` in the folder, and return its results."""
    path = folder.path / "again.json"
    busbw = f'busbw() {{ {sys.executable} -m busbw "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", f"{busbw}; {command} --results={path}"],
        cwd=folder.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results: dict[str, Any] = json.loads(path.read_text())
    return results


@pytest.mark.exhaustive
def test_the_commands_that_busbw_init_writes_measure_the_framework_that_an_option_names(
    folder: Folder,
) -> None:
    (folder.path / "conftest.py").unlink()
    subprocess.run(
        [sys.executable, "-m", "busbw", "init", "--framework=tensorflow", "."],
        cwd=folder.path,
        capture_output=True,
        check=True,
    )
    text = (folder.path / "baselines" / "README.md").read_text()
    commands = re.findall(r"^    (busbw run .*?)(?: +#.*)?$", text, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert command.startswith("busbw run --device=cpu --frameworks=tensorflow")
        # The fake framework, and little of it.
        small = command.replace("tensorflow", "fake").replace(" run ", " run --payloads=1M ")
        assert by_shell(folder, small)["cases"][0]["id"].startswith("fake-")


def _record(folder: Folder, reason: str = "") -> int:
    """Run the step of the workflow that records baselines, and return its exit code."""
    runner = folder.path / "runner"
    for name in ("venv/bin", "busbw"):
        (runner / name).mkdir(parents=True, exist_ok=True)
    text = f'#!/bin/sh\nexec {sys.executable} -m busbw "$@" --payloads=1M,2M\n'
    write_program(runner / "venv/bin/busbw", text)
    script = script_of(OF_INIT, "Measure and record")
    script = script.replace("@DEVICE@", "cpu").replace("@FRAMEWORK@", "fake")
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
        cwd=folder.path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(runner), "REASON": reason},
        check=False,
        timeout=TIMEOUT_S,
    ).returncode


@pytest.mark.exhaustive
def test_the_workflow_accepts_a_loss_beyond_the_budget_if_it_is_started_with_a_reason(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    assert _record(folder) == 0
    (artifact,) = (folder.path / "runner/busbw/baselines").rglob("*.json")
    artifact.unlink()
    folder.script(**SLOW, cases=[{"slower": 3, "payload_bytes": 1 << 20}])
    assert _record(folder) == 1
    # The artifact has the baselines also after a session that failed.
    assert "reason" not in artifact.read_text()
    assert _record(folder, "the new switch is slower") == 0
    assert "the new switch is slower" in artifact.read_text()
    # Recording reads the history, so that it judges as the nights do.
    assert [
        path.read_text().count("\n") for path in (folder.path / "runner/history").rglob("*.jsonl")
    ] == [6]
