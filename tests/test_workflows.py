"""The gate and the workflows: pinned, with the least permissions, and nothing hides a failure."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GATE = (
    *(path for path in (ROOT / ".github").rglob("*") if path.is_file() and path.suffix != ".pyc"),
    ROOT / ".ci" / "run",
)

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def _test_command() -> str:
    """README's one command that installs tox and runs it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ {4}(python -m pip install tox\b.*)$", text, re.MULTILINE)
    return str(command)


def test_the_workflows_are_those_for_a_push_compiling_the_night_and_a_refresh() -> None:
    names = ["ci.yml", "compiled.yml", "nightly.yml", "refresh-baselines.yml"]
    assert [path.name for path in WORKFLOWS] == names


@each_workflow
def test_every_action_is_pinned_by_a_commit_with_its_version_beside_it(path: Path) -> None:
    uses = re.findall(r"\buses:\s*(.*)", path.read_text(encoding="utf-8"))
    pinned = re.compile(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [use for use in uses if not pinned.fullmatch(use)] == []


@each_workflow
def test_a_workflow_has_no_permission_that_its_jobs_do_not_ask_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^permissions:.*$", text, re.MULTILINE) == ["permissions: {}"]
    jobs = re.findall(r"^    runs-on:", text, re.MULTILINE)
    assert len(re.findall(r"^    permissions:", text, re.MULTILINE)) == len(jobs)


@each_workflow
def test_every_job_has_a_deadline_and_no_checkout_keeps_the_token(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    jobs = re.findall(r"^    runs-on:", text, re.MULTILINE)
    assert len(re.findall(r"^    timeout-minutes: \d+$", text, re.MULTILINE)) == len(jobs)
    checkouts = text.count("uses: actions/checkout@")
    assert text.count("persist-credentials: false") == checkouts


@each_workflow
def test_lint_checks_every_workflow_against_the_schema(path: Path) -> None:
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert f".github/workflows/{path.name}" in tox


def test_pre_commit_installs_the_versions_that_lint_does() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    lint = (ROOT / "tox.ini").read_text(encoding="utf-8").partition("[testenv:types]")[0]
    installed = set(re.findall(r'additional_dependencies: \["(.*)"\]', hooks))
    assert installed == set(re.findall(r"^    (\S+>=\S+,<\S+)$", lint, re.MULTILINE))


@each_workflow
def test_no_machine_of_one_s_own_runs_what_a_pull_request_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    own = re.findall(r"^    runs-on: (?!ubuntu-|\$\{\{ matrix\.).*$", text, re.MULTILINE)
    started = re.findall(
        r"^  (?:pull_request\w*|push|issue_comment|workflow_run):", text, re.MULTILINE
    )
    assert not (own and started)
    assert own or "--against" not in text


def test_the_night_measures_by_its_schedule_or_by_hand_alone() -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    asked = """contains(fromJSON('["schedule", "workflow_dispatch"]'), github.event_name)"""
    (condition,) = re.findall(
        r"^    if: (.*)\n    runs-on: \$\{\{ vars\.BUSBW_TPU_RUNNER", text, re.MULTILINE
    )
    assert condition == f"vars.BUSBW_TPU_RUNNER != '' && {asked}"


def test_the_gate_and_the_push_workflow_run_the_test_command_of_the_readme() -> None:
    command = _test_command()
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    push = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert f"run: {command}" in [line.strip() for line in push.splitlines()]


def test_every_push_runs_what_the_gate_leaves_out() -> None:
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(ROOT / "tox.ini", encoding="utf-8")
    left_out = re.findall(r'-m "not (\w+)"', ini["testenv:tests"]["commands"])
    assert left_out == ["exhaustive"]
    assert f"-m {left_out[0]} " in ini["testenv:exhaustive"]["commands"]
    push = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "python -m tox -e exhaustive" in push


def test_the_gate_can_be_run_and_stops_at_the_first_error() -> None:
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert "set -euo pipefail" in run.read_text(encoding="utf-8").splitlines()


PYTHONS = ("python3", "python3.13", "python3.12", "python3.11", "python")


def _gate(folder: Path, *running: str) -> subprocess.CompletedProcess[str]:
    """The gate where only the Pythons named `running` run: the others are a version manager's.

    What runs makes an environment whose `python` prints what it is asked.
    """
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in PYTHONS:
        lines = [
            'if [ "$1" = -c ]; then exit 0; fi',
            f'echo "$1 $2 with {name}"',
            'mkdir -p "$3/bin"',
            'ln -s /bin/echo "$3/bin/python"',
        ]
        body = lines if name in running else [f'echo "{name}: command not found" >&2', "exit 127"]
        (bin_folder / name).write_text("\n".join(["#!/bin/sh", *body, ""]), encoding="utf-8")
        (bin_folder / name).chmod(0o755)
    environ = {"PATH": f"{bin_folder}:/usr/bin:/bin", "TMPDIR": str(folder)}
    run = [str(ROOT / ".ci" / "run")]
    return subprocess.run(run, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("running", "taken"),
    [
        (PYTHONS, "python3"),
        (("python3.11", "python3.13"), "python3.13"),
        (("python3.11", "python"), "python3.11"),
        (("python",), "python"),
    ],
)
def test_the_gate_takes_the_first_python_that_runs_and_leaves_nothing_behind(
    tmp_path: Path, running: tuple[str, ...], taken: str
) -> None:
    done = _gate(tmp_path, *running)
    lines = [f"-m venv with {taken}", "-m pip install tox tox-uv", "-m tox -p -o"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, lines, "")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_the_gate_says_that_no_python_is_new_enough(tmp_path: Path) -> None:
    done = _gate(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        ".ci/run: none of python3, python3.13, python3.12, python3.11 and python is 3.11 or newer\n"
    )


def test_every_push_is_tested_with_each_python_from_the_oldest_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    push = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^ +python: (\[.*\])$", push, re.MULTILINE)
    oldest = project["requires-python"].removeprefix(">=")
    assert json.loads(tested) == [oldest, "3.12", "3.13"]
    assert "python-version: ${{ matrix.python }}" in push


@pytest.mark.parametrize("path", [*GATE, ROOT / "tox.ini"], ids=lambda path: path.name)
def test_nothing_hides_a_failure(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"\|\|\s*(?:true|:)|continue-on-error|ignore_outcome|ignore_errors", text)
    assert found == []
