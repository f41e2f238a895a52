"""Wheels are named by what an index says, fetched once, and believed only with their hashes."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.stacks import interpreter, wheels
from busbw.stacks.lock import StackError

from .conftest import Machine, venv, wheel

pytestmark = pytest.mark.slow


def test_each_package_has_the_wheel_of_the_index_with_its_hash(machine: Machine) -> None:
    core, framework = machine.lock().packages
    assert (core.name, core.version, core.wheel) == ("core", "2.1", "core-2.1-py3-none-any.whl")
    content = (machine.index / framework.wheel).read_bytes()
    assert framework.sha256 == hashlib.sha256(content).hexdigest()
    assert not machine.cache.exists()


@pytest.mark.exhaustive
def test_what_the_index_does_not_have_is_an_error_with_the_words_of_pip(machine: Machine) -> None:
    (machine.index / "core-2.1-py3-none-any.whl").unlink()
    with pytest.raises(StackError, match=r"pip says: .*core==2\.1"):
        machine.lock()


@pytest.mark.exhaustive
def test_what_has_sources_alone_cannot_be_locked(machine: Machine) -> None:
    found = interpreter.installed(machine.python).stack(["framework"])
    (machine.index / "framework-1.0-py3-none-any.whl").unlink()
    (machine.index / "framework-1.0.tar.gz").write_bytes(b"sources")
    with pytest.raises(StackError, match=r"pip says: .*framework==1\.0"):
        wheels.packages_of(found, machine.python)


def test_wheels_are_fetched_once_and_kept_when_the_index_drops_them(machine: Machine) -> None:
    lock = machine.lock()
    paths = wheels.fetched(machine.cache, lock, machine.python)
    assert [path.name for path in paths] == [one.wheel for one in lock.packages]
    assert [path.parent.name for path in paths] == [one.sha256 for one in lock.packages]
    shutil.rmtree(machine.index)
    assert wheels.fetched(machine.cache, lock, machine.python) == paths
    assert sorted(path.name for path in wheels.folder_of(machine.cache).iterdir()) == sorted(
        one.sha256 for one in lock.packages
    )


@pytest.mark.exhaustive
def test_a_lock_with_another_hash_is_refused(machine: Machine) -> None:
    lock = machine.lock()
    core, framework = lock.packages
    changed = replace(lock, packages=(replace(core, sha256="0" * 64), framework))
    with pytest.raises(StackError, match=r"pip says: .*Expected sha256 0{64}"):
        wheels.fetched(machine.cache, changed, machine.python)
    assert not list(wheels.folder_of(machine.cache).iterdir())


@pytest.mark.exhaustive
def test_another_build_of_the_same_version_is_not_what_was_measured(machine: Machine) -> None:
    wheel(machine.index, "core", "2.1", files={"core.py": "VERSION = 'rebuilt'\n"})
    lock = machine.lock()
    with pytest.raises(StackError, match=r"core 2\.1: core\S+ from the index contains other files"):
        wheels.fetched(machine.cache, lock, machine.python)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["purelib", "platlib"])
def test_files_that_installing_moves_out_of_the_data_folder_are_those_of_the_wheel(
    machine: Machine, tmp_path: Path, scheme: str
) -> None:
    moved = {f"framework-1.0.data/{scheme}/framework/__init__.py": "VERSION = 1\n"}
    native = wheel(machine.index, "framework", "1.0", files=moved)
    other = replace(machine, python=venv(tmp_path / "other", native))
    (path,) = wheels.fetched(other.cache, other.lock(), other.python)
    assert path.name == native.name


@pytest.mark.exhaustive
def test_a_kept_wheel_that_somebody_edited_is_refused_with_its_path(machine: Machine) -> None:
    lock = machine.lock()
    path = wheels.fetched(machine.cache, lock, machine.python)[0]
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(StackError, match=rf"{path} was changed since it was fetched: its sha256"):
        wheels.fetched(machine.cache, lock, machine.python)
