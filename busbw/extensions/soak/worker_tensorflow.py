"""A soak of a collective in TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from busbw.model.case import Case
from busbw.worker.backends.tensorflow.backend import TensorflowBackend
from busbw.worker.backends.tensorflow.program import TensorflowProgram

from .worker_values import CompiledProgram, SoakValues


@contextlib.contextmanager
def prepared_program(backend: TensorflowBackend, case: Case) -> Iterator[CompiledProgram]:
    """Yield the compiled program of `case`, after a check that it contains the case's collective.

    Raises MeasuringError if the program cannot be compiled or does not contain the collective.
    """
    with backend.hold_program(
        lambda: TensorflowProgram(case, backend.strategy_of(case), SoakValues)
    ) as chain:
        yield CompiledProgram(chain)
