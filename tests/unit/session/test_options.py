"""An option is one declaration: on the command line, in the ini file, in help and errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.session.errors import UsageError
from busbw.session.options import OPTIONS, given
from busbw.session.settings import settings_of
from tests.helpers.sweep import sweep

pytestmark = pytest.mark.sessions

ROOT = Path(__file__).parents[3]
OPTION = """
OPTIONS += (
    Option(
        name="paint", parse=forms.word(("red", "blue")), default="red", metavar="WORD", help="which"
    ),
)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one option more."""
    found = tmp_path_factory.mktemp("copy")
    for name in ("busbw", "perf"):
        shutil.copytree(ROOT / name, found / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "conftest.py", found)
    with (found / "busbw/session/options.py").open("a") as declarations:
        declarations.write(OPTION)
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


def test_a_new_declaration_is_in_help_with_its_default_and_in_the_ini_file(copy: Path) -> None:
    said = _said(copy, "--help", code=0)
    assert "--paint=WORD" in said and "which (default: red)" in said
    assert "busbw_paint (string):" in said


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "ini"), sweep([((), "busbw_paint = green"), (("--paint=green",), "")])
)
def test_its_values_are_checked_wherever_they_are_given(
    copy: Path, options: tuple[str, ...], ini: str
) -> None:
    said = _said(copy, "--collect-only", *options, code=4, ini=ini)
    assert "ERROR: busbw: --paint: expected one of red, blue, got 'green'" in said
    assert _said(copy, "--collect-only", "--paint=blue", "-q", code=0)


def test_every_option_has_a_value_where_nothing_is_given() -> None:
    found = given(Path())
    assert set(found.options) == {option.name for option in OPTIONS}


def test_an_option_that_cannot_be_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"^--launches: 'none'; accepted is a whole number"):
        settings_of(given(Path(), frameworks="fake", launches="none"))
