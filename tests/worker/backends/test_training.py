"""Reading examples, and sharing them out: the same batches whoever trains."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from busbw.model.training import CNN_BYTES, EXAMPLE_BYTES, EXAMPLE_CLASSES, Net, TrainingRequest
from busbw.model.words import FailureKind
from busbw.worker.backends import training
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.training import DRAWN_SIDE, drawn
from busbw.worker.backends.training import course as course_of
from tests import build
from tests.worker.backends import real

COUNT = 50


@pytest.fixture
def digits(tmp_path: Path) -> TrainingRequest:
    path = real.examples(tmp_path / "examples", COUNT)
    return build.training_request(ranks=2, examples_path=str(path), batch=8, unseen=10)


def _batches(digits: TrainingRequest, epoch: int = 0) -> list[list[bytes]]:
    """Each step's pictures, in order, whoever is shown them."""
    found = course_of(digits).batches(epoch)
    return [[one.tobytes() for share in shares for one in share.inputs] for shares in found]


def test_pixels_are_from_0_to_1_and_the_last_examples_are_kept_unseen(
    digits: TrainingRequest,
) -> None:
    course = course_of(digits)
    rows = np.fromfile(digits.examples_path, dtype=np.uint8).reshape(COUNT, EXAMPLE_BYTES)
    assert course.shown.inputs.shape == (COUNT - 10, 8, 8, 1)
    assert np.array_equal(course.unseen.labels, rows[-10:, -1])
    assert np.array_equal(16 * course.unseen.inputs.reshape(10, 64), rows[-10:, :-1])


def test_batches_are_the_same_for_any_number_of_ranks(digits: TrainingRequest) -> None:
    alone = _batches(replace(digits, ranks=1))
    assert len(alone) == course_of(digits).steps == 5
    assert _batches(digits) == _batches(replace(digits, ranks=4)) == alone


def test_an_epoch_shows_every_example_once_and_the_next_in_another_order(
    digits: TrainingRequest,
) -> None:
    first, second = (
        [one for batch in _batches(digits, epoch) for one in batch] for epoch in (0, 1)
    )
    assert len(set(first)) == COUNT - 10
    assert sorted(first) == sorted(second)
    assert first != second


def test_every_rank_has_as_much_as_the_others(digits: TrainingRequest) -> None:
    for shares in course_of(replace(digits, ranks=4)).batches(0):
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


def _refusal(digits: TrainingRequest) -> str:
    with pytest.raises(MeasuringError) as caught:
        course_of(digits)
    assert caught.value.kind is FailureKind.UNAVAILABLE
    return str(caught.value)


def test_ranks_that_do_not_share_a_batch_out_are_refused(digits: TrainingRequest) -> None:
    assert "8 cannot be shared out evenly to 3 ranks" in _refusal(replace(digits, ranks=3))


@pytest.mark.parametrize(("at", "value"), [(EXAMPLE_BYTES - 1, 10), (3, 17)])
def test_a_label_or_pixel_that_cannot_be_is_refused(
    digits: TrainingRequest, at: int, value: int
) -> None:
    path = Path(digits.examples_path)
    content = bytearray(path.read_bytes())
    content[7 * EXAMPLE_BYTES + at] = value
    path.write_bytes(content)
    assert "is damaged: example 7 has" in _refusal(digits)


def test_a_file_that_was_cut_off_is_refused(digits: TrainingRequest) -> None:
    path = Path(digits.examples_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "3249 bytes are no whole number of examples" in _refusal(digits)


def test_too_few_examples_are_refused(digits: TrainingRequest) -> None:
    assert "has 50 examples: too few" in _refusal(replace(digits, unseen=43))


def test_what_is_no_file_of_examples_is_refused_and_not_waited_for(
    digits: TrainingRequest, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero"), tmp_path / "missing", "a\0b"):
        said = _refusal(replace(digits, examples_path=str(path)))
        assert "the examples cannot be read" in said


TRAINING = build.training_request(ranks=3)
RATE = TRAINING.rate


@pytest.mark.parametrize("net", Net)
def test_starting_values_are_the_same_for_the_same_seed(net: Net) -> None:
    request = build.training_request(net)
    first, again = (training.starting_values(request) for _ in range(2))
    other = training.starting_values(replace(request, seed=1))
    assert training.digest(first) == training.digest(again)
    assert training.digest(first) != training.digest(other)


def test_the_perceptron_has_784_inputs_128_hidden_units_and_10_outputs() -> None:
    values = training.starting_values(build.training_request(Net.PERCEPTRON))
    assert sum(value.size for value in values.values()) == 784 * 128 + 128 + 1280 + 10 + 1


def test_the_gradient_is_that_of_the_net_and_the_counters() -> None:
    values = training.starting_values(TRAINING)
    assert sum(value.nbytes for value in values.values()) == CNN_BYTES + 4
    assert training.GRADIENT_BYTES == CNN_BYTES + 4


def test_one_bit_makes_another_digest() -> None:
    values = training.starting_values(TRAINING)
    before = training.digest(values)
    values["biases"][3] = np.nextafter(np.float32(0), np.float32(1))
    assert training.digest(values) != before


def _counted(*updates: float) -> dict[str, dict[str, Any]]:
    return {
        f"replica {at}": {training.COUNTER: np.float32(RATE * count)}
        for at, count in enumerate(updates)
    }


def test_updates_are_the_counters_value_in_units_of_the_rate() -> None:
    values = training.starting_values(TRAINING)
    for _ in range(1000):
        values[training.COUNTER] += np.float32(RATE)
    assert training.updates({"all": values}, RATE) == 1000
    assert training.updates(_counted(220, 220), RATE) == 220


@pytest.mark.parametrize("seen", [(220, 219), (219 + 2 / 3,) * 2, (220, float("nan"))])
def test_an_update_that_a_copy_or_a_part_of_the_ranks_missed_is_a_wrong_result(
    seen: tuple[float, ...],
) -> None:
    with pytest.raises(
        MeasuringError, match=r"of replica [01] saw .* updates, expected 220"
    ) as one:
        training.updates(_counted(*seen), RATE)
    assert one.value.kind is FailureKind.WRONG_RESULT


def _first(values: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
    start = training.starting_values(TRAINING)
    copies = {"replica 0": _updated(start, gradients), "replica 1": values}
    training.check_first(copies, start, gradients, RATE)


def _updated(start: Mapping[str, Any], gradients: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value - np.float32(RATE) * gradients[name] for name, value in start.items()}


def test_a_first_update_by_two_of_three_ranks_is_a_wrong_result() -> None:
    start = training.starting_values(TRAINING)
    generator = np.random.default_rng(0)
    whole = {
        name: generator.normal(1, 1, value.shape).astype(np.float32)
        for name, value in start.items()
    }
    _first(_updated(start, whole), whole)
    less = {**whole, "biases": whole["biases"] * np.float32(2 / 3)}
    with pytest.raises(MeasuringError, match=r"of biases of replica 1 is wrong by 33\.3%") as one:
        _first(_updated(start, less), whole)
    assert one.value.kind is FailureKind.WRONG_RESULT


def test_a_seed_has_its_digits_and_another_seed_has_others() -> None:
    first, again, other = drawn(50, seed=1), drawn(50, seed=1), drawn(50, seed=2)
    assert all(map(np.array_equal, first, again))
    assert not np.array_equal(first[0], other[0])


def test_digits_are_bytes_in_rows_and_all_ten_are_there() -> None:
    images, labels = drawn(1500, seed=0)
    assert images.shape == (1500, DRAWN_SIDE * DRAWN_SIDE)
    assert images.dtype == np.uint8
    assert set(labels.tolist()) == set(range(EXAMPLE_CLASSES))
    assert images.min() == 0
    assert images.max() == 255


def test_digits_of_a_kind_are_more_alike_than_digits_of_two_kinds() -> None:
    """The nearest mean picture names far more than a guess, and far from all."""
    (shown, labels), (unseen, expected) = drawn(3000, seed=0), drawn(1000, seed=1)
    means = np.stack([shown[labels == digit].mean(0) for digit in range(EXAMPLE_CLASSES)])
    distances = ((unseen[:, None] - means[None]) ** 2).sum(2)
    share = (distances.argmin(1) == expected).mean()
    assert 0.25 < share < 0.95
