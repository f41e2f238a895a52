"""`python -m busbw stack`: what is locked, what is built, and what nothing names any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.model.machine import EnvironmentKey
from busbw.stacks.build import all_built
from busbw.stacks.lock import Lock, path_of
from tests.helpers.command_line import Answer, asked_here, command
from tests.helpers.wheels import Machine, machine
from tests.unit.stacks.test_lock import LOCK

pytestmark = pytest.mark.slow


__all__ = ["machine"]

KEY = EnvironmentKey(device_kind="TPU v5 lite", ranks=4)


def _locked(machine: Machine, root: Path) -> Lock:
    """The lock of what the machine has, below `root`."""
    lock = replace(machine.lock(), framework="jax")
    path = path_of(root, KEY, "jax")
    path.parent.mkdir(parents=True)
    path.write_text(lock.text)
    return lock


def _stack(machine: Machine, root: Path, action: str, *options: str) -> Answer:
    return command(
        "stack", action, f"--baselines={root}", f"--stack-cache={machine.cache}", *options
    )


@pytest.mark.exhaustive
def test_a_lock_is_listed_built_and_listed_as_built(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "baselines"
    lock = _locked(machine, root)
    answer = _stack(machine, root, "list")
    assert answer.code == 0
    first, second = answer.out.splitlines()
    assert first.startswith(f"{lock.digest}  jax ?, Python {lock.python} for {lock.platform}, ")
    assert first.endswith("2 packages, locked 2026-01-31: not built")
    assert second.strip() == str(root / "tpu-v5-lite" / "4r" / "pylock.jax.toml")
    built = _stack(machine, root, "build", "--machine=tpu-v5-lite/4r")
    assert (built.code, built.err) == (0, "")
    assert built.out.rstrip().endswith(f"/stacks/{lock.digest}/venv/bin/python")
    assert _stack(machine, root, "list").out.splitlines()[0].endswith(lock.digest)
    (machine.cache / "stacks" / lock.digest / "complete").unlink()
    assert _stack(machine, root, "list").out.splitlines()[0].endswith(": torn")


@pytest.mark.exhaustive
def test_what_no_lock_names_is_removed(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "baselines"
    lock = _locked(machine, root)
    assert _stack(machine, root, "build").code == 0
    assert _stack(machine, root, "prune").out == "0 bytes freed\n"
    path_of(root, KEY, "jax").write_text(replace(lock, python="3.10.1").text)
    assert f"{lock.digest}  belongs to no lock here: " in _stack(machine, root, "list").out
    answer = _stack(machine, root, "prune")
    assert f"removed {machine.cache / 'stacks' / lock.digest}\n" in answer.out
    assert answer.out.endswith(" freed\n")
    assert all_built(machine.cache) == ()


def test_without_locks_there_is_nothing_to_build(tmp_path: Path) -> None:
    asked = ("stack", "list", f"--baselines={tmp_path}", f"--stack-cache={tmp_path / 'cache'}")
    none = "no stack is locked: busbw run --update-baselines locks what it measures\n"
    assert asked_here(*asked).out == none
    answer = asked_here("stack", "build", f"--baselines={tmp_path}")
    answer.refuses(f"{tmp_path} holds no lock; --update-baselines writes them")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--baselines=nowhere"], "--baselines: there is no folder nowhere"),
        (["--machine=tpu-v9/4r"], "--machine: {root} has no lock for tpu-v9/4r"),
        (["--stack-cache=none"], "--stack-cache: expected a folder, got 'none'"),
    ],
)
def test_what_is_not_there_is_a_usage_error(options: list[str], said: str, tmp_path: Path) -> None:
    answer = asked_here("stack", "list", f"--baselines={tmp_path}", *options)
    answer.refuses(said.format(root=tmp_path))


def test_a_damaged_lock_is_an_error_with_its_path(tmp_path: Path) -> None:
    path = path_of(tmp_path, KEY, "jax")
    path.parent.mkdir(parents=True)
    path.write_text(LOCK.text.replace("sha256", "sha512"))
    answer = asked_here("stack", "list", f"--baselines={tmp_path}")
    assert answer.code == 1
    assert f"busbw stack: {path}: lock.packages[0]: sha256: expected 64 hexadecimal" in answer.err
