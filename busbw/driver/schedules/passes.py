"""One stack: every case in every pass, in fresh processes, one at a time, the order shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model.case import Case
from busbw.model.launch import OwnProcesses

from .base import AbstractSchedule, shuffled


@dataclass
class Passes(AbstractSchedule):
    """Large cases are at one end of a launch, by turns the beginning and the end."""

    name = "passes"
    _large_first: bool = False

    def one_pass(self, cases: Sequence[Case]) -> None:
        (side,) = self.stacks
        for framework, of_framework in self.frameworks(cases).items():
            ordered = shuffled(of_framework, self._shuffler, large_first=self._large_first)
            grouped = [case for case in ordered if isinstance(case.workload, OwnProcesses)]
            alone = [case for case in ordered if case not in grouped]
            self.launches(framework, alone, (side,), handover=self.shared)
            for case in grouped:
                self.by_own_processes(case)
            self._large_first = not self._large_first
