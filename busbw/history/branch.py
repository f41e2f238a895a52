"""The history of nights on a branch of its own: fetched before a night, appended to after it.

A branch that is not there is an empty history; the first push makes it. A push that loses a race is
done again on what won it. The token of GH_TOKEN, if it is set, is shown to git and to nobody else,
in no file and on no command line.
"""

from __future__ import annotations

import base64
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


class GitError(Exception):
    """A command of git that failed; the message has its last words."""


def fetch(folder: Path, branch: str) -> str:
    """What the branch of this repository's origin has, into the new `folder`; a sentence on it.

    Raises GitError, also for a folder that is there already.
    """
    if os.path.lexists(folder):
        raise GitError(f"{folder} is there already; accepted is a new folder")
    folder.mkdir(parents=True)
    if not _checked_out(folder, branch):
        return f"there is no branch {branch} yet: an empty history"
    return f"the history of the branch {branch} is in {folder}"


def push(folder: Path, branch: str, *, wait_s: float = 2.0) -> str:
    """Append what `folder` has to the branch; a sentence on it. Raises GitError, HistoryError.

    `wait_s` is about how long to wait before another try.
    """
    for number in range(1, TRIES):
        try:
            return _pushed(folder, branch)
        except GitError as error:
            print(f"try {number}: {error}", file=sys.stderr, flush=True)
        # A while of its own for each that lost the same race.
        time.sleep(wait_s * number * random.uniform(0.5, 1.5))
    return _pushed(folder, branch)


def _pushed(folder: Path, branch: str) -> str:
    """One try, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="busbw-history.") as name:
        work = Path(name)
        _checked_out(work, branch)
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


def _checked_out(work: Path, branch: str) -> bool:
    """Make `work` a repository with the branch's newest commit; False: there is no such branch."""
    url = _git(Path.cwd(), "remote", "get-url", "origin").strip()
    _git(work, "init", "--quiet", f"--initial-branch={branch}")
    _git(work, "remote", "add", "origin", url)
    if not _git(work, "ls-remote", "--heads", "origin", f"refs/heads/{branch}"):
        return False
    _git(work, "fetch", "--quiet", "--depth=1", "origin", f"refs/heads/{branch}")
    _git(work, "reset", "--quiet", "--hard", "FETCH_HEAD")
    return True


def _git(folder: Path, *arguments: str) -> str:
    """What git prints. Raises GitError."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", **_authorized()},
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        words = "; ".join(done.stderr.strip().splitlines()[-3:])
        raise GitError(f"git {arguments[0]}: {words}")
    return done.stdout


def _authorized() -> dict[str, str]:
    """The token as a header of requests, by variables: it is on no command line."""
    token = os.environ.get("GH_TOKEN", "")
    if not token:
        return {}
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
    }
