"""What an interpreter has, which of it is the stack of a framework, and what programs print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from busbw.stacks import interpreter
from busbw.stacks.interpreter import output
from busbw.stacks.listing import record_hash
from busbw.stacks.lock import StackError
from tests.helpers.wheels import venv, wheel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Has a framework with a plugin that is there, one that is not, and something else."""
    root = tmp_path_factory.mktemp("stack")
    wheels = root / "wheels"
    requires = [
        "core>=2",
        'gone; python_version < "3"',
        'chip-plugin>=1; extra == "chip"',
        'core; extra == "chip"',
        'core==1; extra == "oldest"',
        'pytest-like; extra == "ci"',
        'not-there; extra == "ci"',
    ]
    return venv(
        root / "venv",
        wheel(wheels, "framework", "1.0", requires=requires, extras=("chip", "oldest", "ci")),
        wheel(wheels, "core", "2.1"),
        wheel(wheels, "chip-plugin", "1.5"),
        wheel(wheels, "pytest-like", "9.0"),
    )


def test_it_is_the_framework_with_what_it_asks_for_and_extras_that_are_there_whole(
    python: str,
) -> None:
    found = interpreter.installed(python)
    assert [one.name for one in found.stack(["framework", "absent"])] == [
        "chip-plugin",
        "core",
        "framework",
    ]
    assert [one.name for one in found.stack(["absent"])] == []
    assert found.python.startswith("3.")
    assert interpreter.unlockable(found.stack(["framework"])) == ""


def test_what_came_from_no_index_says_so_and_what_to_do(tmp_path: Path) -> None:
    one = wheel(tmp_path, "framework", "1.0")
    python = venv(tmp_path / "venv")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", str(one)]
    subprocess.run(pip, check=True)
    text = interpreter.unlockable(interpreter.installed(python).stack(["framework"]))
    assert text.startswith(f"framework 1.0 was installed from file://{one}: ")
    assert text.endswith("; install a release from one")


def test_of_several_the_first_is_named_and_how_many_more_there_are() -> None:
    bad = [
        interpreter.Distribution(
            name=name,
            version="1.0",
            needs=(),
            extras=(),
            origin=f"file:///{name}",
            installer="pip",
            record="0" * 64,
        )
        for name in ("core", "framework", "plugin")
    ]
    text = interpreter.unlockable(bad)
    assert text.startswith("core 1.0 was installed from file:///core and 2 more: a reference is")


@pytest.mark.exhaustive
def test_without_a_record_of_its_files_nothing_can_be_told_of_it(
    python: str, tmp_path: Path
) -> None:
    python = venv(tmp_path / "venv", wheel(tmp_path, "framework", "1.0"))
    (record,) = (tmp_path / "venv").glob("lib/*/site-packages/framework-1.0.dist-info/RECORD")
    record.unlink()
    found = interpreter.installed(python).stack(["framework"])
    assert "framework 1.0 has no record of its files (pip installed it)" in interpreter.unlockable(
        found
    )


def test_an_interpreter_that_is_none_is_an_error() -> None:
    with pytest.raises(StackError, match="/bin/false does not report what is installed: no word"):
        interpreter.installed("/bin/false")


def _output(code: str, timeout_s: float = 60.0) -> str:
    return output([sys.executable, "-c", code], problem="it said", timeout_s=timeout_s)


def test_what_it_prints_is_returned() -> None:
    assert _output("print('all')") == "all\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit('1\\n2\\n\\n3\\n4\\n5')", "it said: 2; 3; 4; 5"),
        ("raise SystemExit('no such release\\nWARNING: a newer pip')", "it said: no such release"),
        ("raise SystemExit('WARNING: 1')", "it said: WARNING: 1"),
        ("raise SystemExit(1)", "it said: no word of why"),
        ("open('/nowhere/at all')", r"it said: FileNotFoundError: .*'/nowhere/at all'"),
    ],
    ids=["last lines", "no warning", "nothing else", "nothing", "of a traceback the last"],
)
def test_the_last_words_of_one_that_failed_are_told(code: str, said: str) -> None:
    with pytest.raises(StackError, match=rf"^{said}$"):
        _output(code)


def test_one_that_is_not_there_or_does_not_end_is_an_error() -> None:
    with pytest.raises(StackError, match=r"^it said: .*No such file or directory: '/nowhere'"):
        output(["/nowhere"], problem="it said", timeout_s=1.0)
    with pytest.raises(StackError, match=r"^it said: it did not finish within 0\.1 s$"):
        _output("import time; time.sleep(60)", timeout_s=0.1)


WHEEL = """core/__init__.py,sha256=a,1
core-1.data/purelib/core/more.py,sha256=b,2
core-1.data/scripts/core,sha256=c,3
core-1.dist-info/METADATA,sha256=d,4
core-1.dist-info/RECORD,,
"""


def test_a_wheel_and_its_installed_files_have_the_same_hash_and_other_files_another() -> None:
    """Installed, programs lie elsewhere, and the installer has added files of its own."""
    installed = """../../../bin/core,sha256=e,5
core/__init__.py,sha256=a,1
core/__pycache__/__init__.cpython-311.pyc,,
core/more.py,sha256=b,2
core-1.dist-info/INSTALLER,sha256=f,6
core-1.dist-info/METADATA,sha256=d,4
core-1.dist-info/RECORD,,
"""
    assert record_hash(installed) == record_hash(WHEEL)
    for name in ("core/__init__.py,", "core-1.data/purelib/core/more.py,", "METADATA,"):
        changed = WHEEL.replace(f"{name}sha256=", f"{name}sha256=0")
        assert changed != WHEEL
        assert record_hash(changed) != record_hash(WHEEL)
