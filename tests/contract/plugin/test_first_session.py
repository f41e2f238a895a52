"""A first session without baselines: its output, and the option that records baselines."""

from __future__ import annotations

from tests.helpers.session_folder import Folder


def test_a_session_without_baselines_names_the_option_that_records_the_baselines(
    folder: Folder,
) -> None:
    ran = folder.run("--payloads=64K,1M", exit_code=0)
    lines = ran.text.splitlines()
    assert ran.document["session"]["outcomes"] == ["NOTHING_COMPARED"]
    assert "NOTHING_COMPARED: 2 cases measured in 1 launch each" in lines
    assert ran.last_line.strip("= ").startswith("2 without baseline in ")
    assert "2 cases without a baseline; --update-baselines=new stores the results" in lines
    recorded = folder.run("--payloads=64K,1M", "--update-baselines=new", exit_code=0)
    assert "without a baseline; " not in recorded.text
    compared = folder.run("--payloads=64K,1M", exit_code=0)
    assert compared.document["session"]["outcomes"] == ["PASS"]
    assert "without a baseline; " not in compared.text
    assert "\n1 case without a baseline; --update-baselines=new" in (
        folder.run("--payloads=64K,1M,2M", exit_code=0).text
    )
