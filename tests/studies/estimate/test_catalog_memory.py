"""Bytes per parameter, as "placement的估计" and the ZeRO paper count them."""

from __future__ import annotations

import pytest

from busbw.studies.estimate.catalog import memory_by_optimizer


def test_estimating_placement_adam_in_float32_keeps_4_and_4_and_8_bytes_which_is_16() -> None:
    assert memory_by_optimizer("float32")["adam"] == 4 + 4 + 8 == 16


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision_has_2_bytes_of_weights_and_gradients_and_a_float32_copy(
    dtype: str,
) -> None:
    assert memory_by_optimizer(dtype)["adam"] == 2 + 2 + 4 + 8 == 16


@pytest.mark.parametrize(
    ("dtype", "optimizer", "total"),
    [
        ("float32", "sgd", 8),
        ("float32", "momentum", 12),
        ("float16", "sgd", 8),
        ("float16", "momentum", 12),
    ],
)
def test_other_optimizers_keep_less(dtype: str, optimizer: str, total: int) -> None:
    assert memory_by_optimizer(dtype)[optimizer] == total


def test_of_other_types_nothing_is_said() -> None:
    assert memory_by_optimizer("float64") == {}
