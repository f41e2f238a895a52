"""--against=baseline: the accepted stack is locked, built again and measured interleaved."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.plugin.test_session_outcome import assert_shown_everywhere
from tests.helpers.session_folder import SLOW, Folder, Ran
from tests.helpers.sweep import sweep
from tests.helpers.wheels import use_index, venv, wheel

TWO = ("--payloads=1K,1M", "--launches=2")


@dataclass(frozen=True)
class StackFolder:
    """A folder whose framework is a package of an interpreter, installed from an index."""

    folder: Folder
    python: str
    index: Path

    def run(self, *options: str, exit_code: int) -> Ran:
        """Run a session under the interpreter."""
        return self.folder.run(f"--python=fake={self.python}", *options, exit_code=exit_code)

    def install(self, *arguments: str) -> None:
        """Install another framework."""
        command = ["uv", "pip", "install", f"--python={self.python}", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def accept(self) -> Path:
        """Accept a session, and return the path of its lock."""
        self.run("--update-baselines", *TWO, exit_code=0)
        return self.lock

    @property
    def lock(self) -> Path:
        """Where the lock is."""
        baselines = next(p for p in self.folder.baseline_files if p.suffix == ".json")
        return baselines.with_name("pylock.fake.toml")


@pytest.fixture
def stack_folder(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StackFolder:
    """Return a folder without an accepted session."""
    index = tmp_path / "index"
    use_index(monkeypatch, index)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder.script(**SLOW)
    python = venv(tmp_path / "venv", wheel(index, "busbw-fake", "1.0"))
    return StackFolder(folder=folder, python=python, index=index)


@pytest.mark.exhaustive
def test_the_option_update_baselines_locks_the_stack_next_to_the_baselines(
    stack_folder: StackFolder,
) -> None:
    ran = stack_folder.run("--update-baselines", *TWO, exit_code=0)
    assert f"fake: its stack is the reference now: {stack_folder.lock}" in ran.text
    lock = tomllib.loads(stack_folder.lock.read_text())
    assert [(package["name"], package["version"]) for package in lock["packages"]] == [
        ("busbw-fake", "1.0")
    ]
    before = stack_folder.lock.read_bytes()
    again = stack_folder.run("--update-baselines", *TWO, exit_code=0)
    assert "is the reference now" not in again.text
    assert stack_folder.lock.read_bytes() == before


def test_the_option_against_baseline_builds_the_locked_stack_also_offline_and_measures_both_stacks(
    stack_folder: StackFolder,
) -> None:
    stack_folder.accept()
    ran = stack_folder.run("--against=baseline", *TWO, exit_code=0)
    assert ran.outcomes == {"1K": "PASS", "1M": "PASS"}
    date = tomllib.loads(stack_folder.lock.read_text())["tool"]["busbw"]["date"]
    assert f"busbw reference: fake of {date}, stack " in ran.text
    (built,) = (stack_folder.index.parent / "cache" / "busbw" / "stacks").iterdir()
    assert built.name in ran.text
    # Without its folder and the index it is built again from the cache of uv.
    shutil.rmtree(built)
    for path in stack_folder.index.iterdir():
        path.unlink()
    stack_folder.folder.environment.setenv("UV_OFFLINE", "1")
    stack_folder.run("--against=baseline", *TWO, exit_code=0)
    assert (built / "bin" / "python").exists()


@pytest.mark.exhaustive
def test_the_option_update_baselines_locks_a_newer_stack_only_if_its_times_are_stored(
    stack_folder: StackFolder,
) -> None:
    lock = stack_folder.accept()
    wheel(stack_folder.index, "busbw-fake", "1.1")
    stack_folder.install("--upgrade", "busbw-fake")
    stack_folder.run("--update-baselines=new", *TWO, exit_code=0)
    assert tomllib.loads(lock.read_text())["packages"][0]["version"] == "1.0"
    stack_folder.run("--update-baselines", *TWO, exit_code=0)
    assert tomllib.loads(lock.read_text())["packages"][0]["version"] == "1.1"


@pytest.mark.exhaustive
def test_the_option_against_baseline_without_a_locked_stack_is_a_usage_error(
    stack_folder: StackFolder, tmp_path: Path
) -> None:
    locked = stack_folder.accept().rename(tmp_path / "lock")
    ran = stack_folder.run("--against=baseline", *TWO, exit_code=4)
    message = "--against=baseline: expected a lock, which --update-baselines writes: "
    below = stack_folder.folder.path / "baselines"
    assert message in ran.sentence
    # Of another machine.
    lock = below / "other-cpu" / "4r" / "pylock.fake.toml"
    lock.parent.mkdir(parents=True)
    lock.write_bytes(locked.read_bytes())
    ran = stack_folder.run("--against=baseline", *TWO, exit_code=4)
    assert f"{message}{stack_folder.lock}: No such file or directory" in ran.sentence


@pytest.mark.exhaustive
def test_the_option_update_baselines_locks_no_stack_with_a_package_that_no_index_has(
    stack_folder: StackFolder, tmp_path: Path
) -> None:
    path = wheel(tmp_path / "elsewhere", "busbw-fake", "2.0")
    stack_folder.install(str(path))
    ran = stack_folder.run("--update-baselines", *TWO, exit_code=0)
    (note,) = [line for line in ran.text.splitlines() if "its stack is not locked" in line]
    assert "busbw-fake is installed from " in note and f"file://{path}" in note
    assert stack_folder.folder.baseline_files and not stack_folder.lock.exists()


@pytest.mark.exhaustive
def test_the_option_against_baseline_with_a_changed_lock_is_a_usage_error(
    stack_folder: StackFolder,
) -> None:
    path = stack_folder.accept()
    text = path.read_text()
    path.write_text(
        re.sub(r'^busbw-fake = "\w{64}"', f'busbw-fake = "{64 * "0"}"', text, flags=re.M)
    )
    ran = stack_folder.run("--against=baseline", *TWO, exit_code=4)
    assert "--against=baseline: delete " in ran.sentence
    assert ": busbw-fake has other files than the locked package" in ran.sentence


@pytest.mark.exhaustive
@pytest.mark.parametrize("other", sweep(["--against=python", "--against-env=A=1"]))
def test_the_option_against_baseline_with_another_reference_stack_is_a_usage_error(
    stack_folder: StackFolder, other: str
) -> None:
    ran = stack_folder.run("--against=baseline", other, exit_code=4)
    assert "--against=baseline: expected no other stack: the lock says which" in ran.sentence


@pytest.mark.exhaustive
def test_the_option_against_baseline_names_flags_that_differ_from_the_flags_in_the_lock(
    stack_folder: StackFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_locked=1")
    stack_folder.accept()
    monkeypatch.setenv("XLA_FLAGS", "--xla_tonight=1")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    ran = stack_folder.run("--against=baseline", *TWO, exit_code=0)
    (line,) = [row for row in ran.text.splitlines() if row.startswith("busbw reference fake: ")]
    changed = "NCCL_ALGO none -> Ring, XLA_FLAGS --xla_locked=1 -> --xla_tonight=1"
    assert line.endswith(f"; the candidate has {changed}")


SIX = ("--payloads=1K:32K", "--launches=2", "--history=history")


@pytest.mark.exhaustive
def test_a_session_compares_the_reference_times_with_the_reference_times_of_earlier_sessions(
    stack_folder: StackFolder,
) -> None:
    stack_folder.run("--update-baselines", *SIX, exit_code=0)
    first = stack_folder.run("--against=baseline", *SIX, exit_code=0)
    assert "; the machine: unknown from fewer than 6 cases of fake, compared with 0 " in first.text
    second = stack_folder.run("--against=baseline", *SIX, exit_code=0)
    assert "; the machine: fake: all 6 cases together take 1.0" in second.text
    assert "), compared with 1 earlier session in --history" in second.text
    lines = stack_folder.folder.history_lines
    assert [line.get("is_reference") for line in lines].count(True) == 2 * 6
    stack = {line["stack"] for line in lines if line["is_reference"]}
    assert len(stack) == 1 and stack < {line["stack"] for line in lines if line["paired"]} | {""}
    # Sessions of another version of busbw say nothing about the machine.
    path = stack_folder.folder.history_file
    path.write_text(re.sub(r'"worker":"\w+"', f'"worker":"{16 * "0"}"', path.read_text()))
    third = stack_folder.run("--against=baseline", *SIX, exit_code=0)
    assert "; the machine: unknown from fewer than 6 cases of fake, compared with 0 " in third.text


@pytest.mark.exhaustive
def test_a_session_has_the_outcome_machine_shift_if_the_machine_slows_both_stacks(
    stack_folder: StackFolder,
) -> None:
    stack_folder.run("--update-baselines", *SIX, exit_code=0)
    for _ in range(2):
        stack_folder.run("--against=baseline", *SIX, exit_code=0)
    stack_folder.folder.script(latency_s=10e-3)
    ran = stack_folder.run("--against=baseline", *SIX, exit_code=1)
    assert set(ran.outcomes.values()) == {"PASS"}
    assert_shown_everywhere(stack_folder.folder, ran, ["MACHINE_SHIFT"])
    assert "the machine: fake: all 6 cases together take " in ran.text
    assert "MACHINE_SHIFT" in ran.document["session"]["outcomes"]


@pytest.mark.exhaustive
def test_the_option_against_baseline_without_a_history_does_not_judge_the_machine(
    stack_folder: StackFolder,
) -> None:
    stack_folder.run("--update-baselines", *SIX, exit_code=0)
    ran = stack_folder.run("--against=baseline", *SIX[:2], exit_code=0)
    assert "; the machine: unknown from fewer than 6 cases of fake, compared with 0 " in ran.text
    assert "MACHINE_SHIFT" not in ran.document["session"]["outcomes"]
