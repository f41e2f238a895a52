"""The output on a terminal: the answer at the end, each failure once."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
from pathlib import Path

import pytest

from tests.helpers.session_folder import FAKE, SLOW, WITHOUT_CACHE, Folder, Ran

pytestmark = pytest.mark.sessions


def _run_regression(folder: Folder, *options: str) -> Ran:
    """Run a session in which 1M takes three times as long as its baseline."""
    folder.script(**SLOW)
    folder.with_baselines("--payloads=1K,1M")
    folder.script(**SLOW, cases=[{"payload_bytes": 2**20, "slower": 3}])
    return folder.run("--payloads=1K,1M", *options, exit_code=1)


@pytest.mark.exhaustive
def test_the_output_ends_with_the_regression_and_the_session_outcome_and_a_pytest_line(
    folder: Folder,
) -> None:
    text = _run_regression(folder).text
    *_, regressed, session, last = text.strip().splitlines()
    assert re.fullmatch(r"1 REGRESSED: fake 1M 3\.\d+ x \(limit \d\.\d+ x\)", regressed)
    assert session.startswith("FAILED: 1 of 2 cases failed: 1 REGRESSED; 2 cases measured in ")
    assert re.search(r"=+ 1 failed, 1 passed in ", last)
    assert "= FAILURES =" not in text and "short test summary" not in text
    assert text.count("x the expected time") == 0
    assert text.count("1 REGRESSED: ") == 1


@pytest.mark.exhaustive
def test_failures_of_tests_that_measure_nothing_are_shown_in_the_sections_of_pytest(
    folder: Folder,
) -> None:
    (folder.path / "test_own.py").write_text("def test_own():\n    assert 1 == 2\n")
    text = _run_regression(folder, "test_own.py").text
    failures = text.split("= FAILURES =")[1].split("= busbw =")[0]
    assert "test_own" in failures and "test_collective" not in failures
    summary = text.split("short test summary info")[1]
    assert "FAILED test_own.py::test_own" in summary and "test_collective" not in summary
    assert "2 failed, 1 passed" in text


def test_a_test_whose_own_assertion_fails_is_shown_even_if_its_case_did_not_fail(
    folder: Folder,
) -> None:
    path = folder.path / "perf" / "test_own.py"
    path.write_text("def test_own(busbw_verdict):\n    assert busbw_verdict.now is None\n")
    ran = folder.run("perf/test_own.py", exit_code=1)
    assert "assert busbw_verdict.now is None" in ran.text.split("= FAILURES =")[1]


@pytest.mark.exhaustive
def test_a_progress_line_is_written_to_an_output_file_at_most_once_a_minute(folder: Folder) -> None:
    text = folder.run("--payloads=1K,1M", "--launches=3", exit_code=0).text
    assert re.findall(r"^busbw: round (\d)/3: 1/", text, flags=re.MULTILINE) == ["1"]


@pytest.mark.exhaustive
def test_the_progress_of_all_rounds_is_shown_on_a_single_line_of_the_terminal(
    folder: Folder,
) -> None:
    folder.script(**SLOW, cases=[{"payload_bytes": 2**20, "then": "wrong_result"}])
    text = _on_a_terminal(folder, "--payloads=1K,1M", "--launches=2")
    rows = [re.sub(r"\x1b\[[0-9;]*[mK]", "", line) for line in text.split("\r\n")]
    progress = [part for line in rows for part in line.split("\r") if "busbw: round " in part]
    assert len(progress) >= 2
    assert sum("busbw: round " in line for line in rows) < len(progress)


def _on_a_terminal(folder: Folder, *options: str) -> str:
    """Return the output of a session to a terminal of 80 columns."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    command = folder.command(*FAKE, *WITHOUT_CACHE, *options)
    with subprocess.Popen(
        command, stdout=follower, stderr=follower, stdin=follower, env=environment, cwd=folder.path
    ) as session:
        os.close(follower)
        text = _read(leader, Path(f"/proc/{session.pid}"))
    os.close(leader)
    return text


def _read(leader: int, process: Path) -> str:
    output = b""
    while True:
        ready, _, _ = select.select([leader], [], [], 60)
        assert ready, (output.decode(), process)
        try:
            part = os.read(leader, 65536)
        except OSError:
            # The other side is closed.
            return output.decode()
        output += part
