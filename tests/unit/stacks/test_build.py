"""Wheels are believed with their hashes only; environments are built whole and once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from busbw import storage
from busbw.stacks import build, interpreter
from busbw.stacks.lock import Lock, Package, StackError
from tests.helpers.sweep import sweep
from tests.helpers.wheels import Machine, venv, wheel

pytestmark = pytest.mark.slow

_SAYS = "import core, framework; print(core.VERSION, framework.VERSION, core.__file__)"


def _said(python: str) -> str:
    done = subprocess.run([python, "-I", "-c", _SAYS], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", sweep(["uv", "pip"]))
def test_it_has_what_the_lock_says_and_is_built_once(
    machine: Machine, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = machine.lock()
    if by == "pip":
        monkeypatch.setattr(build, "uv_command", list)
    assert bool(build.uv_command()) is (by == "uv")
    found = build.built(machine.cache, lock, [machine.python])
    assert (
        _said(found.python) == f"2.1 1.0 {found.folder}/venv" + _said(found.python).split("venv")[1]
    )
    shutil.rmtree(build.wheels_of(machine.cache))
    shutil.rmtree(machine.index)
    assert build.built(machine.cache, lock, []) == found
    assert build.all_built(machine.cache) == (found,)


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", sweep(["uv", "pip"]))
def test_it_is_built_again_offline_and_without_what_uv_keeps(
    machine: Machine, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An index drops releases, and so does a cache: what a stack needs is kept with it."""
    lock = machine.lock()
    if by == "pip":
        monkeypatch.setattr(build, "uv_command", list)
    before = build.built(machine.cache, lock, [machine.python])
    shutil.rmtree(before.folder)
    shutil.rmtree(machine.index)
    for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "emptied"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    assert build.built(machine.cache, lock, [machine.python]) == before
    assert _said(before.python).startswith("2.1 1.0")


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", sweep(["pip", "uv"]))
def test_installers_read_a_lock_without_busbw(machine: Machine, by: str, tmp_path: Path) -> None:
    path = tmp_path / "pylock.framework.toml"
    path.write_text(machine.lock().text)
    python = venv(tmp_path / "theirs")
    install = ["install", "--quiet", "-r", str(path)]
    uv = [*build.uv_command(), "pip", *install, "--no-config", f"--python={python}"]
    pip = [sys.executable, "-m", "pip", "--python", python, *install]
    subprocess.run(uv if by == "uv" else pip, check=True)
    assert _said(python).startswith("2.1 1.0")


@pytest.mark.exhaustive
def test_one_that_was_cut_short_is_found_and_done_again(machine: Machine) -> None:
    lock = machine.lock()
    found = build.built(machine.cache, lock, [machine.python])
    (found.folder / "complete").unlink()
    (found.folder / "uv.left").mkdir()
    next((found.folder / "venv").glob("lib/*/site-packages/core.py")).unlink()
    (torn,) = build.all_built(machine.cache)
    assert torn.is_torn
    assert not build.built(machine.cache, lock, [machine.python]).is_torn
    assert _said(found.python).startswith("2.1 1.0")
    names = sorted(path.name for path in found.folder.iterdir())
    assert names == ["complete", "pylock.toml", "requirements.txt", "venv"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", ["edited", "added", "removed"])
def test_one_that_somebody_changed_is_found_and_done_again(machine: Machine, change: str) -> None:
    lock = machine.lock()
    found = build.built(machine.cache, lock, [machine.python])
    _said(found.python)
    assert not build.all_built(machine.cache)[0].is_torn
    (core,) = (found.folder / "venv").glob("lib/*/site-packages/core.py")
    if change == "edited":
        core.write_text("VERSION = '6.6'\n")
    elif change == "added":
        (core.parent / "plugin.py").write_text("")
    else:
        core.unlink()
    assert build.all_built(machine.cache)[0].is_torn
    assert build.built(machine.cache, lock, [machine.python]) == found
    assert _said(found.python).startswith("2.1 1.0")
    assert not (core.parent / "plugin.py").exists()


@pytest.mark.exhaustive
def test_two_sessions_that_want_one_build_it_once(machine: Machine) -> None:
    lock = machine.lock()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(build.built, machine.cache, lock, [machine.python]) for _ in range(2)]
    assert both[0].result() == both[1].result()
    assert _said(both[0].result().python).startswith("2.1 1.0")


@pytest.mark.exhaustive
def test_what_no_lock_names_is_removed_and_what_is_being_built_is_not(machine: Machine) -> None:
    lock = machine.lock()
    kept = build.built(machine.cache, lock, [machine.python])
    other = replace(lock, flags={"XLA_FLAGS": "--xla_one=1"}, packages=lock.packages[:1])
    gone = build.built(machine.cache, other, [machine.python])
    torn, busy = (build.folder_of(machine.cache) / name for name in ("torn", "busy"))
    torn.mkdir()
    busy.mkdir()
    with storage.folder_lock(busy.resolve(), 0.0):
        assert set(build.prune(machine.cache, [lock])) == {gone.folder, torn}
    assert _said(kept.python).startswith("2.1 1.0")
    wheel = build.wheel_of(machine.cache, lock.packages[0]).parent
    assert set(build.prune(machine.cache, [replace(lock, packages=lock.packages[1:])])) == {
        busy,
        kept.folder,
        wheel,
    }
    assert build.all_built(machine.cache) == ()


@pytest.mark.exhaustive
def test_each_package_has_the_wheel_of_the_index_with_its_hash(machine: Machine) -> None:
    core, framework = machine.lock().packages
    assert (core.name, core.version, core.wheel) == ("core", "2.1", "core-2.1-py3-none-any.whl")
    content = (machine.index / framework.wheel).read_bytes()
    assert framework.sha256 == hashlib.sha256(content).hexdigest()
    assert not machine.cache.exists()


@pytest.mark.exhaustive
def test_what_has_sources_alone_cannot_be_locked(machine: Machine) -> None:
    found = interpreter.installed(machine.python).stack(["framework"])
    (machine.index / "framework-1.0-py3-none-any.whl").unlink()
    (machine.index / "framework-1.0.tar.gz").write_bytes(b"sources")
    with pytest.raises(StackError, match=r"pip says: .*framework==1\.0"):
        build.packages_of(found, machine.python)


@pytest.mark.exhaustive
def test_wheels_are_fetched_once_and_kept_when_the_index_drops_them(machine: Machine) -> None:
    lock = machine.lock()
    paths = build.fetched(machine.cache, lock, machine.python)
    assert [path.name for path in paths] == [one.wheel for one in lock.packages]
    assert [path.parent.name for path in paths] == [one.sha256 for one in lock.packages]
    shutil.rmtree(machine.index)
    assert build.fetched(machine.cache, lock, machine.python) == paths
    assert sorted(path.name for path in build.wheels_of(machine.cache).iterdir()) == sorted(
        one.sha256 for one in lock.packages
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["purelib", "platlib"])
def test_files_that_installing_moves_out_of_the_data_folder_are_those_of_the_wheel(
    machine: Machine, tmp_path: Path, scheme: str
) -> None:
    moved = {f"framework-1.0.data/{scheme}/framework/__init__.py": "VERSION = 1\n"}
    native = wheel(machine.index, "framework", "1.0", files=moved)
    other = replace(machine, python=venv(tmp_path / "other", native))
    (path,) = build.fetched(other.cache, other.lock(), other.python)
    assert path.name == native.name


def test_a_kept_wheel_of_another_hash_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"as fetched").hexdigest()
    package = Package(
        name="core", version="2.1", url="x/core-2.1.whl", sha256=sha256, record="f" * 64
    )
    lock = Lock(
        framework="framework",
        python="3.12.4",
        platform="linux-x86_64",
        date="2026-01-31",
        packages=(package,),
    )
    path = build.wheel_of(tmp_path, package)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"exchanged")
    with pytest.raises(StackError, match=rf"{path} was changed since it was fetched: its sha256"):
        build.fetched(tmp_path, lock, "no interpreter")


LOCK = Lock(
    framework="framework", python="3.12.4", platform="linux-x86_64", date="2026-01-31", packages=()
)


@pytest.fixture
def installing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes wrong, if anything, while a module is installed without an installer."""
    problems = list[str]()

    def install(folder: Path, *given: object) -> None:
        (folder / "venv").mkdir()
        (folder / "venv" / "core.py").write_text("VERSION = '2.1'\n")
        for one in problems:
            raise StackError(one)

    monkeypatch.setattr(build, "_fitting", lambda lock, pythons: "python")
    monkeypatch.setattr(build, "_install", install)
    return problems


def test_of_an_environment_that_could_not_be_installed_nothing_is_left(
    installing: list[str], tmp_path: Path
) -> None:
    installing.append("no space left")
    with pytest.raises(StackError, match="no space left"):
        build.built(tmp_path, LOCK, [])
    assert [one.is_torn for one in build.all_built(tmp_path)] == [True]
    assert not list((build.folder_of(tmp_path) / LOCK.digest).iterdir())


@pytest.mark.usefixtures("installing")
def test_an_edit_of_as_many_bytes_is_found(tmp_path: Path) -> None:
    found = build.built(tmp_path, LOCK, [])
    assert not found.is_torn
    core = found.folder / "venv" / "core.py"
    state = core.stat()
    core.write_text(core.read_text().replace("2.1", "6.6"))
    os.utime(core, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert core.stat().st_size == state.st_size
    assert build.all_built(tmp_path)[0].is_torn
