"""The iterations of a soak: inputs, exact results, compared results, and the reasons for its end.

Inputs and exact results are computed in another way than `worker_comparison` computes them.
"""

from __future__ import annotations

import itertools
import platform
import random
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from busbw.collectives import COLLECTIVES
from busbw.extensions.soak.worker_comparison import (
    RETRY_COUNT,
    SoakProgram,
    SoakValues,
    Tally,
    wrong_element_text,
)
from busbw.worker.backends.base import MeasuringError
from tests.helpers import build


class ScriptedProgram(SoakProgram):
    """Takes a millisecond for an iteration.

    The results of iterations in `wrong_runs` are wrong. A hash of the iterations in `hashed_runs`
    differs from the hash before. `others` says for each other process whether its result is wrong.
    """

    def __init__(
        self,
        wrong_runs: Sequence[int] = (),
        hashed_runs: Sequence[int] = (),
        others: Sequence[float] = (),
    ) -> None:
        backend = SimpleNamespace(
            now_s=lambda: self.iterations / 1000,
            all_gather=lambda values: [values, *([value, 0.0] for value in others)],
        )
        self.draws: list[int] = []
        self.compared: list[int] = []
        program: Any = SimpleNamespace(
            write_draw=lambda draw_number: setattr(program, "inputs", draw_number),
            run=lambda iterations: self.draws.append(program.inputs),
        )
        super().__init__(backend, build.case(), program)
        self._wrong_runs, self._hashed_runs = wrong_runs, hashed_runs

    def hash_results(self) -> tuple[int, ...]:
        is_other = self.iterations in (*self._wrong_runs, *self._hashed_runs)
        return (self.draws[-1], int(is_other))

    def first_wrong_element_text(self, draw_number: int) -> str:
        assert draw_number == self.draws[-1]
        self.compared.append(self.iterations)
        return "rank 1, element 7" if self.iterations in self._wrong_runs else ""


def test_a_soak_compares_the_first_result_of_an_input_in_full_and_later_results_by_hash() -> None:
    program = ScriptedProgram()
    tally = program.run_and_compare(4.0)
    assert len(program.draws) == tally.iterations > 1500
    assert len(program.compared) == len(set(program.draws)) == SoakValues.draw_count
    # Two inputs alternate.
    assert all(draw != following for draw, following in itertools.pairwise(program.draws))
    assert (
        tally.compared_bytes == tally.iterations * program.case.ranks * program.case.payload_bytes
    )


def test_a_soak_takes_the_requested_time_and_at_most_the_time_of_one_more_batch() -> None:
    assert 2.0 <= ScriptedProgram().run_and_compare(2.0).soaked_s < 2.5
    assert ScriptedProgram().run_and_compare(1e-6).iterations == 1


def test_the_first_wrong_element_ends_a_soak_and_is_named_with_its_iteration() -> None:
    with pytest.raises(MeasuringError, match=r"^iteration 900: rank 1, element 7; "):
        ScriptedProgram([900, 901]).run_and_compare(100.0)


@pytest.mark.parametrize(("last_wrong_run", "count"), [(901, 0), (10_000, RETRY_COUNT)])
def test_after_a_wrong_result_the_same_inputs_are_tried_again_and_wrong_retries_are_counted(
    last_wrong_run: int, count: int
) -> None:
    program = ScriptedProgram(range(900, last_wrong_run + 1))
    with pytest.raises(
        MeasuringError, match=f" a wrong result in {count} of {RETRY_COUNT} retries$"
    ):
        program.run_and_compare(100.0)
    assert program.draws[899] in program.draws[-2:]
    assert program.draws[-2 * RETRY_COUNT :] == program.draws[-2:] * RETRY_COUNT


def test_a_wrong_element_ends_a_soak_also_in_processes_whose_own_results_are_right() -> None:
    program = ScriptedProgram(others=[1.0])
    program.run_and_compare(100.0)
    assert program.iterations == 1 + 2 * RETRY_COUNT


def test_the_text_on_a_wrong_element_names_each_wrong_bit_and_the_host_of_the_rank() -> None:
    text = wrong_element_text(2, 77, 0x3F800000, 0)
    assert text.startswith(f"rank 2 ({platform.node()}), element 77: 0x0, expected 0x3f800000 ")
    assert text.endswith("(wrong bits: 23, 24, 25, 26, 27, 28, 29)")


def test_a_changed_hash_of_a_result_without_a_wrong_word_is_an_error() -> None:
    with pytest.raises(MeasuringError, match="every word is right, and yet the hashes of ranks"):
        ScriptedProgram(hashed_runs=[500]).run_and_compare(100.0)


def test_the_tallies_of_turns_add_up() -> None:
    turn = Tally(iterations=10, compared_bytes=100, soaked_s=2.0)
    assert sum([turn, turn], Tally()) == Tally(iterations=20, compared_bytes=200, soaked_s=4.0)


DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "int32": np.int32}


def _words(collective: str, dtype: str = "float32", op: str = "", **changes: Any) -> SoakValues:
    operations = COLLECTIVES[collective].reduce_ops
    op = op or (operations[0] if operations else "none")
    case = build.case(
        collective=collective, reduce_op=op, placement="out_of_place", dtype=dtype, **changes
    )
    return SoakValues(case, np.dtype(DTYPES[dtype]))


def _find_mismatch(words: SoakValues, draw_number: int, results: Mapping[int, Any]) -> str:
    """Compare the results of ranks as a soak does, without a framework."""
    program = SimpleNamespace(values=words, results_by_rank=lambda: results)
    return SoakProgram(None, words.case, program).first_wrong_element_text(draw_number)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_sums_of_soak_inputs_are_equal_in_every_order_of_additions(
    collective: str, dtype: str, ranks: int
) -> None:
    words = _words(collective, dtype, ranks=ranks)
    chance = random.Random(0)
    for number in range(4):
        starts = [words.starting_values(rank, number) for rank in range(ranks)]
        assert all(np.isfinite(start).all() for start in starts)
        expected = [words.exact_values_after(rank, number, 1)[0] for rank in range(ranks)]
        for _ in range(10):
            chance.shuffle(starts)
            added = starts[0].copy()
            for start in starts[1:]:
                added += start
            blocks = [added[0]] * ranks if collective == "all_reduce" else added
            assert np.array_equal(np.stack(expected), blocks)
            assert added.any()


def test_the_sums_of_soak_inputs_range_from_the_smallest_to_the_largest_normal_numbers() -> None:
    words = _words("all_reduce", ranks=8)
    largest = [float(np.abs(words.exact_values_after(0, number, 1)).max()) for number in range(4)]
    assert largest[0] < 1e-30
    assert largest[3] > 1e30
    assert largest == sorted(largest)


def test_integer_inputs_of_a_soak_use_their_high_bits_and_their_sums_wrap_around() -> None:
    words = _words("all_reduce", "int32")
    starts = [words.starting_values(rank, 0)[0].astype(np.int64) for rank in range(4)]
    assert all(abs(int(start.max())) > 2**30 for start in starts)
    wrapped = (sum(starts) + 2**31) % 2**32 - 2**31
    assert np.array_equal(words.exact_values_after(2, 0, 1)[0], wrapped)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_expected_maximum_of_a_soak_is_the_maximum_of_the_inputs(dtype: str) -> None:
    words = _words("all_reduce", dtype, "max")
    starts = np.stack([words.starting_values(rank, 1)[0] for rank in range(4)])
    assert np.array_equal(words.exact_values_after(3, 1, 1)[0], starts.max(axis=0))


def test_soak_inputs_of_collectives_that_only_move_values_use_all_bits_of_the_mantissa() -> None:
    starts = _words("permute", ranks=8).starting_values(0, 0)
    fractions = (np.frexp(starts)[0] * 2**24).astype(np.int64)
    assert all(((fractions >> bit) & 1).any() for bit in range(23))


def test_the_expected_results_of_a_soak_are_the_inputs_that_the_collective_moves() -> None:
    brought: Mapping[str, Callable[[Any, int], Any]] = {
        "permute": lambda starts, rank: [starts[rank - 1][0]],
        "all_gather": lambda starts, rank: [start[0] for start in starts],
        "all_to_all": lambda starts, rank: [start[rank] for start in starts],
    }
    for name, expected in brought.items():
        words = _words(name)
        starts = [words.starting_values(rank, 3) for rank in range(4)]
        for rank in range(4):
            got, exact = words.exact_values_after(rank, 3, 1), np.stack(expected(starts, rank))
            assert np.array_equal(got.view(np.uint32), exact.view(np.uint32)), name


def test_the_soak_inputs_of_groups_along_an_axis_differ_between_the_groups() -> None:
    words = _words("all_gather", ranks=4, mesh="2x2", axes="y")
    assert not np.array_equal(words.exact_values_after(0, 0, 1), words.exact_values_after(2, 0, 1))
    assert np.array_equal(words.exact_values_after(0, 0, 1), words.exact_values_after(1, 0, 1))


def test_the_first_wrong_word_of_a_soak_is_named_with_its_rank_and_element_and_bits() -> None:
    words = _words("permute", payload_bytes=65536)
    right = {rank: np.resize(words.exact_values_after(rank, 0, 1)[0], 16384) for rank in range(4)}
    assert _find_mismatch(words, 0, right) == ""
    right[2][[100, 16000]] *= -1
    text = _find_mismatch(words, 0, right)
    assert text.startswith("rank 2 (") and "), element 100: " in text
    assert text.endswith("(wrong bits: 31)")


def test_a_soak_reports_a_minus_zero_in_the_place_of_a_zero_as_a_wrong_word() -> None:
    words = _words("permute", "float16", payload_bytes=65536)
    number = next(
        n for n in range(words.draw_count) if (words.exact_values_after(0, n, 1) == 0).any()
    )
    got = np.resize(words.exact_values_after(0, number, 1)[0], 32768)
    got[got == 0] = -0.0
    assert _find_mismatch(words, number, {0: got}).endswith(
        ": 0x8000, expected 0x0 (wrong bits: 15)"
    )


def test_a_soak_refuses_a_sum_over_too_many_ranks_for_an_exact_result_in_the_dtype() -> None:
    with pytest.raises(MeasuringError, match="float16 holds no exact sum over 4096 ranks"):
        _words("all_reduce", "float16", ranks=4096).max_exact_iterations()
