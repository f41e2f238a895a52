"""The history of nights on a branch of its own: fetched before a night, appended to after it.

A branch that is not there is an empty history; the first push makes it. A push that loses a race is
done again on what won it. Who may read and write is between git and the server: credentials come
from git's own configuration.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from busbw.model.words import plural

from .files import append_from

BRANCH = "busbw-history"
TRIES = 6
# Who commits in a workflow, and where git knows nobody, as under cron.
_BOT = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")
_NOBODY = ("busbw", "busbw@localhost")


# Of what git prints: enough for its reason and what the server said.
_MOST_LINES = 12


class GitError(Exception):
    """A command of git that failed; the message has what git printed."""


def fetch(folder: Path, branch: str) -> str:
    """Put the branch of this repository's origin into the new `folder`; return a sentence on it.

    Raises GitError, also for a folder that exists. What fails leaves no folder.
    """
    if os.path.lexists(folder):
        raise GitError(f"{folder} exists already: expected the name of a new folder")
    url = _origin()
    parent = next(path for path in folder.parents if path.exists())
    with tempfile.TemporaryDirectory(prefix=".busbw-history.", dir=parent) as name:
        work = Path(name, folder.name)
        work.mkdir()
        is_there = _checked_out(work, url, branch)
        folder.parent.mkdir(parents=True, exist_ok=True)
        work.rename(folder)
    if not is_there:
        return f"there is no branch {branch} yet: an empty history"
    return f"the history of the branch {branch} is in {folder}"


def push(folder: Path, branch: str, *, wait_s: float = 2.0) -> str:
    """Append what `folder` has to the branch; a sentence on it. Raises GitError, HistoryError.

    `wait_s` is about how long to wait before another try.
    """
    url = _origin()
    for number in range(1, TRIES):
        try:
            return _pushed(folder, url, branch)
        except GitError as error:
            print(f"try {number}: {error}", file=sys.stderr, flush=True)
        # A while of its own for each that lost the same race.
        time.sleep(wait_s * number * random.uniform(0.5, 1.5))
    return _pushed(folder, url, branch)


def _pushed(folder: Path, url: str, branch: str) -> str:
    """Try once, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="busbw-history.") as name:
        work = Path(name)
        _checked_out(work, url, branch)
        found = {one.path.relative_to(work): one.lines for one in append_from(work, folder)}
        texts = [f"{plural(lines, 'line')} of {path}" for path, lines in found.items() if lines]
        if not texts:
            return f"nothing is new to the branch {branch}"
        text = ", ".join(texts)
        _git(work, "add", "--all")
        _git(work, *_identity(work), "commit", "--quiet", f"--message=Append {text}")
        _git(work, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return f"appended to the branch {branch}: {text}"


def _identity(work: Path) -> list[str]:
    """What makes commits somebody's; nothing where git knows whose they are."""
    if os.environ.get("GITHUB_ACTIONS"):
        name, address = _BOT
    else:
        try:
            _git(work, "config", "user.email")
            return []
        except GitError:
            name, address = _NOBODY
    return ["-c", f"user.name={name}", "-c", f"user.email={address}"]


def _origin() -> str:
    """Return the URL of the origin of the repository that this process is in. Raises GitError."""
    return _git(Path.cwd(), "remote", "get-url", "origin").strip()


def _checked_out(work: Path, url: str, branch: str) -> bool:
    """Make `work` a repository with the newest commit of the branch at `url`, if that exists."""
    _git(work, "init", "--quiet", f"--initial-branch={branch}")
    _git(work, "remote", "add", "origin", url)
    if not _git(work, "ls-remote", "--heads", "origin", f"refs/heads/{branch}"):
        return False
    _git(work, "fetch", "--quiet", "--depth=1", "origin", f"refs/heads/{branch}")
    _git(work, "reset", "--quiet", "--hard", "FETCH_HEAD")
    return True


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints. Raises GitError."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines()]
        # The reason comes first, and advice last.
        reasons = [line for line in lines if line and not line.startswith("hint:")]
        raise GitError(f"git {arguments[0]}: {'; '.join(reasons[:_MOST_LINES])}")
    return done.stdout
