"""Schedules are found where they lie: a new one is a file, and nobody is told of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import busbw
from busbw.driver import schedules
from busbw.driver.schedules import SCHEDULES
from busbw.driver.schedules.base import AbstractSchedule

_NEW = '''
"""Nothing is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model.case import Case

from .base import AbstractSchedule


@dataclass
class Nothing(AbstractSchedule):
    """No launch of any case."""

    name = "nothing"

    def one_pass(self, cases: Sequence[Case]) -> None:
        """Be done."""
'''


def test_every_schedule_of_the_room_is_found_by_its_name() -> None:
    room = Path(str(schedules.__file__)).parent
    names = {path.stem for path in room.glob("*.py") if "(AbstractSchedule)" in path.read_text()}
    assert set(SCHEDULES) == names == {"passes", "pairs"}
    for name, schedule in SCHEDULES.items():
        assert issubclass(schedule, AbstractSchedule)
        assert schedule.__module__ == f"busbw.driver.schedules.{name}"


def test_a_new_schedule_is_one_file(tmp_path: Path) -> None:
    copy = tmp_path / "busbw"
    shutil.copytree(Path(busbw.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "driver" / "schedules" / "nothing.py").write_text(_NEW)
    shown = "from busbw.driver.schedules import SCHEDULES; print(*sorted(SCHEDULES))"
    done = subprocess.run(
        [sys.executable, "-c", shown],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["nothing", "pairs", "passes"], done.stderr
