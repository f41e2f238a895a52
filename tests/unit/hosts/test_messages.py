"""What travels: operations with their values, and files, which all arrive as they were, or none."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from busbw import wire
from busbw.driver.bundle import Bundle
from busbw.driver.process import Order
from busbw.hosts.connection import MOST_BYTES
from busbw.hosts.messages import (
    FilesError,
    Lock,
    Message,
    ToAgent,
    ToSession,
    encoded,
    pack,
    read,
    unpack,
)

FILES = {"__main__.py": b"main()\n", "busbw/model/words.py": "\N{SNOWMAN}".encode()}


def written(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_files_arrive_as_they_were(tmp_path: Path) -> None:
    unpack(pack(FILES), tmp_path)
    assert written(tmp_path) == FILES


def test_what_a_worker_needs_is_sent_without_byte_code_and_logs(tmp_path: Path) -> None:
    bundle = Bundle()
    bundle.log_path("1.fake").write_text("log")
    sources = bundle.sources()
    bundle.remove()
    assert {"__main__.py", "busbw/worker/serve.py", "busbw/wire.py"} <= set(sources)
    assert {Path(path).suffix for path in sources} == {".py"}
    # In one frame, of which they take a part.
    assert len(pack(sources)) < MOST_BYTES / 2
    unpack(pack(sources), tmp_path)
    assert written(tmp_path) == sources


@pytest.mark.parametrize(
    "path",
    [
        "/etc/a.py",
        "../a.py",
        "busbw/../../a.py",
        "a//b.py",
        "./a.py",
        "",
        "a.so",
        "a\n.py",
        "\0.py",
    ],
)
def test_a_path_outside_of_the_folder_or_of_no_source_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(FilesError, match="is no path of a file of busbw"):
        unpack(pack({**FILES, path: b""}), tmp_path / "folder")
    assert not written(tmp_path)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"not compressed",
        zlib.compress(b"not JSON"),
        zlib.compress(b"[]"),
        zlib.compress(json.dumps({"a.py": 1}).encode()),
        zlib.compress(json.dumps({"a.py": "\udc80"}).encode()),
        zlib.compress(json.dumps({"a.py": "x"}).encode())[:-4],
        # More than all files of busbw.
        zlib.compress(b" " * 2**28),
        pack({"a.py": b" " * 2**26}),
    ],
)
def test_what_holds_no_files_is_refused(tmp_path: Path, packed: bytes) -> None:
    with pytest.raises(FilesError):
        unpack(packed, tmp_path)
    assert not written(tmp_path)


def test_files_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text("there already")
    with pytest.raises(FilesError, match="they cannot be written: File exists"):
        unpack(pack(FILES), tmp_path)


def test_a_message_arrives_as_it_was() -> None:
    sent = Message(ToSession.OUTPUT, bytes(range(256)), 7)
    assert read(ToSession, sent.body) == sent
    order = Order(name="1.fake", arguments=("--framework=fake",), environment={"A": "\n"})
    begun = Message(ToAgent.START, encoded(order), 1)
    assert read(ToAgent, begun.body).value(Order) == order


def test_neither_side_reads_what_it_would_say_itself() -> None:
    with pytest.raises(wire.WireError, match=r"^message: expected one of alive, .*, got kill$"):
        read(ToSession, Message(ToAgent.KILL, worker=1).body)
    with pytest.raises(wire.WireError, match=r"^message: expected one of beat, .*, got exited$"):
        read(ToAgent, Message(ToSession.EXITED, worker=1).body)
    assert not {one.value for one in ToAgent} & {one.value for one in ToSession}


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"kill", b"kill 1x\n", b"kill -1\n", b"KILL 1\n", b"kill 1 1\n", b"kill 1" * 9],
)
def test_what_is_no_message_is_an_error_that_says_why(body: bytes) -> None:
    with pytest.raises(wire.WireError, match="expected one of beat, files, "):
        read(ToAgent, body)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"wait_s": "1"}', b"[" * 100_000])
def test_a_value_is_checked_and_named_by_its_operation(content: bytes) -> None:
    with pytest.raises(wire.WireError):
        Message(ToAgent.LOCK, content).value(Lock)
    with pytest.raises(wire.WireError, match=r"^lock\.wait_s: expected a number"):
        Message(ToAgent.LOCK, b'{"wait_s": "1"}').value(Lock)
