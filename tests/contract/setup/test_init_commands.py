"""The commands in the files that `busbw init` writes run in a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.session_folder import ROOT, TIMEOUT_S, Folder


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
def test_the_commands_that_busbw_init_writes_measure_the_framework_of_its_option(
    folder: Folder,
) -> None:
    (folder.path / "conftest.py").unlink()
    busbw = [sys.executable, "-m", "busbw", "init", "--framework=tensorflow", "."]
    subprocess.run(busbw, cwd=folder.path, capture_output=True, check=True)
    text = (folder.path / "baselines" / "README.md").read_text()
    commands = re.findall(r"^    (busbw run .*?)(?: +#.*)?$", text, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert command.startswith("busbw run --device=cpu --frameworks=tensorflow")
        # The fake framework, and little of it.
        small = command.replace("tensorflow", "fake").replace(" run ", " run --payloads=1M ")
        assert by_shell(folder, small)["cases"][0]["id"].startswith("fake-")
