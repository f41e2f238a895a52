"""Reading examples, and sharing them out: the same batches whoever trains."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from busbw.model.training import EXAMPLE_BYTES, Net, TrainingRequest
from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.training import course as course_of
from tests import build

from .examples import written

COUNT = 50


@pytest.fixture
def training(tmp_path: Path) -> TrainingRequest:
    path = written(tmp_path / "examples", COUNT)
    return build.training_request(ranks=2, examples_path=str(path), batch=8, unseen=10)


def _batches(training: TrainingRequest, epoch: int = 0) -> list[list[bytes]]:
    """Each step's pictures, in order, whoever is shown them."""
    found = course_of(training).batches(epoch)
    return [[one.tobytes() for share in shares for one in share.inputs] for shares in found]


def test_pixels_are_from_0_to_1_and_the_last_examples_are_kept_unseen(
    training: TrainingRequest,
) -> None:
    course = course_of(training)
    rows = np.fromfile(training.examples_path, dtype=np.uint8).reshape(COUNT, EXAMPLE_BYTES)
    assert course.shown.inputs.shape == (COUNT - 10, 8, 8, 1)
    assert np.array_equal(course.unseen.labels, rows[-10:, -1])
    assert np.array_equal(16 * course.unseen.inputs.reshape(10, 64), rows[-10:, :-1])


def test_batches_are_the_same_for_any_number_of_ranks(training: TrainingRequest) -> None:
    alone = _batches(replace(training, ranks=1))
    assert len(alone) == course_of(training).steps == 5
    assert _batches(training) == _batches(replace(training, ranks=4)) == alone


def test_an_epoch_shows_every_example_once_and_the_next_in_another_order(
    training: TrainingRequest,
) -> None:
    first, second = (
        [one for batch in _batches(training, epoch) for one in batch] for epoch in (0, 1)
    )
    assert len(set(first)) == COUNT - 10
    assert sorted(first) == sorted(second)
    assert first != second


def test_every_rank_has_as_much_as_the_others(training: TrainingRequest) -> None:
    for shares in course_of(replace(training, ranks=4)).batches(0):
        assert [len(share.labels) for share in shares] == [2, 2, 2, 2]


def test_what_a_perceptron_learns_from_is_drawn_in_an_order_of_each_ranks_own() -> None:
    course = course_of(build.training_request(Net.PERCEPTRON, ranks=2, examples=300))
    assert (course.steps, len(course.unseen.labels)) == (3, 500)
    orders = []
    for rank in (0, 1, 1):
        batches = course.batches_of(rank)
        orders.append([one.tobytes() for _ in range(3) for one in next(batches).inputs])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1] == orders[2]


def _refusal(training: TrainingRequest) -> str:
    with pytest.raises(MeasuringError) as caught:
        course_of(training)
    assert caught.value.kind is FailureKind.UNAVAILABLE
    return str(caught.value)


def test_ranks_that_do_not_share_a_batch_out_are_refused(training: TrainingRequest) -> None:
    assert "8 cannot be shared out evenly to 3 ranks" in _refusal(replace(training, ranks=3))


@pytest.mark.parametrize(("at", "value"), [(EXAMPLE_BYTES - 1, 10), (3, 17)])
def test_a_label_or_pixel_that_cannot_be_is_refused(
    training: TrainingRequest, at: int, value: int
) -> None:
    path = Path(training.examples_path)
    content = bytearray(path.read_bytes())
    content[7 * EXAMPLE_BYTES + at] = value
    path.write_bytes(content)
    assert "is damaged: example 7 has" in _refusal(training)


def test_a_file_that_was_cut_off_is_refused(training: TrainingRequest) -> None:
    path = Path(training.examples_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "3249 bytes are no whole number of examples" in _refusal(training)


def test_too_few_examples_are_refused(training: TrainingRequest) -> None:
    assert "has 50 examples: too few" in _refusal(replace(training, unseen=43))


def test_a_file_that_is_not_there_is_refused(training: TrainingRequest) -> None:
    assert "cannot be read" in _refusal(
        replace(training, examples_path=training.examples_path + "x")
    )


def test_what_is_no_file_of_examples_is_refused_and_not_waited_for(
    training: TrainingRequest, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero"), tmp_path / "missing", "a\0b"):
        with pytest.raises(MeasuringError, match="the examples cannot be read") as refused:
            course_of(replace(training, examples_path=str(path)))
        assert refused.value.kind is FailureKind.UNAVAILABLE
