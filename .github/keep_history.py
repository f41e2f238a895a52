"""The history of nights, on a branch of its own: fetched before a night, appended to after it.

    keep_history.py fetch FOLDER    what the branch has, into FOLDER, which must not be there
    keep_history.py push FOLDER     what FOLDER has and the branch lacks, as a commit on the branch

Nothing but git, the standard library and `busbw.history`, which needs no more: the job that may
write to the repository installs nothing. A branch that is not there is an empty history; the first
push makes it. A push that loses a race is done again on what won it. GH_TOKEN, if it is set, is
shown to git and to nobody else, in no file and on no command line.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from busbw.history.files import HistoryError, append_from  # noqa: E402
from busbw.model.words import plural  # noqa: E402

TRIES = 6
_AUTHOR = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")


class GitError(Exception):
    """A command of git that failed; the message has its last words."""


def fetch(folder: Path, branch: str) -> str:
    """What the branch has, into the new `folder`; a sentence on it."""
    if folder.exists():
        raise GitError(f"{folder} is there already")
    folder.mkdir(parents=True)
    if not _checked_out(folder, branch):
        return f"there is no branch {branch} yet: an empty history"
    return f"the history of the branch {branch} is in {folder}"


def push(folder: Path, branch: str, wait_s: float) -> str:
    """Append what `folder` has to the branch; a sentence on it. Raises GitError, HistoryError."""
    for number in range(1, TRIES + 1):
        with tempfile.TemporaryDirectory(prefix="busbw-history.") as name:
            try:
                return _pushed(Path(name), folder, branch)
            except GitError as error:
                if number == TRIES:
                    raise
                print(f"try {number}: {error}", file=sys.stderr, flush=True)
        # A while of its own for each that lost the same race.
        time.sleep(wait_s * number * random.uniform(0.5, 1.5))
    raise AssertionError("a last try returns or raises")


def _pushed(work: Path, folder: Path, branch: str) -> str:
    """One try, in the empty folder `work`."""
    _checked_out(work, branch)
    appended = [one for one in append_from(work, folder) if one.lines]
    if not appended:
        return f"nothing is new to the branch {branch}"
    text = ", ".join(
        f"{plural(one.lines, 'line')} of {one.path.relative_to(work)}" for one in appended
    )
    name, address = _AUTHOR
    _git(work, "add", "--all")
    identity = ["-c", f"user.name={name}", "-c", f"user.email={address}"]
    _git(work, *identity, "commit", "--quiet", f"--message=Append {text}")
    _git(work, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
    return f"appended to the branch {branch}: {text}"


def _checked_out(work: Path, branch: str) -> bool:
    """Make `work` a repository with the branch's newest commit; False: there is no such branch."""
    url = _git(ROOT, "remote", "get-url", "origin").strip()
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


def main() -> int:
    """Do it and say so; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("action", choices=("fetch", "push"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--branch", default="busbw-history")
    parser.add_argument("--wait-s", type=float, default=2.0, help="before another try, about")
    options = parser.parse_args()
    try:
        if options.action == "fetch":
            print(fetch(options.folder, options.branch))
        else:
            print(push(options.folder.absolute(), options.branch, options.wait_s))
    except (GitError, HistoryError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
