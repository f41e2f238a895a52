"""The files that travel: all of them arrive as they were, or none is written."""

from __future__ import annotations

import base64
import json
import os
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from busbw.hosts.messages import Files, FilesError, Unpacking, hash_of, parts_of

FILES = {"__main__.py": b"main()\n", "busbw/model/words.py": "\N{SNOWMAN}".encode()}


def written(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_files_arrive_as_they_were(tmp_path: Path) -> None:
    (part,) = parts_of(FILES)
    assert Unpacking(tmp_path).add(part) == hash_of(FILES)
    assert written(tmp_path) == FILES


def test_many_parts_are_written_after_the_last_one(tmp_path: Path) -> None:
    files = {f"busbw/{i}.py": base64.b64encode(os.urandom(400_000)) for i in range(4)}
    parts = parts_of(files)
    assert len(parts) > 2
    unpacking = Unpacking(tmp_path)
    assert [unpacking.add(part) for part in parts[:-1]] == [""] * (len(parts) - 1)
    assert not written(tmp_path)
    assert unpacking.add(parts[-1]) == hash_of(files)
    assert written(tmp_path) == files


def test_what_a_worker_needs_is_sent_without_byte_code_and_logs(tmp_path: Path) -> None:
    bundle = Bundle()
    bundle.log_path("1.fake").write_text("log")
    sources = bundle.sources()
    bundle.remove()
    assert {"__main__.py", "busbw/worker/serve.py", "busbw/wire.py"} <= set(sources)
    assert {Path(path).suffix for path in sources} == {".py"}
    for part in parts_of(sources):
        Unpacking(tmp_path).add(part)
    assert written(tmp_path) == sources


def test_files_with_another_hash_are_not_written(tmp_path: Path) -> None:
    (part,) = parts_of(FILES)
    with pytest.raises(FilesError, match=r"their hash is .*, and not 00"):
        Unpacking(tmp_path).add(replace(part, hash="00"))
    assert not written(tmp_path)


def test_the_hash_tells_paths_from_contents() -> None:
    assert hash_of({"a.py": b"b", "c.py": b""}) != hash_of({"a.py": b"", "bc.py": b""})


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
    (part,) = parts_of({**FILES, path: b""})
    with pytest.raises(FilesError, match="is no path of a file of busbw"):
        Unpacking(tmp_path / "folder").add(part)
    assert not written(tmp_path)


def packed(content: bytes) -> Files:
    """A part that holds this."""
    return Files(hash="", content=base64.b64encode(content).decode(), left=0)


@pytest.mark.parametrize(
    "part",
    [
        packed(b"not compressed"),
        packed(zlib.compress(b"not JSON")),
        packed(zlib.compress(b"[]")),
        packed(zlib.compress(json.dumps({"a.py": 1}).encode())),
        packed(zlib.compress(json.dumps({"a.py": "\udc80"}).encode())),
        packed(zlib.compress(json.dumps({"a.py": "x"}).encode())[:-4]),
        Files(hash="", content="?", left=0),
    ],
)
def test_what_holds_no_files_is_refused(tmp_path: Path, part: Files) -> None:
    with pytest.raises(FilesError):
        Unpacking(tmp_path).add(part)
    assert not written(tmp_path)


def test_what_unpacks_to_more_than_all_files_of_busbw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FilesError):
        Unpacking(tmp_path).add(packed(zlib.compress(b" " * 2**28)))
    assert not written(tmp_path)


def test_files_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text("there already")
    (part,) = parts_of(FILES)
    with pytest.raises(FilesError, match="they cannot be written: File exists"):
        Unpacking(tmp_path).add(part)
