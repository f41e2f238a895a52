"""The steps of the workflows that keep the history on a branch, run against a local repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.history_lines import documents, write
from tests.helpers.workers import write_program
from tests.structure.test_workflows import NIGHTLY, OF_INIT, script_of

FETCH, APPEND = "Fetch the history", "Append the new lines"
BRANCH = "busbw-history"
MACHINE = "tpu-v5-lite/4r"


def _environment(folder: Path, **more: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    output = str(folder / "output")
    path, home = os.environ["PATH"], str(folder)
    return {"PATH": path, "HOME": home, "RUNNER_TEMP": home, "GITHUB_OUTPUT": output, **more}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=_environment(folder), check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a checkout whose origin has no history yet."""
    origin, path = tmp_path / "origin.git", tmp_path / "checkout"
    _git(tmp_path, "init", "--quiet", "--bare", str(origin))
    _git(tmp_path, "init", "--quiet", str(path))
    _git(path, "remote", "add", "origin", origin.as_uri())
    return path


def _started(step: str, checkout: Path, folder: Path, base: str = "") -> subprocess.Popen[str]:
    """Start a step as the runner does, with `folder` as the runner's temporary folder."""
    return subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script_of(OF_INIT, step)],
        cwd=checkout,
        env=_environment(folder, BASE=base),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _ended(process: subprocess.Popen[str]) -> int:
    output, _ = process.communicate()
    print(output)
    return process.returncode


def _measured(checkout: Path, number: int) -> str:
    """Fetch and append a session; return the commit that was fetched."""
    folder = checkout.parent / f"measure{number}"
    assert _ended(_started(FETCH, checkout, folder)) == 0
    write(folder / "history", MACHINE, documents(f"{number:016x}"))
    # The artifact has no hidden files.
    ignored = shutil.ignore_patterns(".*")
    artifact = checkout.parent / f"keep{number}" / "history"
    shutil.copytree(folder / "history", artifact, ignore=ignored)
    output = folder / "output"
    return output.read_text().strip().removeprefix("base=") if output.exists() else ""


def _pushing(checkout: Path, number: int, base: str) -> subprocess.Popen[str]:
    return _started(APPEND, checkout, checkout.parent / f"keep{number}", base)


def _sessions(checkout: Path) -> list[str]:
    folder = checkout.parent / "after"
    shutil.rmtree(folder, ignore_errors=True)
    origin = checkout.parent / "origin.git"
    _git(checkout, "clone", "--quiet", f"--branch={BRANCH}", origin.as_uri(), str(folder))
    text = (folder / MACHINE / "2026.jsonl").read_text()
    return sorted(json.loads(line)["session"] for line in text.splitlines())


@pytest.mark.exhaustive
def test_the_history_branch_has_all_sessions_that_workflows_push_at_the_same_time(
    checkout: Path,
) -> None:
    for numbers in ((1, 2), (3, 4)):
        bases = [_measured(checkout, number) for number in numbers]
        assert all(bases) == (numbers != (1, 2))
        started = [_pushing(checkout, *pair) for pair in zip(numbers, bases, strict=True)]
        assert [_ended(process) for process in started] == [0, 0]
    # Each session has a line for each of its two cases.
    assert _sessions(checkout) == [f"{number:016x}" for number in (1, 1, 2, 2, 3, 3, 4, 4)]
    names = _git(checkout.parent / "origin.git", "ls-tree", "-r", "--name-only", BRANCH)
    assert names.split() == [".gitattributes", f"{MACHINE}/2026.jsonl"]


def test_the_fetch_step_of_the_workflow_fails_if_the_server_does_not_answer(checkout: Path) -> None:
    (checkout.parent / "origin.git").rename(checkout.parent / "away")
    assert _ended(_started(FETCH, checkout, checkout.parent / "measure1")) not in (0, 2)
    assert not (checkout.parent / "measure1" / "history").exists()


@pytest.mark.exhaustive
def test_the_append_step_of_the_workflow_fails_if_the_server_refuses_the_push(
    checkout: Path,
) -> None:
    base = _measured(checkout, 1)
    hook = checkout.parent / "origin.git" / "hooks" / "pre-receive"
    write_program(hook, "#!/bin/sh\nexit 1\n")
    assert _ended(_pushing(checkout, 1, base)) == 1


@pytest.mark.parametrize("step", [FETCH, APPEND])
def test_the_nightly_workflow_runs_the_same_history_steps_as_the_workflow_of_busbw_init(
    step: str,
) -> None:
    assert script_of(NIGHTLY, step) == script_of(OF_INIT, step)
