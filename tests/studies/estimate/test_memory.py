"""Bytes per parameter, as "placement的估计" and the ZeRO paper count them."""

from __future__ import annotations

import pytest

from busbw.studies.estimate.models import Optimizer, Precision, bytes_per_parameter


def test_estimating_placement_adam_in_float32_keeps_4_and_4_and_8_bytes_which_is_16() -> None:
    kept = bytes_per_parameter(Optimizer.ADAM, Precision.FLOAT32)
    assert (kept.weights, kept.gradients, kept.state) == (4, 4, 8)
    assert kept.total == 16


def test_estimating_placement_float16_has_2_bytes_of_weights_and_2_of_gradients() -> None:
    kept = bytes_per_parameter(Optimizer.ADAM, Precision.MIXED)
    assert (kept.weights, kept.gradients) == (2, 2)
    assert (kept.copy, kept.state) == (4, 8)
    assert kept.total == 16


@pytest.mark.parametrize(
    ("optimizer", "precision", "total"),
    [
        (Optimizer.SGD, Precision.FLOAT32, 8),
        (Optimizer.MOMENTUM, Precision.FLOAT32, 12),
        (Optimizer.SGD, Precision.MIXED, 8),
        (Optimizer.MOMENTUM, Precision.MIXED, 12),
        (Optimizer.SGD, Precision.HALF, 4),
        (Optimizer.MOMENTUM, Precision.HALF, 6),
        (Optimizer.ADAM, Precision.HALF, 8),
    ],
)
def test_other_optimizers_keep_less(optimizer: Optimizer, precision: Precision, total: int) -> None:
    assert bytes_per_parameter(optimizer, precision).total == total
