"""A session that is driven without pytest, from what was given to what was written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sessions


_WITHOUT_PYTEST = """
import sys
from pathlib import Path

from busbw.session.command_line import read_options
from busbw.session.mode import add_specs
from busbw.session.progress import Display, Screen
from busbw.session.run import run_session, write
from busbw.session.state import Collected

options = read_options(["--frameworks=fake", "--payloads=1M", "--launches=1"], Path("."))
collected, specs = add_specs(Collected(options=options))
judged = write(run_session(collected, specs, Display(Screen())))
print(judged.session.headline(), "pytest" in sys.modules)
"""


def test_no_pytest_is_needed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYTEST],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        text=True,
    )
    assert done.stdout.startswith("NOTHING_COMPARED: 1 case measured") and done.stdout.endswith(
        "False\n"
    )
