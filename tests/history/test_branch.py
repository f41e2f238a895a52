"""The history on a branch: made by the first push, appended to by each, whoever else does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.history.branch import BRANCH, GitError, fetch, push
from busbw.history.files import append, read
from tests.commands.asked import asked_here
from tests.history.lines import KEY, session

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# What a git that runs these tests, in a hook perhaps, has set.
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

# In a workflow commits are the bot's; elsewhere they are those of who pushes.
BOT = {"GITHUB_ACTIONS": "true", "HOME": "/nowhere"}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=me", "-c", "user.email=me@here", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRON, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone of a repository that has busbw and no history yet."""
    origin, found = tmp_path / "origin.git", tmp_path / "checkout"
    _git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    _git(tmp_path, "clone", "--quiet", str(origin), str(found))
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "busbw", found / "busbw", ignore=ignored)
    _git(found, "add", "--all")
    _git(found, "commit", "--quiet", "--message=All of it")
    _git(found, "push", "--quiet", "origin", "HEAD:refs/heads/main")
    return found


def _started(checkout: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command in the clone, by a Python that has nothing installed."""
    return subprocess.Popen(
        [sys.executable, "-B", "-S", "-m", "busbw", "history", *arguments],
        cwd=checkout,
        env={**{k: v for k, v in ENVIRON.items() if k != "PYTHONPATH"}, **BOT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def within(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The clone, in which this process is, as in a workflow."""
    for name in [*ENVIRON.keys() ^ os.environ.keys(), "GH_TOKEN"]:
        monkeypatch.delenv(name, raising=False)
    for name, value in BOT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(checkout)
    return checkout


def _night(folder: Path, number: int) -> Path:
    append(folder, KEY, session(f"{number:016x}"))
    return folder


def _sessions(folder: Path) -> list[str]:
    fetch(folder, BRANCH)
    found = (line.session for line in read(folder, KEY).lines)
    return sorted(dict.fromkeys(found))


def test_it_needs_nothing_installed_and_nothing_but_history_is_on_the_branch(
    checkout: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    told = []
    for words in (("fetch", str(first)), ("push", str(_night(tmp_path / "night", 1)))):
        process = _started(checkout, *words)
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        told.append(out)
    assert told == [
        f"there is no branch {BRANCH} yet: an empty history\n",
        f"appended to the branch {BRANCH}: 2 lines of tpu-v5-lite/4r/2026.jsonl\n",
    ]
    names = _git(tmp_path / "origin.git", "ls-tree", "-r", "--name-only", BRANCH)
    assert names.split() == ["tpu-v5-lite/4r/2026.jsonl"]
    assert _git(checkout, "status", "--porcelain") == ""


def test_each_night_is_a_commit_and_the_same_night_none(within: Path, tmp_path: Path) -> None:
    for number in range(3):
        folder = tmp_path / f"night{number}"
        assert BRANCH in fetch(folder, BRANCH)
        push(_night(folder, number), BRANCH)
        assert push(folder, BRANCH) == f"nothing is new to the branch {BRANCH}"
    assert _sessions(tmp_path / "after") == [f"{number:016x}" for number in range(3)]
    assert _git(tmp_path / "origin.git", "rev-list", "--count", BRANCH).strip() == "3"
    with pytest.raises(GitError, match="after is there already; accepted is a new folder"):
        fetch(tmp_path / "after", BRANCH)


@pytest.mark.exhaustive
def test_nights_that_are_pushed_at_once_are_all_there(within: Path, tmp_path: Path) -> None:
    folders = [str(_night(tmp_path / f"night{number}", number)) for number in range(4)]
    started = [_started(within, "push", folder) for folder in folders]
    ended = [(process.communicate(), process.returncode) for process in started]
    assert [code for _, code in ended] == [0] * 4, ended
    assert _sessions(tmp_path / "after") == [f"{number:016x}" for number in range(4)]


def test_what_git_refuses_is_said_after_the_last_try(within: Path, tmp_path: Path) -> None:
    hook = tmp_path / "origin.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no write access >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitError, match="pre-receive hook declined"):
        push(_night(tmp_path / "night", 1), BRANCH, wait_s=0.001)


def test_a_damaged_night_is_not_pushed(within: Path, tmp_path: Path) -> None:
    folder = _night(tmp_path / "night", 1)
    path = folder / KEY.folder / "2026.jsonl"
    path.write_text(path.read_text() + "{}\n")
    answer = asked_here("history", "push", folder)
    assert (answer.code, answer.out) == (1, "")
    assert "2026.jsonl: line 3: this does not say what it is" in answer.err
    assert _git(tmp_path / "origin.git", "branch", "--list", BRANCH) == ""


@pytest.mark.exhaustive
def test_a_commit_is_that_of_who_pushes_and_of_nobody_where_git_knows_none(
    checkout: Path, tmp_path: Path
) -> None:
    home = {"GITHUB_ACTIONS": "", "HOME": str(tmp_path)}
    who = []
    for number, config in enumerate(("", "[user]\nname = I\nemail = i@here\n")):
        (tmp_path / ".gitconfig").write_text(config)
        process = _started(checkout, "push", str(_night(tmp_path / f"n{number}", number)), **home)
        process.communicate()
        assert process.returncode == 0
        who.append(_git(tmp_path / "origin.git", "log", "-1", "--format=%ae", BRANCH).strip())
    assert who == ["busbw@localhost", "i@here"]


def test_the_token_is_shown_to_git_and_is_on_no_command_line(
    within: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "git"
    fake.write_text(
        f'#!/bin/sh\necho "$@ / $GIT_CONFIG_KEY_0 $GIT_CONFIG_VALUE_0" >> {said}\n'
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("GH_TOKEN", "secret")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    fetch(tmp_path / "night", BRANCH)
    # base64 of x-access-token:secret
    header = "http.extraHeader Authorization: Basic eC1hY2Nlc3MtdG9rZW46c2VjcmV0"
    lines = said.read_text().splitlines()
    assert lines
    for line in lines:
        arguments, _, variables = line.partition(" / ")
        assert variables == header
        assert "secret" not in arguments
