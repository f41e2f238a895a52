"""A lock of a measured stack, and the environment that is built from it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from busbw.extensions.stacks import environments, reference
from busbw.extensions.stacks.environments import StackError
from tests.helpers.wheels import Machine, venv, wheel

pytestmark = pytest.mark.slow


def _core(stack: str) -> Path:
    """Return the module `core` of the environment of an interpreter."""
    (path,) = Path(stack).parents[1].glob("lib/*/site-packages/core.py")
    return path


def test_a_lock_is_replaced_only_if_its_stack_changed_and_a_replacement_is_allowed(
    machine: Machine,
) -> None:
    machine.lock()
    before = machine.path.read_text()
    assert machine.lock("2026-02-01") == ""
    (core,) = Path(machine.python).parents[1].glob("lib/*/site-packages/core-2.1.dist-info/RECORD")
    core.write_text(core.read_text().replace("core.py,", "core.pyc,"))
    assert machine.lock("2026-02-01", replace=False) == ""
    assert machine.path.read_text() == before
    digest = reference.read_lock(machine.path).digest
    assert "its stack is the reference now" in machine.lock("2026-02-01")
    assert reference.read_lock(machine.path).digest != digest


def test_a_built_stack_with_an_edited_or_missing_file_is_refused(machine: Machine) -> None:
    machine.lock()
    core = _core(machine.build().python)
    core.write_text(core.read_text().replace("2.1", "6.6"))
    with pytest.raises(StackError, match=f"^delete .*: {core} is not the file of its wheel$"):
        machine.build()
    core.unlink()
    with pytest.raises(StackError, match=f"^delete .*: {core}: No such file or directory$"):
        machine.build()


@pytest.mark.parametrize("built", [False, True])
def test_a_lock_with_another_hash_of_a_wheel_is_refused(machine: Machine, built: bool) -> None:
    machine.lock()
    if built:
        machine.build()
    wheel(machine.index, "core", "2.1", files={"core.py": "VERSION = '6.6'\n"})
    text = machine.path.read_text()
    machine.path.write_text(text.replace(text.rpartition('sha256 = "')[2][:64], "0" * 64))
    with pytest.raises(StackError, match=rf"Hash mismatch for `core==2\.1`.*{'0' * 64}"):
        machine.build()


def test_a_built_stack_with_an_added_package_is_refused(machine: Machine) -> None:
    machine.lock()
    python = machine.build().python
    wheel(machine.index, "added", "1.0")
    environments.run_uv("pip", "install", f"--python={python}", "added")
    with pytest.raises(StackError, match=r": added has other files than the locked package$"):
        machine.build()


def test_a_stack_with_a_package_that_no_index_provides_is_not_locked(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = f"fake: its stack is not locked in {machine.path}: "
    with monkeypatch.context() as patch:
        patch.setenv("TPU_LIBRARY_PATH", "/opt/libtpu.so")
        assert machine.lock().startswith(f"{message}TPU_LIBRARY_PATH replaces a library; ")
    with monkeypatch.context() as patch:
        patch.setenv("UV_FIND_LINKS", str(machine.cache.parent))
        assert machine.lock().startswith(f"{message}uv: error: No solution found")
    core = _core(machine.python)
    core.write_text("VERSION = '6.6'\n")
    assert machine.lock().startswith(f"{message}{core} is not the file of its wheel")
    about = core.parent / "core-2.1.dist-info"
    (about / "RECORD").unlink()
    assert machine.lock().startswith(f"{message}core is without a record of its files; ")
    (about / "direct_url.json").write_text('{"url": "file:///home/me/core"}')
    origin = '{"url": "file:///home/me/core"}'
    assert machine.lock().startswith(f"{message}core is installed from {origin}; ")
    # Nothing was written.
    machine.path.mkdir()
    assert machine.lock() == f"{message}Is a directory"


def test_a_missing_uv_is_an_error_that_names_the_command_that_installs_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(
        StackError, match=r"^uv is not installed; .* `pip install 'busbw\[stack\]'`"
    ):
        environments.run_uv("--version")


def test_an_edited_file_in_another_environment_of_uv_does_not_change_the_built_stack(
    machine: Machine,
) -> None:
    machine.lock()
    core = _core(machine.build().python)
    other = machine.cache / "other"
    environments.install_packages(other, machine.path.read_text(), machine.python)
    _core(f"{other}/bin/python").write_text("VERSION = '6.6'\n")
    assert "2.1" in core.read_text()


def test_a_stack_contains_only_those_extras_of_its_framework_that_are_completely_installed(
    tmp_path: Path,
) -> None:
    requires = [
        "core>=2",
        'gone; python_version < "3"',
        'chip-plugin>=1; extra == "chip"',
        'core; extra == "chip"',
        'pytest-like; extra == "ci"',
        'not-there; extra == "ci"',
    ]
    wheels = tmp_path / "wheels"
    python = venv(
        tmp_path / "venv",
        wheel(wheels, "framework", "1.0", requires=requires, extras=("chip", "ci")),
        wheel(wheels, "core", "2.1"),
        wheel(wheels, "chip-plugin", "1.5"),
        wheel(wheels, "pytest-like", "9.0"),
    )
    interpreter = environments.read_version_and_packages(python)
    stack = environments.find_required_packages(["framework", "absent"], *interpreter)
    assert list(stack) == ["chip-plugin", "core", "framework"]
    assert environments.find_required_packages(["absent"], *interpreter) == {}
    assert all(map(environments.hash_of_package_files, stack.values()))


def test_a_program_that_is_no_python_interpreter_is_an_error_for_a_locked_stack() -> None:
    with pytest.raises(StackError, match=r"^false: exit code 1$"):
        environments.read_version_and_packages("/bin/false")
