"""Files: what is read, what is written, what is shipped; all else is refused or left as it was."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw import __version__, files
from busbw.files import InputError, PartlyWrittenError, write, write_all


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


ROOT = Path(__file__).parents[1]
NO_SOURCES = shutil.ignore_patterns("__pycache__")
INPUTS = ("busbw", "perf", "baselines", "docs")
WHEEL = f"busbw-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, with what a user leaves in it."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in INPUTS:
        shutil.copytree(ROOT / name, folder / name, ignore=NO_SOURCES)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    left = (
        "baselines/amd-epyc-2c/4r/jax.all_reduce.psum.json",
        "baselines/acknowledged.toml",
        "busbw/__pycache__/grid.cpython-311.pyc",
        "perf/__pycache__/test_collectives.cpython-311-pytest-9.2.0.pyc",
        "perf/.pytest_cache/README.md",
        "tests/test_grid.py",
    )
    for name in left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def built(source: Path, target: str, folder: Path) -> Path:
    """The sdist or the wheel of `source`."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory"]
    subprocess.run([*command, str(folder)], cwd=source, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


def contents(wheel: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist()}


def expected() -> dict[str, bytes]:
    """Every file of the package, the promises and what is shipped of baselines, as it lies here."""
    sources = {
        "busbw": [path for path in (ROOT / "busbw").rglob("*") if "__pycache__" not in path.parts],
        "perf": list((ROOT / "perf").glob("*.py")),
        "baselines": [
            *(ROOT / "baselines" / "compiled").rglob("*.json"),
            *(ROOT / "baselines").glob("*/*/published.*.json"),
        ],
    }
    below = {"busbw": "busbw", "perf": "busbw/perf", "baselines": "busbw/shipped_baselines"}
    return {
        f"{below[name]}/{path.relative_to(ROOT / name).as_posix()}": path.read_bytes()
        for name, paths in sources.items()
        for path in paths
        if path.is_file()
    }


def test_the_wheel_has_all_of_the_package_the_promises_and_shipped_baselines_and_no_more(
    wheel: Path,
) -> None:
    assert wheel.name == WHEEL
    found = {name: text for name, text in contents(wheel).items() if ".dist-info/" not in name}
    assert sorted(found) == sorted(expected())
    assert found == expected()
    assert "busbw/py.typed" in found and "busbw/page/page.html" in found


def test_the_wheel_adds_a_command_and_no_plugin_to_other_sessions(wheel: Path) -> None:
    (text,) = (text for name, text in contents(wheel).items() if name.endswith("entry_points.txt"))
    assert text.decode().split() == ["[console_scripts]", "busbw", "=", "busbw.__main__:main"]


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 2**20


def test_the_sdist_builds_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    for name in ("sdist", "unpacked", "again"):
        (tmp_path / name).mkdir()
    with tarfile.open(built(checkout, "sdist", tmp_path / "sdist")) as files:
        if hasattr(tarfile, "data_filter"):
            # Not before 3.11.4, which some distributions have; later ones warn without it.
            files.extraction_filter = tarfile.data_filter
        files.extractall(tmp_path / "unpacked")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert contents(built(source, "wheel", tmp_path / "again")) == contents(wheel)


def test_an_editable_install_is_a_path(checkout: Path, tmp_path: Path) -> None:
    build = f"from hatchling import build; build.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=checkout, check=True, capture_output=True)
    (path,) = tmp_path.iterdir()
    found = {name: text for name, text in contents(path).items() if ".dist-info/" not in name}
    assert found == {"_busbw.pth": str(checkout).encode()}


def test_in_a_checkout_what_is_shipped_lies_beside_the_package() -> None:
    assert files.shipped_promises() == ROOT / "perf"
    assert files.shipped_baselines() == ROOT / "baselines"


def test_no_word_of_what_is_shipped_says_where_it_was_written() -> None:
    texts = [text.decode() for name, text in expected().items() if not name.endswith(".py")]
    assert not [text for text in texts if re.search(r"/(root|home)/", text)]
