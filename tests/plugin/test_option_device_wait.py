"""--device-wait: two sessions never measure at once; the second waits, and not forever."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from busbw import locks
from busbw.driver.local import alone
from tests.driver.processes import wait_until

from .folder import Folder


def test_after_so_long_it_is_a_usage_error_that_says_who_has_the_device(folder: Folder) -> None:
    with alone(0):
        ran = folder.run("--device-wait=0.3", exit_code=4)
    assert "another session has been measuring on this machine for 0.3 s" in ran.sentence
    assert f"(pid {os.getpid()}, started " in ran.sentence


def test_it_waits_for_the_other_session_says_so_and_then_measures(folder: Folder) -> None:
    with alone(0):
        session = folder.start()
        assert wait_until(lambda: "another busbw session is measuring" in folder.output)
        assert f"waiting for its end (pid {os.getpid()}, started " in folder.output
    assert session.wait(60) == 0
    assert "1 case measured in 1 launch each" in folder.output


@pytest.mark.exhaustive
def test_sessions_with_other_folders_for_temporary_files_wait_for_each_other(
    folder: Folder, tmp_path: Path
) -> None:
    folder.script(cases=[{"then": "hang"}])
    first = folder.start()
    assert wait_until(lambda: list(folder.temporary.glob("busbw-*/1.fake.fake.log")))
    folder.environment.setenv("TMPDIR", str(tmp_path))
    ran = folder.run("--device-wait=0.3", exit_code=4)
    assert "another session has been measuring on this machine for 0.3 s" in ran.sentence
    assert f"(pid {first.pid}, started " in ran.sentence
    first.send_signal(signal.SIGINT)
    assert first.wait(30) == 2
    folder.script()
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}


@pytest.mark.parametrize("name", ["device", "0123456789abcdef"])
def test_what_was_planted_in_the_folder_for_temporary_files_is_neither_written_nor_followed(
    folder: Folder, tmp_path: Path, name: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    planted = folder.temporary / f"busbw-{os.getuid()}-{name}.lock"
    planted.symlink_to(victim)
    folder.with_baselines()
    assert victim.read_text() == "as it was"
    assert [planted.name] == folder.left_over()
    planted.unlink()


def test_a_session_leaves_no_lock_behind(folder: Folder) -> None:
    folder.with_baselines()
    assert not folder.left_over()
    assert [path.suffix for path in folder.baseline_files] == [".json"]
    with alone(0), locks.folder(folder.path / "baselines", 0):
        pass


def test_nonsense_is_a_usage_error(folder: Folder) -> None:
    ran = folder.run("--device-wait=forever", exit_code=4)
    assert "accepted is a number of seconds above 0" in ran.sentence
