"""A soak of TensorFlow's all-reduce."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from busbw.model.case import Case
from busbw.worker.backends.tensorflow.backend import TensorflowBackend
from busbw.worker.backends.tensorflow.program import TensorflowProgram

from .worker_words import ChainProgram, Words


@contextlib.contextmanager
def program_of(backend: TensorflowBackend, case: Case) -> Iterator[ChainProgram]:
    """Compile and prove a case. Raises MeasuringError."""
    with backend.hold_program(
        lambda: TensorflowProgram(case, backend.strategy_of(case), Words)
    ) as chain:
        yield ChainProgram(chain)
