"""The rounds of a soak: which are compared in full, what ends it, and what it says then."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from busbw.model.launch import LaunchId
from busbw.model.soak import Soaked, Wrong
from busbw.worker.backends.base import MeasuringError
from busbw.worker.operations.soak import AGAIN, Soak
from tests.unit.worker.scripted import ScriptedProgram

LAUNCH = LaunchId(name="soak")
BYTES = 1000


class Soaking(ScriptedProgram):
    """Three draws of two kinds; rounds in `wrong_in` are wrong, and special words always are.

    A hash of the rounds in `hashed` is another one than before.
    """

    special = ("special words",)

    def __init__(
        self, wrong_in: Sequence[int] = (), *, changes: bool = False, hashed: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.draw = -1
        self.full: list[int] = []
        self._wrong_in, self._changes, self._hashed = wrong_in, changes, hashed

    def initialize(self) -> None:
        self.draw = (self.draw + 1) % 3
        self.kind = "special words" if self.draw == 1 else "whole numbers"

    def digests(self) -> tuple[int, ...]:
        is_wrong = len(self.runs) in (*self._wrong_in, *self._hashed)
        return (self.draw, int(is_wrong))

    def wrong(self, number: int) -> Wrong | None:
        self.full.append(number)
        is_special = self._changes and self.kind in self.special
        if not is_special and len(self.runs) not in self._wrong_in:
            return None
        return Wrong(rank=1, element=7, number=number, values=self.kind, expected=4, found=5)


def _soaked(program: Soaking, seconds: float = 2.0, others: Sequence[float] = ()) -> Soaked:
    def gathered(values: Sequence[float]) -> Sequence[Sequence[float]]:
        return [values, *([one] for one in others)]

    return Soak(program, BYTES, program.now_s, gathered).run(seconds, LAUNCH)


def test_each_input_s_first_result_is_compared_in_full_and_later_ones_by_their_hashes() -> None:
    program = Soaking()
    found = _soaked(program)
    assert found.wrong is None
    assert found.rounds > 1500
    assert found.compared_bytes == found.rounds * BYTES
    # One to see whether special words come back unchanged.
    assert len(program.full) == 1 + 3
    assert len(program.runs) == found.rounds + 1


def test_it_takes_as_long_as_asked_and_a_batch_more() -> None:
    assert 2.0 <= _soaked(Soaking()).seconds < 2.5
    assert _soaked(Soaking(), seconds=1e-6).rounds == 1


def test_special_words_that_do_not_come_back_are_left_out_and_are_no_failure() -> None:
    program = Soaking(changes=True)
    found = _soaked(program)
    assert (found.left_out, found.wrong) == (("special words",), None)
    assert program.kind == "whole numbers"


@pytest.mark.parametrize(("wrong_in", "again"), [([900], 0), (range(900, 10000), AGAIN)])
def test_a_wrong_word_ends_it_after_its_input_has_been_asked_for_again(
    wrong_in: Sequence[int], again: int
) -> None:
    found = _soaked(Soaking(wrong_in), seconds=100.0)
    assert found.wrong is not None
    assert (found.wrong.number, found.wrong.element, found.wrong.bits) == (899, 7, (0,))
    assert (found.wrong.again, found.wrong.asked) == (again, AGAIN)


def test_what_another_process_finds_wrong_ends_it_here_with_nothing_wrong() -> None:
    found = _soaked(Soaking(), seconds=100.0, others=[1.0])
    assert found.wrong is None
    assert found.rounds == 1


def test_a_hash_that_differs_though_every_word_is_right_is_wrong_too() -> None:
    with pytest.raises(MeasuringError, match="every word is right, and yet the hashes of ranks"):
        _soaked(Soaking(hashed=[500]), seconds=100.0)
