"""The page of parameter servers: medians, ratios, and what is left out where a row is missing."""

from __future__ import annotations

from busbw.model.training import Net, TrainingStrategy
from busbw.studies.parameter_server import Row, parameter_server_page
from tests import build


def row(shape: tuple[int, int], epochs_s: tuple[float, ...], published_s: float) -> Row:
    servers, workers = shape
    return Row(
        training=build.training_request(
            Net.PERCEPTRON,
            strategy=TrainingStrategy.PARAMETER_SERVER if servers else None,
            servers=servers,
            ranks=workers,
        ),
        epoch=str(published_s),
        first="-",
        accuracy="72 %",
        answer=build.training_answer(
            build.training_run(
                epochs_s=epochs_s, accuracy=0.877, versions={"tensorflow": "9.9"}, updates=2000
            ),
            gradients=2000,
            global_step=2000,
            cores=1,
        ),
    )


SINGLE = row((0, 1), (9.0, 1.0, 2.0, 3.0), 1.0)
SERVED = row((1, 1), (9.0, 5.0), 2.5)


def test_an_epoch_is_the_median_after_the_first_and_the_first_where_there_is_no_other() -> None:
    assert SINGLE.epoch_s == 2.0
    assert row((0, 1), (9.0,), 1.0).epoch_s == 9.0


def test_ratios_here_stand_beside_the_published_ones() -> None:
    text = " ".join(" ".join(parameter_server_page([SINGLE, SERVED])).split())
    assert "Measured on Fake CPU (1 core) with tensorflow 9.9" in text
    assert "| 2.00 (1.00-3.00) | 9.00 | 1.0 | 87.7 % | 2000/2000 |" in text
    assert "| 2.5 | - | 2.5 | 72 % | 5.00 (5.00-5.00) | 9.00 | 2.5 |" in text
