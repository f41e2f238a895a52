"""Files whole or not at all, several together or none; links, modes, devices."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from busbw import files
from busbw.files import PartlyWrittenError, write, write_all


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """Two files that are there and one that is not, in a folder that is not there."""
    paths = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "new" / "folder" / "c.json"]
    for path in paths[:2]:
        path.write_text(f"old {path.name}")
    return paths


def _failing_at(monkeypatch: pytest.MonkeyPatch, name: str, function: str = "replace") -> None:
    """Let `os.replace` fail where it would put a file called `name` in its place."""
    real = getattr(os, function)

    def failing(source: Path, target: Path) -> None:
        if Path(target).name == name and Path(source).suffix == ".new":
            raise OSError(5, "Input/output error", str(source))
        real(source, target)

    monkeypatch.setattr(os, function, failing)


def _tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in folder.rglob("*")
    }


def test_all_are_written_and_nothing_else_is_left(tmp_path: Path, three: list[Path]) -> None:
    write_all({three[0]: "1", three[1]: None, three[2]: b"3"})
    assert _tree(tmp_path) == {"a.json": "1", "new": "", "new/folder": "", "new/folder/c.json": "3"}


@pytest.mark.parametrize("last", [0, 1, 2])
def test_where_one_cannot_take_its_place_none_does(
    tmp_path: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    before = _tree(tmp_path)
    _failing_at(monkeypatch, three[last].name)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write_all(dict.fromkeys(three, "new"))
    assert caught.value.filename == str(three[last])
    assert _tree(tmp_path) == before


def test_where_one_cannot_be_written_at_all_nothing_is_touched(
    tmp_path: Path, three: list[Path]
) -> None:
    before = _tree(tmp_path)
    below_a_file = three[0] / "d.json"
    with pytest.raises(NotADirectoryError) as caught:
        write_all({**dict.fromkeys(three, "new"), below_a_file: "new"})
    assert caught.value.filename == str(below_a_file)
    assert _tree(tmp_path) == before


def test_a_removal_is_undone_too(
    tmp_path: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _tree(tmp_path)
    _failing_at(monkeypatch, "b.json")
    with pytest.raises(OSError, match="Input/output error"):
        write_all({three[0]: None, three[1]: "new"})
    assert _tree(tmp_path) == before


def test_without_second_names_copies_are_kept_meanwhile(
    tmp_path: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = _tree(tmp_path)
    monkeypatch.setattr(os, "link", none)
    _failing_at(monkeypatch, "c.json")
    with pytest.raises(OSError, match="Input/output error"):
        write_all(dict.fromkeys(three, "new"))
    assert _tree(tmp_path) == before


def test_what_cannot_be_put_back_is_named(
    tmp_path: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def once(source: Path, target: Path) -> None:
        if Path(target).name != "a.json" or Path(source).suffix == ".old":
            raise OSError(30, "Read-only file system", str(source))
        real(source, target)

    monkeypatch.setattr(os, "replace", once)
    with pytest.raises(PartlyWrittenError) as caught:
        write_all(dict.fromkeys(three, "new"))
    assert str(caught.value) == (
        f"{three[1]}: Read-only file system; written before that: {three[0]}"
    )
    assert (three[0].read_text(), three[1].read_text()) == ("new", "old b.json")


def test_an_interrupt_between_two_files_undoes_the_first(
    tmp_path: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = _tree(tmp_path), os.replace

    def interrupted(source: Path, target: Path) -> None:
        if Path(target).name == "b.json":
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_all(dict.fromkeys(three, "new"))
    assert _tree(tmp_path) == before


def test_a_link_is_followed_and_the_mode_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("target")
    write(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_name_as_long_as_the_file_system_takes_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write(path, "new")
    assert path.read_text() == "new"


def test_a_folder_and_a_fifo_are_errors_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in (".", "fifo"):
        with pytest.raises(OSError, match="accepted is a file"):
            write(tmp_path / name, "new")


def test_a_device_is_written_directly() -> None:
    write(Path("/dev/null"), "new")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write(Path("/dev/full"), "new")
    assert Path("/dev/null").is_char_device()


def test_a_descriptor_of_this_process_goes_on_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w") as file:
        file.write("before ")
        file.flush()
        for name in (f"/dev/fd/{file.fileno()}", f"/proc/{os.getpid()}/fd/{file.fileno()}"):
            files.check(Path(name), what="nothing", ours=lambda _: False)
            write(Path(name), "after ")
    assert path.read_text() == "before after after "


def test_a_folder_is_checked_before_it_is_made(tmp_path: Path) -> None:
    files.check_folder(tmp_path / "not" / "yet" / "there")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(files.Refused):
            files.check_folder(path)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(files.Refused, match="Too many levels"):
        files.check_folder(loop / "below")
    assert not (tmp_path / "not").exists()
    shutil.rmtree(tmp_path)
