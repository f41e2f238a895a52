"""Studies are found by where they lie: another one is a folder more, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from busbw import commands, studies

ROOT = Path(__file__).parents[2]
NAMES = [
    *("run", "init", "figure", "history", "page", "stack", "trace", "agent"),
    *("estimate", "tpu_v2", "parameter_server", "prediction"),
]

_STUDY = '''
"""How long a year is."""

from busbw.commands import UsageError, add_command


def add_to(commands):
    """Add the command."""
    parser = add_command(commands, "year", run, help="how long a year is", description=__doc__)
    parser.add_argument("days", type=int)


def run(options):
    """Print it."""
    if options.days < 365:
        raise UsageError("too short")
    print(f"{options.days} days")
    return 0
'''


def test_commands_are_in_the_order_of_the_help_and_every_study_is_one() -> None:
    assert [one.__name__.rpartition(".")[2] for one in commands.found()] == NAMES
    assert set(studies.found()) <= set(commands.found())


def test_a_new_folder_is_a_command_the_last_in_the_help(tmp_path: Path) -> None:
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "busbw", tmp_path / "busbw", ignore=skipped)
    study = tmp_path / "busbw/studies/year"
    study.mkdir()
    (study / "__init__.py").write_text(_STUDY)

    def busbw(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "busbw", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    listed = re.findall(r"^    (\S+)", busbw("--help").stdout, flags=re.MULTILINE)
    assert listed == [name.replace("_", "-") for name in [*NAMES, "year"]]
    assert busbw("year", "366").stdout == "366 days\n"
    refused = busbw("year", "364")
    assert (refused.returncode, refused.stderr) == (2, "busbw year: too short\n")
