"""`busbw stack`: locked stacks, built stacks, and stacks that no lock needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.command_line import asked_here
from tests.helpers.wheels import Machine, installed, machine

__all__ = ["installed", "machine"]


@pytest.mark.slow
def test_the_stack_command_lists_a_locked_stack_before_and_after_the_stack_is_built(
    machine: Machine,
) -> None:
    folder = machine.baselines / "cpu" / "4r"
    folder.mkdir(parents=True)
    machine = replace(machine, baselines=folder)
    machine.lock()
    options = (f"--baselines={folder.parents[1]}", f"--stack-cache={machine.cache}")
    (line,) = asked_here("stack", *options).out.splitlines()
    digest, _, description = line.partition("  ")
    assert description.startswith(f"{machine.path}: Python 3.")
    assert description.endswith(", 2 packages, locked 2026-01-31: not built")
    built = machine.cache / "stacks" / digest
    assert machine.build().python == f"{built}/bin/python"
    assert asked_here("stack", "list", *options).out.endswith(f": {built}\n")
    machine.path.unlink()
    assert asked_here("stack", "list", *options).out.splitlines() == [
        "no stack is locked: busbw run --update-baselines locks what it measures",
        f"{built} belongs to no lock in {folder.parents[1]}; you can delete it",
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--baselines=nowhere", "--baselines: there is no folder nowhere"),
        ("--stack-cache=none", "--stack-cache: expected a folder, got 'none'"),
    ],
)
def test_the_stack_command_refuses_a_missing_folder(
    option: str, message: str, tmp_path: Path
) -> None:
    asked_here("stack", "list", f"--baselines={tmp_path}", option).refuses(message)


def test_the_stack_command_names_the_path_of_a_damaged_lock(tmp_path: Path) -> None:
    path = tmp_path / "cpu" / "4r" / "pylock.jax.toml"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    answer = asked_here("stack", f"--baselines={tmp_path}", f"--stack-cache={tmp_path}")
    assert answer.code == 1
    assert f"busbw stack: {path}: Invalid statement" in answer.err
