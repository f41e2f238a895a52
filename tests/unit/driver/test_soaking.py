"""Cases soaked in turn: every one has its rounds, the largest payloads more of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.local import LocalTransport
from busbw.driver.soaking import Soaking
from busbw.driver.transport import Starter
from busbw.model.launch import Failure, LaunchId
from tests.helpers.workers import PLAN, case, keyed, starter

pytestmark = pytest.mark.workers


class SlowStarts(Executor):
    """By its clock a process takes `start_s` more to start."""

    def __init__(self, bundle: Bundle, start_s: float) -> None:
        self._start_s, self._later_s = start_s, 0.0
        super().__init__(LocalTransport(bundle), clock=lambda: time.monotonic() + self._later_s)

    def open(self, starter: Starter, launch: LaunchId) -> Group | Failure:
        self._later_s += self._start_s
        return super().open(starter, launch)


def _soaked(bundle: Bundle, *sizes: int, start_s: float = 0.0, **script: Any) -> Soaking:
    starts = SlowStarts(bundle, start_s)
    soaking = Soaking(
        executor=starts,
        cases=keyed(*map(case, sizes)),
        starters={"fake": starter(**script)},
        seconds=0.3,
        plan=PLAN,
        clock=starts.clock,
    )
    soaking.run()
    return soaking


@pytest.mark.usefixtures("nothing_left")
def test_the_time_is_that_of_rounds_however_long_a_process_takes_to_start(bundle: Bundle) -> None:
    tallies = _soaked(bundle, 1024, 2048, start_s=1000.0).tallies
    assert all(tally.rounds > 0 for tally in tallies.values())
