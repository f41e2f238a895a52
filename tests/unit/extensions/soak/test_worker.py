"""The iterations of a soak: compared results, and the reasons for its end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from busbw.extensions.soak.worker import ResultComparison, SoakProgram, SoakRun, WrongElement
from busbw.model.launch import LaunchId
from busbw.worker.backends.base import MeasuringError

LAUNCH = LaunchId(name="soak")
BYTES = 1000


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

    def swap_inputs(self) -> None:
        """Do nothing: the draw names the input."""

    def run_iteration(self) -> None:
        self.runs += 1

    def result_hashes(self) -> tuple[int, ...]:
        is_other = self.runs in (*self._wrong_runs, *self._hashed_runs)
        return (self.draw, int(is_other))

    def find_mismatch(self, iteration: int) -> WrongElement | None:
        self.compared.append(iteration)
        if self.runs not in self._wrong_runs:
            return None
        return WrongElement(rank=1, element=7, iteration=iteration, expected=4, actual=5)


def _soak(program: ScriptedProgram, seconds: float = 2.0, others: Sequence[float] = ()) -> SoakRun:
    def gather(values: Sequence[float]) -> Sequence[Sequence[float]]:
        return [values, *([value] for value in others)]

    return ResultComparison(program, BYTES, program.now_s, gather).compare_results(seconds, LAUNCH)


def test_a_soak_compares_the_first_result_of_an_input_in_full_and_later_results_by_hash() -> None:
    program = ScriptedProgram()
    run = _soak(program)
    assert run.mismatch is None
    assert run.iterations > 1500
    assert run.compared_bytes == run.iterations * BYTES
    assert len(program.compared) == 3
    assert program.runs == run.iterations


def test_a_soak_takes_the_requested_time_and_at_most_the_time_of_one_more_batch() -> None:
    assert 2.0 <= _soak(ScriptedProgram()).seconds < 2.5
    assert _soak(ScriptedProgram(), seconds=1e-6).iterations == 1


def test_the_first_wrong_element_ends_a_soak() -> None:
    mismatch = _soak(ScriptedProgram([900]), seconds=100.0).mismatch
    assert mismatch is not None
    assert (mismatch.iteration, mismatch.element, mismatch.bits) == (900, 7, (0,))


def test_a_wrong_element_ends_a_soak_also_in_processes_whose_own_results_are_right() -> None:
    run = _soak(ScriptedProgram(), seconds=100.0, others=[1.0])
    assert run.mismatch is None
    assert run.iterations == 1


def test_a_changed_hash_of_a_result_without_a_wrong_word_is_an_error() -> None:
    with pytest.raises(MeasuringError, match="every word is right, and yet the hashes of ranks"):
        _soak(ScriptedProgram(hashed_runs=[500]), seconds=100.0)
