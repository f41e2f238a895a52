"""The iterations of a soak: compared results, and the reasons for its end."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import pytest

from busbw.extensions.soak.worker import ResultComparer, SoakProgram, Tally, mismatch_text
from busbw.worker.backends.base import MeasuringError


class ScriptedProgram(SoakProgram):
    """Takes a millisecond for an iteration of one of three inputs.

    The results of iterations in `wrong_runs` are wrong. A hash of the iterations in `hashed_runs`
    differs from the hash before.
    """

    def __init__(self, wrong_runs: Sequence[int] = (), hashed_runs: Sequence[int] = ()) -> None:
        self.runs = 0
        self.compared: list[int] = []
        self._wrong_runs, self._hashed_runs = wrong_runs, hashed_runs

    def now_s(self) -> float:
        """Return the time by the program's own clock."""
        return self.runs / 1000

    def renew_input(self) -> None:
        self.draw = (self.draw + 1) % 3

    def run_iteration(self) -> None:
        self.runs += 1

    def result_hashes(self) -> tuple[int, ...]:
        is_other = self.runs in (*self._wrong_runs, *self._hashed_runs)
        return (self.draw, int(is_other))

    def find_mismatch(self) -> str:
        self.compared.append(self.runs)
        return "rank 1, element 7" if self.runs in self._wrong_runs else ""


def _soak(
    program: ScriptedProgram, seconds: float = 2.0, others: Sequence[float] = (), before: int = 0
) -> Tally:
    def gather(values: Sequence[float]) -> Sequence[Sequence[float]]:
        return [values, *([value] for value in others)]

    return ResultComparer(program, program.now_s, gather, before).run_and_compare(seconds)


def test_a_soak_compares_the_first_result_of_an_input_in_full_and_later_results_by_hash() -> None:
    program = ScriptedProgram()
    tally = _soak(program)
    assert tally.iterations > 1500
    assert len(program.compared) == 3
    assert program.runs == tally.iterations


def test_a_soak_takes_the_requested_time_and_at_most_the_time_of_one_more_batch() -> None:
    assert 2.0 <= _soak(ScriptedProgram()).soaked_s < 2.5
    assert _soak(ScriptedProgram(), seconds=1e-6).iterations == 1


def test_the_first_wrong_element_ends_a_soak_and_its_iteration_is_that_of_all_turns() -> None:
    with pytest.raises(MeasuringError, match=r"^iteration 5900: rank 1, element 7$"):
        _soak(ScriptedProgram([900, 901]), seconds=100.0, before=5000)


def test_a_wrong_element_ends_a_soak_also_in_processes_whose_own_results_are_right() -> None:
    assert _soak(ScriptedProgram(), seconds=100.0, others=[1.0], before=7).iterations == 1


def test_the_text_on_a_wrong_element_names_each_wrong_bit_and_the_host_of_the_rank() -> None:
    text = mismatch_text(2, 77, 0x3F800000, 0)
    assert text.startswith(f"rank 2 ({platform.node()}), element 77: 0x0, expected 0x3f800000 ")
    assert text.endswith("(bits 23, 24, 25, 26, 27, 28, 29)")


def test_a_changed_hash_of_a_result_without_a_wrong_word_is_an_error() -> None:
    with pytest.raises(MeasuringError, match="every word is right, and yet the hashes of ranks"):
        _soak(ScriptedProgram(hashed_runs=[500]), seconds=100.0)
