"""What an interpreter says it has; real ones are asked."""

from __future__ import annotations

import sys
from pathlib import Path

import packaging
import pytest

from busbw.driver.executor import Interpreter, ProbeFailed, interpreter
from busbw.driver.transport import Starter


def asked(framework: str, packages: tuple[str, ...] = (), **values: str) -> Interpreter:
    """The answer of this test's own interpreter for a `framework` of any name."""
    starter = Starter(python=sys.executable, framework=framework, environment=values)
    found = interpreter(starter, packages)
    assert found is not None
    return found


def test_what_is_missing_is_named_and_what_is_there_is_found() -> None:
    found = asked("no_such_framework")
    assert found.missing[0] == "no_such_framework"
    assert (found.path, found.version) == ("", "")
    assert found.python.split(".")[:2] == [str(part) for part in sys.version_info[:2]]


def test_a_package_says_its_file_and_its_version() -> None:
    found = asked("packaging", ("no-such-package", "packaging"))
    assert found.path == str(Path(packaging.__file__).parent)
    assert found.version[0].isdigit()
    assert "packaging" not in found.missing


def test_a_package_in_place_of_the_installed_one_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "__init__.py").write_text("raise ImportError")
    found = asked("packaging", ("packaging",), PYTHONPATH=str(tmp_path))
    assert found.path == str(tmp_path / "packaging")
    assert found.version == ""


def test_what_lies_in_the_current_folder_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert "elsewhere" in asked("elsewhere").missing


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/bin/false", "/bin/false does not run as Python: it said nothing"),
        ("/bin/echo", "does not run"),
    ],
)
def test_what_is_no_python_is_refused_with_its_last_words(program: str, said: str) -> None:
    with pytest.raises(ProbeFailed, match=said):
        interpreter(Starter(python=program, framework="jax"), ("jax",))
