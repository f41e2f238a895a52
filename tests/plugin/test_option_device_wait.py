"""--device-wait: two sessions never measure at once; the second waits, and not forever."""

from __future__ import annotations

import os

import filelock

from tests.driver.processes import wait_until

from .folder import Folder


def lock_of(folder: Folder) -> filelock.FileLock:
    """The lock that a measuring session holds."""
    return filelock.FileLock(folder.temporary / f"busbw-{os.getuid()}-device.lock")


def test_after_so_long_it_is_a_usage_error_that_says_who_has_the_device(folder: Folder) -> None:
    with lock_of(folder):
        ran = folder.run("--device-wait=0.3", exit_code=4)
    assert "another session has been measuring on this machine for 0.3 s" in ran.sentence
    assert "device.lock" in ran.sentence


def test_it_waits_for_the_other_session_says_so_and_then_measures(folder: Folder) -> None:
    lock = lock_of(folder)
    with lock:
        session = folder.start()
        assert wait_until(lambda: "another busbw session is measuring" in folder.output)
    assert session.wait(60) == 0
    assert "1 case measured in 1 launch each" in folder.output


def test_nonsense_is_a_usage_error(folder: Folder) -> None:
    ran = folder.run("--device-wait=forever", exit_code=4)
    assert "accepted is a number of seconds above 0" in ran.sentence
