"""A first session without baselines: its output, and the command that records baselines."""

from __future__ import annotations

import shlex

from tests.helpers.session_folder import Folder


def test_a_session_without_baselines_prints_the_command_that_records_the_baselines(
    folder: Folder,
) -> None:
    ran = folder.run("--payloads=64K,1M", exit_code=0)
    lines = ran.text.splitlines()
    assert ran.document["session"]["outcomes"] == ["NOTHING_COMPARED"]
    assert "NOTHING_COMPARED: 2 cases measured in 1 launch each" in lines
    assert ran.last_line.strip("= ").startswith("2 without baseline in ")
    (command,) = (line for line in lines if line.startswith("2 cases without a baseline; "))
    words = shlex.split(command.partition("to record times: ")[2])
    assert words[:3] == ["python", "-m", "pytest"]
    assert "--payloads=64K,1M" in words and words[-1] == "--update-baselines=new"
    recorded = folder.pytest(*words[3:], exit_code=0)
    assert "without a baseline; " not in recorded.text
    compared = folder.run("--payloads=64K,1M", exit_code=0)
    assert compared.document["session"]["outcomes"] == ["PASS"]
    assert "without a baseline; " not in compared.text
    assert "\n1 case without a baseline; to record times: " in (
        folder.run("--payloads=64K,1M,2M", "--require-baselines", exit_code=1).text
    )
