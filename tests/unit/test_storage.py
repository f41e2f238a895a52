"""Reads are bounded, writes are atomic, and locks end with their process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw import storage


@pytest.fixture
def lock_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the path of the lock file of a machine that no other test uses."""
    monkeypatch.setenv(storage.MACHINE_VARIABLE, str(tmp_path / "machine"))
    return tmp_path / "machine.lock"


def test_a_link_in_the_place_of_a_lock_file_is_refused_and_its_target_is_not_changed(
    lock_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("other")
    lock_file.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="link"):
        storage.lock_machine(0)
    assert (tmp_path / "other").read_text() == "other"


def test_another_process_can_get_a_lock_after_its_lock_file_was_removed(lock_file: Path) -> None:
    first = storage.lock_machine(0)
    lock_file.unlink()
    with first, storage.lock_machine(0), pytest.raises(storage.LockedError):
        storage.lock_machine(0)


def test_only_one_process_at_a_time_holds_the_lock_of_a_folder(
    tmp_path: Path,
) -> None:
    with storage.lock_folder(tmp_path, 0), pytest.raises(storage.LockedError):
        storage.lock_folder(tmp_path, 0)
    with storage.lock_folder(tmp_path, 0):
        assert not list(tmp_path.iterdir())


def test_only_a_regular_file_within_the_limit_of_bytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    assert storage.read(path, 100) == bytes(100)
    os.mkfifo(tmp_path / "fifo")
    for refused in (tmp_path, tmp_path / "fifo", Path("/dev/zero"), tmp_path / "gone", Path("\0")):
        with pytest.raises(storage.InputError):
            storage.read(refused)
    # The system gives a size of 0 for files of /proc.
    for large in (path, Path("/proc/kallsyms")):
        with pytest.raises(storage.TooLargeError):
            storage.read(large, 99)


def test_a_failed_write_of_a_file_leaves_the_earlier_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "file"
    storage.write(path, "old")

    def fail(source: Path, target: Path) -> None:
        raise OSError(5, "Input/output error", "elsewhere")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError) as caught:
        storage.write(path, "new")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old" and os.listdir(path.parent) == ["file"]


def test_writing_a_file_follows_a_link_and_keeps_the_mode_of_the_file(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("target")
    storage.write(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)
    (tmp_path / "loop").symlink_to("loop")
    for refused in (Path("/dev/null"), tmp_path / "loop"):
        with pytest.raises(OSError, match=r"expected a regular file|Too many levels"):
            storage.write(refused, "new")
