"""--python: a framework's workers run under another interpreter, and only there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from .folder import Folder

WRAPPER = '#!/bin/sh\necho "$@" >> {record}\nexec {python} "$@"\n'


def interpreter(folder: Folder, record: Path) -> Path:
    """A venv-less interpreter that keeps a record of its starts."""
    bare = folder.path / "python-without-venv"
    bare.symlink_to(sys.executable)
    wrapper = folder.path / "other-python"
    wrapper.write_text(WRAPPER.format(record=record, python=bare))
    wrapper.chmod(0o755)
    return wrapper


def test_every_worker_runs_under_the_named_interpreter(folder: Folder) -> None:
    record = folder.path / "record.txt"
    ran = folder.run(f"--python=fake={interpreter(folder, record)}", "--launches=2", exit_code=0)
    starts = record.read_text().splitlines()
    launches = [word for line in starts for word in line.split() if word.startswith("--launch=")]
    assert launches == ["--launch=probe", "--launch=1.fake", "--launch=2.fake"]
    assert ran.outcomes == {"1M": "NO_BASELINE"}


def test_an_interpreter_makes_a_framework_there_that_is_not_installed_here(
    folder: Folder,
) -> None:
    (folder.path / "blocked.py").write_text("import sys\nsys.modules['jax'] = None\n")
    options = ("-p", "blocked", "--frameworks=jax", f"--python=jax={sys.executable}")
    ran = folder.run(*options, "--collect-only", exit_code=0)
    assert "test_collective[jax-default-float32-1M]" in ran.text


def test_an_interpreter_that_is_no_program_is_a_usage_error(folder: Folder) -> None:
    (folder.path / "text").write_text("no program")
    for python in ("/nowhere/python", str(folder.path / "text"), ""):
        ran = folder.run(f"--python=fake={python}", exit_code=4)
        assert f"--python: {python!r} is not an executable program" in ran.sentence


def test_a_program_that_is_no_python_is_a_usage_error_when_it_is_asked(folder: Folder) -> None:
    ran = folder.run("--python=fake=/bin/false", exit_code=4)
    assert "/bin/false: the worker ended with exit code 1" in ran.sentence


# A worker imports what bears the name of one.
@pytest.mark.framework
def test_a_framework_that_is_too_old_is_a_usage_error_that_names_the_oldest(
    folder: Folder,
) -> None:
    (folder.path / "old").mkdir()
    (folder.path / "old" / "jax.py").write_text("__version__ = '0.3.25'\n")
    folder.environment.setenv("PYTHONPATH", str(folder.path / "old"), prepend=os.pathsep)
    ran = folder.run("--frameworks=jax", exit_code=4)
    assert "jax 0.3.25 is too old: the oldest that busbw measures is 0.4.30" in ran.sentence


@pytest.mark.parametrize("text", ["fake", "keras=python3", "=python3"])
def test_nonsense_is_a_usage_error_that_says_what_is_accepted(folder: Folder, text: str) -> None:
    ran = folder.run(f"--python={text}", exit_code=4)
    assert "accepted is FRAMEWORK=INTERPRETER, one of jax, tensorflow, fake" in ran.sentence
