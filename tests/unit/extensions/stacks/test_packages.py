"""The packages of an interpreter that are the stack of a framework."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.extensions.stacks import packages
from busbw.extensions.stacks.uv import StackError
from tests.helpers.wheels import venv, wheel

pytestmark = pytest.mark.slow


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
    interpreter = packages.read_interpreter(python)
    stack = interpreter.find_stack(["framework", "absent"])
    assert list(stack) == ["chip-plugin", "core", "framework"]
    assert interpreter.find_stack(["absent"]) == {}
    assert not any(map(packages.reason_not_lockable, stack.values()))


def test_a_program_that_is_no_python_interpreter_is_an_error_for_a_locked_stack() -> None:
    with pytest.raises(StackError, match=r"^false: exit code 1$"):
        packages.read_interpreter("/bin/false")
