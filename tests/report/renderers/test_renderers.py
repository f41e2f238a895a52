"""Forms of a table are found by where they lie: another one is a file more, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from busbw import locks
from busbw.report.renderers import RENDERERS

ROOT = Path(__file__).parents[3]

_CSV = '''
"""A table with commas between raw values."""

from ..table import TextLine


def render(table):
    """A line for each row."""
    rows = [[row.values[column.id] for column in table.columns] for row in table.rows]
    return [TextLine(",".join(map(str, row))) for row in rows]
'''

_SHOWN = """
from busbw.report.renderers import rendered
from busbw.report.session import session_tables
from busbw.plugin.session import judged_of


def pytest_terminal_summary(terminalreporter, config):
    judged = judged_of(config)
    verdicts = tuple(judged.verdicts.values())
    tables = session_tables(verdicts, judged.observed.measurements)
    for line in rendered("csv", *tables):
        terminalreporter.write_line(f"csv: {line}")
"""


def test_forms_have_the_names_of_their_files() -> None:
    assert sorted(RENDERERS) == ["json", "markdown", "text"]


def test_a_new_file_renders_the_table_of_a_session(tmp_path: Path) -> None:
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("busbw", "perf"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
    (tmp_path / "busbw/report/renderers/csv.py").write_text(_CSV)
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text() + _SHOWN)
    words = ["-m", "pytest", "perf", "--frameworks=fake", "--payloads=1M", "--launches=1"]
    done = subprocess.run(
        [sys.executable, *words, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), locks.MACHINE: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("csv: ")]
    assert row.startswith("csv: 1048576,") and row.endswith(",NO_BASELINE"), done.stdout
