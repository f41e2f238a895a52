"""Cases soaked in turn until the time is over, the largest payloads oftener, launch after launch.

Some errors are a launch's own, others come after hours: a launch soaks for a few times as long as
it took to start.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.driver.counters import Counters
from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.transport import Request, Starter
from busbw.model.case import Case
from busbw.model.counters import Counted
from busbw.model.launch import Failure, LaunchId, Plan
from busbw.model.machine import EnvironmentKey
from busbw.model.soak import Soaked, Tally

# Of a launch's start, how much longer it soaks; how long one case has at a time, and at least.
_LONGER, _SLICE_S, _LEAST_S = 4.0, 2.0, 0.1


@dataclass
class Soaking:
    """All `cases`, each with the key of the world that it was resolved on, for `seconds`.

    Those that are `watched` have twice the time of others. By `plan` a case has its deadline beyond
    that, and its limit of memory. What was found of each is in `tallies`, and what `counters` say
    of it in `counted`.
    """

    executor: Executor
    cases: Mapping[Case, EnvironmentKey]
    starters: Mapping[str, Starter]
    seconds: float
    plan: Plan
    on_progress: Callable[[Mapping[Case, Tally], float], None] = lambda tallies, left_s: None
    clock: Callable[[], float] = time.monotonic
    watched: Collection[Case] = ()
    counters: Counters | None = None
    counted: dict[Case, Counted] = field(default_factory=dict)
    tallies: dict[Case, Tally] = field(default_factory=dict)
    _end_s: float = 0.0
    _number: int = 0

    def run(self) -> None:
        """Soak all cases; no worker is left, however that ends."""
        self._end_s = self.clock() + self.seconds
        self.tallies = {case: Tally() for case in self.cases}
        with self.executor:
            while frameworks := dict.fromkeys(case.framework for case in self._open()):
                for framework in frameworks:
                    if cases := self._open(framework):
                        self._launch(framework, cases)

    @property
    def _left_s(self) -> float:
        return self._end_s - self.clock()

    def _open(self, framework: str = "") -> list[Case]:
        """Return the cases to go on with; when the time is over, those that had no round yet."""
        is_late = self._left_s <= 0
        return [
            case
            for case, tally in self.tallies.items()
            if framework in ("", case.framework)
            and not tally.is_over
            and not (is_late and tally.rounds)
        ]

    def _launch(self, framework: str, cases: Sequence[Case]) -> None:
        self._number += 1
        launch = LaunchId(pass_number=self._number, framework=framework)
        begun_s = self.clock()
        with self.executor.counted("starting"):
            group = self.executor.open(self.starters[framework], launch)
        if isinstance(group, Failure):
            for case in cases:
                self._keep(case, group)
            return
        start_s = self.clock() - begun_s
        if self._number == 1:
            # However long that took, there is the time for rounds that was asked for.
            self._end_s += start_s
        end_s = self.clock() + max(_SLICE_S, _LONGER * start_s)
        if self.counters is not None:
            # What changes while nothing runs is of no case.
            self.counters.since()
        with self.executor.counted("measuring"):
            while self.clock() < end_s and (cases := self._open(framework)):
                self._slice(group, self._next(cases))
                if group.is_over:
                    break
        if not group.is_over:
            self.executor.close(group)

    def _next(self, cases: Sequence[Case]) -> Case:
        """Return the case with the least time for its size: each doubling has as much more."""
        least = min(case.payload_bytes for case in cases)

        def had_s(case: Case) -> float:
            share = 1 + math.log2(case.payload_bytes / least)
            return self.tallies[case].seconds / share / (2 if case in self.watched else 1)

        return min(cases, key=lambda case: (had_s(case), -case.payload_bytes))

    def _slice(self, group: Group, case: Case) -> None:
        self.on_progress(self.tallies, self._left_s)
        seconds = max(_LEAST_S, min(_SLICE_S, self._left_s))
        for process, answer in enumerate(self._asked(group, case, seconds)):
            self._keep(case, answer, process)
        if self.counters is not None:
            counted = self.counted.get(case, Counted())
            self.counted[case] = counted.plus(self.counters.since())
        if self.tallies[case].wrong is not None and not group.is_over:
            self._turned(group, case)

    def _turned(self, group: Group, case: Case) -> None:
        """Whether the error stays with the device, if ranks are moved on by one, or with the rank.

        For a few times as long as it took to come.
        """
        tally = self.tallies[case]
        assert tally.wrong is not None
        seconds = max(_LEAST_S, min(_LONGER * tally.seconds, self._left_s))
        answers = self._asked(group, case, seconds, turned=1)
        again = (one.wrong for one in answers if isinstance(one, Soaked) and one.wrong is not None)
        for wrong in itertools.islice(again, 1):
            of_device = (wrong.rank + 1) % case.ranks == tally.wrong.rank
            of_rank = "rank" if wrong.rank == tally.wrong.rank else "neither"
            self.tallies[case] = replace(tally, follows="device" if of_device else of_rank)

    def _asked(
        self, group: Group, case: Case, seconds: float, turned: int = 0
    ) -> Sequence[Soaked | Failure]:
        """What each process answers, or the one failure of all."""
        values: dict[str, object] = {"case": case, "plan": self.plan, "key": self.cases[case]}
        values |= {"seconds": seconds, "turned": turned}
        request = Request("soak", Soaked, values)
        doing = f"soaking {case.name}"
        answers = group.ask_each(request, self.plan.timeout_s + seconds, doing)
        return [answers] if isinstance(answers, Failure) else answers

    def _keep(self, case: Case, answer: Soaked | Failure, process: int = 0) -> None:
        self.tallies[case] = self.tallies[case].plus(answer, process)
