"""The name of a baseline file, and files with traces of Git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines import files, updates
from busbw.baselines.document import BaselineError
from busbw.model.case import Case
from busbw.model.stored import Record
from tests.helpers import build
from tests.unit.baselines.written import written


def test_a_baseline_file_is_named_after_framework_collective_and_strategy() -> None:
    assert build.case().file_name == "jax.all_reduce.psum.json"


def test_the_baseline_file_of_a_user_program_has_program_in_its_name() -> None:
    case = build.case(collective="all", program="train.py:step", strategy="train-step")
    assert case.file_name == "jax.program.all.train-step.json"


SESSION = Record(moment="2026-03-04T03:00:00Z", commit="abc")
BUDGET = 0.10
KEY = build.key()
SMALL, LARGE = build.case(payload_bytes=4096), build.case(payload_bytes=8192)
OTHER = build.case(payload_bytes=4096, strategy="other")


def save(root: Path, *cases: Case) -> None:
    measured = [
        build.measurement(1e-3, payload_bytes=case.payload_bytes, strategy=case.strategy)
        for case in cases
    ]
    accepted = [build.accepted(one, SESSION, key=KEY) for one in measured]
    written(updates.save_accepted, root, accepted, session=SESSION, budget=BUDGET)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def changing(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Callable[[Path], None]
) -> None:
    """Let another program without the lock `change` a file right after it was first read."""
    real: Any = getattr(module, name)
    done: list[Path] = []

    def read(codec: Any, path: Path, *rest: Any) -> Any:
        found = real(codec, path, *rest)
        if not done:
            done.append(path)
            change(path)
        return found

    monkeypatch.setattr(module, name, read)


def appended(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n")


def _path(root: Path) -> Path:
    return files.baseline_path(root, KEY, SMALL)


def test_a_conflict_marker_or_an_lfs_pointer_in_a_baseline_file_is_named_with_its_line(
    tmp_path: Path,
) -> None:
    save(tmp_path, SMALL)
    lines = _path(tmp_path).read_text().splitlines(keepends=True)
    _path(tmp_path).write_text("".join([*lines[:4], "<<<<<<< HEAD\n", *lines[4:]]))
    with pytest.raises(BaselineError, match=r"psum.json:5:1: a Git conflict marker"):
        save(tmp_path, SMALL)
    _path(tmp_path).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(
        BaselineError, match=r"psum.json:1:1: a Git LFS pointer, not the file itself"
    ):
        save(tmp_path, SMALL)
