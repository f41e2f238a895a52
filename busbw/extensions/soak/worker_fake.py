"""A soak of the fake framework.

In its script a case's ``{"flips": {"every": 1000, "word": {"rank": 1}}}`` makes the last of that
many results wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from busbw.model.case import Case
from busbw.worker.backends.base import Program
from busbw.worker.backends.fake.backend import FakeBackend

from .worker import SoakProgram, WrongElement


@contextlib.contextmanager
def program_of(backend: FakeBackend, case: Case) -> Iterator[SoakProgram]:
    """Prepare a case, with the wrong elements of the script."""
    with backend.prepare_program(case) as program:
        yield FakeProgram(program, backend.script_line(case).get("flips", {}))


@dataclass
class FakeProgram(SoakProgram):
    """Results of which every so many is wrong, as `flips` say."""

    program: Program
    flips: Mapping[str, Any]
    draw = 0
    _results: int = 0

    def renew(self) -> None:
        """Do nothing: there are no values."""

    def swap(self) -> None:
        """Do nothing: there are no values."""

    def run(self) -> None:
        self.program.run(1)
        self._results += 1

    def digests(self) -> tuple[int, ...]:
        return (int(self._is_wrong),)

    def find_mismatch(self, iteration: int) -> WrongElement | None:
        word = {"rank": 1, "element": 7, "expected": 0, "actual": 1, **self.flips.get("word", {})}
        return WrongElement(draw=0, iteration=iteration, **word) if self._is_wrong else None

    @property
    def _is_wrong(self) -> bool:
        return bool(self.flips) and self._results % self.flips["every"] == 0
