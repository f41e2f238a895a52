"""An option is one declaration: on the command line, in the ini file, in help and errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.session.command_line import read_options
from busbw.session.options import Options

ROOT = Path(__file__).parents[3]
AFTER = "    # Not options of the command line.\n"
OPTION = """\
    paint: str = _option(
        "Paint it (default: red)", "red", choices=("red", "blue"), metavar="WORD", has_setting=True
    )
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one option more."""
    found = tmp_path_factory.mktemp("copy")
    for name in ("busbw", "perf"):
        shutil.copytree(ROOT / name, found / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "conftest.py", found)
    path = found / "busbw/session/options.py"
    path.write_text(path.read_text().replace(AFTER, OPTION + AFTER))
    return found


def _said(copy: Path, *options: str, code: int, ini: str = "") -> str:
    (copy / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    words = ["-m", "pytest", "perf", "--frameworks=fake", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        check=False,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.sessions
def test_a_new_declaration_is_in_help_with_its_default_and_in_the_ini_file(copy: Path) -> None:
    said = _said(copy, "--help", code=0)
    assert "--paint=WORD" in said and "Paint it (default: red)" in said
    assert "busbw_paint (linelist):" in said


def _read(root: Path, *words: str, **settings: list[str]) -> Options:
    return read_options(["--frameworks=fake", *words], root, settings)


def test_values_of_an_option_that_may_be_repeated_are_joined(tmp_path: Path) -> None:
    options = _read(tmp_path, f"--python=jax={sys.executable}", python=[f"fake={sys.executable}"])
    assert set(options.python) == {"jax", "fake"}


def test_a_setting_that_a_given_option_excludes_does_not_count(tmp_path: Path) -> None:
    assert _read(tmp_path, fail_above=["25%"]).fail_above == 1.25
    options = _read(tmp_path, "--try-env=A=B", fail_above=["25%"])
    assert (options.fail_above, options.is_paired, options.launches) == (None, True, 6)
