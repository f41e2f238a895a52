"""A soak of the fake framework, whose script can make results wrong.

With ``{"flips": {"every": 1000, "word": {"rank": 1}}}`` in a case of the script, every 1000th
result is wrong; `word` overrides arguments of `mismatch_text`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from busbw.model.case import Case
from busbw.worker.backends.base import Program
from busbw.worker.backends.fake.backend import FakeBackend

from .worker import SoakProgram, mismatch_text


@contextlib.contextmanager
def prepared_program(backend: FakeBackend, case: Case) -> Iterator[SoakProgram]:
    """Yield the program of `case`, some of whose results are wrong if the script says so."""
    with backend.prepare_program(case) as program:
        yield FakeSoakProgram(program, backend.case_changes(case).get("flips", {}))


@dataclass
class FakeSoakProgram(SoakProgram):
    """A simulated program in a soak, which returns wrong results if the script says so.

    Attributes:
        program: The program of the fake back end.
        flip_script: The entry `flips` of the case in the script; empty if all results are right.
        _result_count: The number of results so far.

    """

    program: Program
    flip_script: Mapping[str, Any]
    draw = 0
    _result_count: int = 0

    def run_iteration(self) -> None:
        self.program.run(1)
        self._result_count += 1

    def result_hashes(self) -> tuple[int, ...]:
        """Return a single number: 1 if the last result is wrong, and otherwise 0."""
        return (int(self._is_wrong),)

    def find_mismatch(self) -> str:
        word = {
            "rank": 1,
            "element": 7,
            "expected": 0,
            "actual": 1,
            **self.flip_script.get("word", {}),
        }
        return mismatch_text(**word) if self._is_wrong else ""

    @property
    def _is_wrong(self) -> bool:
        """Whether the script says that the last result is wrong."""
        return bool(self.flip_script) and self._result_count % self.flip_script["every"] == 0
