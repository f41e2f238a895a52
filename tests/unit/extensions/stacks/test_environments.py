"""Folders of stacks are built completely and once, or not at all."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from busbw.extensions.stacks import environments
from busbw.extensions.stacks.environments import StackError


def _half_built(new: Path) -> None:
    new.mkdir()
    (new / "half").touch()
    raise SystemExit(143)


def test_an_interrupted_build_of_a_stack_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "stacks" / "a"
    with pytest.raises(SystemExit):
        environments.build_once(folder, _half_built)
    assert list(folder.parent.iterdir()) == []


def test_a_stack_folder_that_a_killed_process_left_unfinished_is_built_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.new").mkdir()
    (tmp_path / "a.new" / "half").touch()
    environments.build_once(tmp_path / "a", Path.mkdir)
    assert list(tmp_path.rglob("*")) == [tmp_path / "a"]


def test_two_threads_that_need_the_same_stack_build_it_once(tmp_path: Path) -> None:
    built = []

    def build(new: Path) -> None:
        new.mkdir()
        time.sleep(0.05)
        built.append(new)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: environments.build_once(tmp_path / "a", build), range(2)))
    assert len(built) == 1


def test_a_full_disk_during_the_build_of_a_stack_is_an_error_that_names_the_folder(
    tmp_path: Path,
) -> None:
    def build(new: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(StackError, match=f"^{tmp_path}/a cannot be built: .*No space left"):
        environments.build_once(tmp_path / "a", build)
