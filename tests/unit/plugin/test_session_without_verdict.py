"""Sessions without a verdict for reasons that no option and no script can cause."""

from __future__ import annotations

import pytest

from tests.contract.plugin.test_session_without_verdict import assert_no_verdict
from tests.helpers.session_folder import Folder

SHORT = """\
from busbw.driver.schedules import Schedule


def run(self):
    self.run_rounds(tuple(self.cases), self.plan.launches - 1)


Schedule.run = run
"""


def test_a_session_with_fewer_launches_than_requested_has_no_verdict(folder: Folder) -> None:
    (folder.path / "short.py").write_text(SHORT)
    options = ("--frameworks=fake", "-p", "short", "--launches=3")
    name = "fake.all_reduce.fake.float32.1M"
    message = f"NO_VERDICT: 1 case with fewer than 3 launches; the first is {name}"
    ran = assert_no_verdict(folder, *options, message=message)
    assert ran.outcomes == {"1M": "NO_BASELINE"}


MEMORY_IN_USE = """\
import dataclasses

from busbw.driver.schedules import Schedule, Side
from busbw.model.launch import Failure
from busbw.model.words import FailureKind, Detection

run_rounds = Schedule.run_rounds


def run(self, cases, count):
    run_rounds(self, cases, count)
    busy = Failure(
        kind=FailureKind.OUT_OF_MEMORY,
        message="in use",
        launch="1.fake",
        detected=Detection.PREDICTED,
        needed_bytes=2**20,
        available_bytes=2**10,
        capacity_bytes=2**30,
    )
    for case in cases:
        self._results[Side.CANDIDATE, case] = [busy] * count


Schedule.run_rounds = run
"""


@pytest.mark.exhaustive
def test_a_session_whose_cases_all_lack_memory_in_use_by_other_programs_has_no_verdict(
    folder: Folder,
) -> None:
    """No case is measured, so that no case can be judged."""
    folder.with_baselines()
    (folder.path / "busy.py").write_text(MEMORY_IN_USE)
    message = "NO_VERDICT: no case gave a time: 1 INCOMPARABLE"
    ran = assert_no_verdict(folder, "--frameworks=fake", "-p", "busy", message=message)
    assert ran.outcomes == {"1M": "INCOMPARABLE"}
    ran = folder.run("-p", "busy", "--require-baselines", exit_code=1)
    assert "1 failed" in ran.last_line
