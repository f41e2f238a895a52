"""The history on a branch: made by the first push, appended to by each, whoever else does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

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
    found = (line.session for line in read(folder, KEY))
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
    with pytest.raises(GitError, match="after exists already: expected the name of a new folder"):
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


class Refusing(BaseHTTPRequestHandler):
    """A server that asks for a password, and keeps what it was told."""

    told: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.told.append(self.headers["Authorization"])
        self.send_response(HTTPStatus.UNAUTHORIZED)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_token_in_the_environment_is_sent_to_nobody(
    within: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GH_TOKEN", "secret")
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _git(within, "remote", "set-url", "origin", f"http://127.0.0.1:{server.server_port}/x.git")
        with pytest.raises(GitError, match="git ls-remote: fatal: could not read Username"):
            fetch(tmp_path / "night", BRANCH)
        server.shutdown()
    assert Refusing.told and not any(Refusing.told)


def test_a_fetch_that_fails_leaves_nothing_and_can_be_tried_again(
    within: Path, tmp_path: Path
) -> None:
    origin, folder = tmp_path / "origin.git", tmp_path / "new" / "night"
    origin.rename(tmp_path / "away")
    before = sorted(tmp_path.iterdir())
    answer = asked_here("history", "fetch", folder)
    assert (answer.code, answer.out) == (1, "")
    assert f"'{origin}' does not appear to be a git repository" in answer.err
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "away").rename(origin)
    assert asked_here("history", "fetch", folder).code == 0
    assert folder.is_dir() and sorted(folder.parent.iterdir()) == [folder]


def test_git_s_own_reason_comes_before_its_advice(
    within: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git reads no repository of another owner, and says so in six lines."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    answer = asked_here("history", "push", _night(tmp_path / "night", 1))
    assert (answer.code, answer.out) == (1, "")
    (line,) = answer.errors
    assert line.startswith("busbw history: git remote: fatal: detected dubious ownership in")
    assert "safe.directory" in line
