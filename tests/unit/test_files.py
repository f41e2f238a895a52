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
from busbw.files import InputError, write


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
    _refused(tmp_path, "is a folder, expected a file")
    os.mkfifo(tmp_path / "pipe")
    _refused(tmp_path / "pipe", "is a named pipe, expected a file")
    _refused(Path("/dev/zero"), "is a device or a socket, expected a file")
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


def test_a_file_is_written_into_a_new_folder_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.json"
    for content in ("1", b"2"):
        write(path, content)
    assert path.read_bytes() == b"2"
    assert [one.name for one in tmp_path.rglob("*")] == ["new", "folder", "file.json"]


@pytest.mark.parametrize("stop", [OSError(5, "Input/output error", "elsewhere"), KeyboardInterrupt])
def test_a_file_that_cannot_take_its_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    def failing(source: Path, target: Path) -> None:
        raise stop

    path = tmp_path / "file.json"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises((OSError, KeyboardInterrupt)) as caught:
        write(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file.json"]
    if isinstance(caught.value, OSError):
        assert caught.value.filename == str(path)


def test_a_link_is_followed_and_the_mode_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("target")
    write(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_folder_a_fifo_and_a_device_are_errors_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/null")):
        with pytest.raises(OSError, match="expected a file"):
            write(path, "new")


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


ROOT = Path(__file__).parents[2]
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
        "tests/unit/test_grid.py",
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
    assert "busbw/py.typed" in found and "busbw/extensions/page/page.html" in found


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


def test_no_word_of_what_is_shipped_says_where_it_was_written() -> None:
    texts = [text.decode() for name, text in expected().items() if not name.endswith(".py")]
    assert not [text for text in texts if re.search(r"/(root|home)/", text)]
