"""The command in results and summary repeats its session when a shell runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.command_line import command as run_command
from tests.helpers.session_folder import HISTORY, ROOT, TIMEOUT_S, Folder
from tests.helpers.sweep import sweep

AGAINST = f"--against=fake={sys.executable}"
COMPILED = ("--topology=v5e:2x4", "--compile-cache=none")


def by_shell(folder: Folder, command: str, exit_code: int = 0) -> dict[str, Any]:
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
    assert done.returncode == exit_code, done.stdout + done.stderr
    results: dict[str, Any] = json.loads(path.read_text())
    return results


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "word"),
    sweep(
        [
            (("--try-env=XLA_FLAGS=--xla_x=1 --xla_y=2", HISTORY), "XLA_FLAGS=--xla_x=1 --xla_y=2"),
            (("--against-env=NCCL_ALGO=Ring",), "--against-env=NCCL_ALGO=Ring"),
            ((AGAINST, "--against-env=XLA_FLAGS=--xla_x=1"), AGAINST),
            (("--processes=2", "--ranks-per-process=2"), "--processes=2 --ranks-per-process=2"),
            (("-k", "1M and float32", "--memory-limit=1G"), "-k '1M and float32'"),
            (("--ranks=4", "--mesh=2x2", "--axes=y"), "--mesh=2x2 --axes=y"),
            (("--fail-above=25%", "--require-baselines"), "--require-baselines"),
        ]
    ),
)
def test_the_command_in_the_results_repeats_a_session(
    folder: Folder, options: tuple[str, ...], word: str
) -> None:
    code = int("--require-baselines" in options)
    first = folder.run(*options, exit_code=code).document
    command = first["command"]
    assert re.search("[^ ]*busbw run --device=cpu ", command) and word in command
    assert f"\n    {command}\n" in run_command("summary", folder.path / "results.json").out
    again = by_shell(folder, command, code)
    assert again["command"] == command
    assert again["environment"]["changed"] == first["environment"]["changed"]
    assert again["environment"]["key"] == first["environment"]["key"]
    assert again["plan"]["launches"] == first["plan"]["launches"]
    cases = [
        [(case["id"], case["outcome"]) for case in results["cases"]] for results in (first, again)
    ]
    assert cases[0] == cases[1]


@pytest.mark.exhaustive
def test_the_command_in_the_results_repeats_a_soak_with_launches_in_the_ini_file(
    folder: Folder,
) -> None:
    folder.ini({"busbw_launches": "2"})
    options = ("perf", "--frameworks=fake", "--payloads=1K", "--soak=5s", "-p", "no:cacheprovider")
    command = folder.pytest(*options, exit_code=0).document["command"]
    assert command == "busbw run --device=cpu --frameworks=fake --payloads=1K --soak=5s perf"
    assert by_shell(folder, command)["command"] == command


@pytest.mark.exhaustive
def test_the_command_in_the_results_repeats_a_compiling_session(folder: Folder) -> None:
    options = ("perf", "--frameworks=fake", "--payloads=1K", *COMPILED, "-p", "no:cacheprovider")
    first = folder.pytest(*options, exit_code=0).document
    command = first["command"]
    assert "--topology=v5e:2x4 --compile-cache=none" in command and "--device" not in command
    assert by_shell(folder, command)["command"] == command


@pytest.mark.exhaustive
def test_the_command_in_the_results_sets_the_variables_of_the_session_and_writes_no_file(
    folder: Folder,
) -> None:
    folder.environment.setenv("XLA_FLAGS", '--xla_a=$x "b"')
    folder.environment.setenv("XLA_API_KEY", "hunter2-hunter2")
    folder.environment.setenv("BUSBW_HISTORY", "nights of mine")
    ran = folder.run("--update-baselines", "--page=page.html", exit_code=0)
    command = ran.document["command"]
    assert "--update-baselines" not in command and "page" not in command
    assert "hunter2" not in command and "nights of mine" in command
    folder.environment.delenv("XLA_FLAGS")
    folder.environment.delenv("BUSBW_HISTORY")
    again = by_shell(folder, command)
    assert again["environment"]["flags"]["XLA_FLAGS"] == '--xla_a=$x "b"'
    assert again["command"] == command


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
