"""`busbw stack`: the locked stacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.command_line import asked_here
from tests.helpers.wheels import Machine, installed, machine

__all__ = ["installed", "machine"]


@pytest.mark.slow
def test_the_stack_command_lists_a_locked_stack(machine: Machine) -> None:
    folder = machine.baselines / "cpu" / "4r"
    folder.mkdir(parents=True)
    machine = replace(machine, baselines=folder)
    options = ("stack", f"--baselines={folder.parents[1]}")
    no_stack = (
        f"{folder.parents[1]} has no locked stack: busbw run --update-baselines locks stacks\n"
    )
    assert asked_here(*options).out == no_stack
    machine.lock()
    digest, _, description = asked_here(*options).out.partition("  ")
    assert description.startswith(f"{machine.path}: Python 3.")
    assert description.endswith(", 2 packages, locked 2026-01-31\n")
    assert machine.build().digest == digest


def test_the_stack_command_names_the_path_of_a_damaged_lock(tmp_path: Path) -> None:
    path = tmp_path / "cpu" / "4r" / "pylock.jax.toml"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    answer = asked_here("stack", f"--baselines={tmp_path}")
    assert answer.code == 1
    assert f"{path}: Invalid statement" in answer.err
