"""Sessions of `pytest perf/` that only collect, one after another in one process.

`python -m tests.contract.docs.collecting` reads a JSON list of lists of words, and writes the
errors of pytest for each. Collecting starts no process and asks no hardware. In a process of its
own, since pytest collects garbage at the end of each session, which takes long where much is in
memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.contract.docs.pages import ROOT

# Environments that the pages name, below the user's home.
INTERPRETERS = ("last-week", "old", "old-jax", "old-tf", "tf-tpu")
_OF_OUTSIDE = ("CI", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")


def objections(calls: Sequence[Sequence[str]], home: Path) -> list[str]:
    """Return what pytest objects to in each of the `calls`, with an interpreter for each path."""
    for name in INTERPRETERS:
        python = home / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        env=_environment(home),
        input=json.dumps([list(words) for words in calls]),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)
    assert isinstance(answers, list) and len(answers) == len(calls)
    return answers


def _environment(home: Path) -> Mapping[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_OUTSIDE}
    path = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    return {**environment, "HOME": str(home), "PYTHONPATH": path}


def _objection(words: Sequence[str]) -> str:
    output = io.StringIO()
    options = ("-p", "no:cacheprovider", "--collect-only", "-q")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main([*options, *map(os.path.expandvars, words)])
    return "" if code == 0 else f"exit code {int(code)}: {output.getvalue()}"


if __name__ == "__main__":
    print(json.dumps([_objection(words) for words in json.load(sys.stdin)]))
