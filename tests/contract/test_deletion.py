"""Extensions can be deleted, each or all of them: sessions still measure and compare.

An extension is added by a folder, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.docs.pages import ROOT

NAMES = sorted(path.parent.name for path in ROOT.glob("busbw/extensions/*/__init__.py"))
PYTEST = ("pytest", "-p", "no:cacheprovider", "perf/", "--frameworks=fake", "--payloads=1K")
MEASURE = (*PYTEST, "--launches=1", "--baselines=baselines", "--history=history")


@pytest.mark.sessions
@pytest.mark.parametrize(
    "deleted",
    [
        pytest.param(NAMES, id="all"),
        *(pytest.param([name], id=name, marks=pytest.mark.exhaustive) for name in NAMES),
    ],
)
def test_busbw_measures_and_compares_if_one_extension_or_all_extensions_are_deleted(
    tmp_path: Path, deleted: list[str]
) -> None:
    _copy(tmp_path)
    for name in deleted:
        shutil.rmtree(tmp_path / "busbw" / "extensions" / name)
    for words in (("busbw", "--help"), ("busbw", "run", "--help"), (*PYTEST, "--collect-only")):
        _run(tmp_path, *words)
    assert "1 without baseline" in _run(tmp_path, *MEASURE, "--update-baselines")
    assert "1 passed" in _run(tmp_path, *MEASURE)


@pytest.mark.sessions
def test_an_extension_in_a_single_new_folder_can_add_an_option_and_a_column_and_a_note(
    tmp_path: Path,
) -> None:
    _copy(tmp_path)
    shutil.copytree(ROOT / "examples" / "load", tmp_path / "busbw" / "extensions" / "load")
    text = _run(tmp_path, *PYTEST, "--launches=1", "--show-load")
    assert re.search(r"load  outcome\n.*\n   1K .* [0-9]+[.][0-9]{2}  NO_BASELINE\n", text)
    assert "\nnote: the highest load after a case was " in text


def _copy(folder: Path) -> None:
    """Copy the files that a session needs into `folder`."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("busbw", "perf"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "conftest.py", folder)


def _run(folder: Path, module: str, *words: str) -> str:
    """Run a module from the copy in `folder`; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    command = [sys.executable, "-W", "error", "-m", module, *words]
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
