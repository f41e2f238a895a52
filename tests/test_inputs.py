"""Files that somebody named: whole ones are read, all else is refused and never waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from busbw import files
from busbw.files import InputError


def _refused(path: Path, says: str, most_bytes: int = 100) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InputError) as refused:
        files.content(path, most_bytes)
    assert says in str(refused.value)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_read_whole_through_a_link_too(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    content = os.urandom(3 * 2**20)
    path.write_bytes(content)
    link.symlink_to(path)
    assert files.content(path) == files.content(link) == content


def test_a_file_of_nothing_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert files.content(tmp_path / "file") == b""


def test_what_is_no_file_is_refused_by_its_kind(tmp_path: Path) -> None:
    _refused(tmp_path, "is a folder; accepted is a file")
    os.mkfifo(tmp_path / "pipe")
    _refused(tmp_path / "pipe", "is a named pipe; accepted is a file")
    _refused(Path("/dev/zero"), "is a device or a socket; accepted is a file")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        _refused(tmp_path / "socket", "No such device or address")


def test_what_cannot_be_opened_is_refused_with_the_system_s_reason(tmp_path: Path) -> None:
    _refused(tmp_path / "missing", "No such file or directory")
    _refused(tmp_path / ("long" * 100), "File name too long")
    _refused(Path("a\0b"), "embedded null")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    _refused(loop, "Too many levels of symbolic links")


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 2**40)
    _refused(path, "has 1099511627776 bytes; accepted are 100")
    path.write_bytes(bytes(100))
    assert files.content(path, 100) == bytes(100)


def test_a_file_whose_size_the_system_does_not_know_has_the_same_limit() -> None:
    # It says 0 bytes.
    _refused(Path("/proc/kallsyms"), "has more than 100 bytes")
