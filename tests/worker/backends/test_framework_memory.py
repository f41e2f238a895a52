"""Running out of memory, in words that JAX, XLA and TensorFlow have really used."""

from __future__ import annotations

import pytest

from busbw.model.words import FailureKind
from busbw.worker.backends.framework import is_out_of_memory, out_of_memory

GIB = 2**30


@pytest.mark.parametrize(
    ("words", "needed_bytes", "available_bytes"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory allocating 42949672960 bytes.", 42949672960, None),
        (
            "INTERNAL: Error dispatching computation: Out of memory allocating 1073741824 bytes.",
            GIB,
            None,
        ),
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
            "temporaries (16.00G) exceeds available HBM (15.75G)",
            16 * GIB,
            int(15.75 * GIB),
        ),
        (
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
            16 * GIB,
            None,
        ),
        (
            "OOM when allocating tensor with shape[268435456] and type float on "
            "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
            GIB,
            None,
        ),
        (
            "RESOURCE_EXHAUSTED: Attempting to reserve 16.00G at the bottom of memory. "
            "There are 15.50G free, 0B reserved",
            16 * GIB,
            int(15.5 * GIB),
        ),
    ],
)
def test_figures_are_read_from_the_framework_s_own_words(
    words: str, needed_bytes: int, available_bytes: int | None
) -> None:
    found = out_of_memory(RuntimeError(words))

    assert is_out_of_memory(RuntimeError(words))
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert (needed_bytes, available_bytes) == (found.needed_bytes, found.available_bytes)


def test_a_bad_alloc_and_a_memory_error_are_out_of_memory_without_figures() -> None:
    assert is_out_of_memory(RuntimeError("std::bad_alloc"))
    assert is_out_of_memory(MemoryError())
    assert out_of_memory(MemoryError()).needed_bytes is None


def test_any_other_error_is_not() -> None:
    assert not is_out_of_memory(ValueError("INVALID_ARGUMENT: shapes differ"))
