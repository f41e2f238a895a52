"""A soak of the fake framework, whose script can make results wrong.

With ``{"flips": {"every": 1000, "word": {"rank": 1}}}`` in a case of the script, every 1000th
result is wrong; `word` overrides arguments of `mismatch_text`.
"""

from __future__ import annotations

from typing import Any

from .worker_comparison import SoakProgram, mismatch_text


class FakeSoakProgram(SoakProgram):
    """A simulated program in a soak, which returns wrong results if the script says so."""

    prepare_arguments = ()
    _result_count = 0

    def write_input(self, draw_number: int, old_buffers: Any) -> None:
        """Write nothing, because a simulated program has no values."""

    def hash_results(self) -> tuple[int, ...]:
        """Count a result, and return 1 if it is wrong, and otherwise 0, as the only hash."""
        self._result_count += 1
        return (int(self.find_mismatch(0) != ""),)

    def find_mismatch(self, draw_number: int) -> str:
        flips = self.backend.case_changes(self.case).get("flips")
        if not flips or self._result_count % flips["every"]:
            return ""
        word = {"rank": 1, "element": 7, "expected": 0, "actual": 1}
        return mismatch_text(**word | flips.get("word", {}))
