"""What a training step is by its shape, and the all-reduce that it must hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model import Batch, Clock, dense_step
from tests import build


@pytest.mark.parametrize(
    ("inputs", "outputs", "dtype", "payload_bytes"),
    [(1, 512, "float32", 2048), (262144, 1024, "float32", 2**30), (2, 512, "bfloat16", 2048)],
)
def test_the_payload_is_the_gradient_s_bytes(
    inputs: int, outputs: int, dtype: str, payload_bytes: int
) -> None:
    step = build.step(inputs=inputs, outputs=outputs, dtype=dtype)
    assert step.payload_bytes == step.all_reduce.payload_bytes == payload_bytes


def test_its_all_reduce_stands_in_no_loop_and_goes_over_all_ranks() -> None:
    case = build.step(ranks=32).all_reduce
    assert case.clock is Clock.DISPATCH
    assert case.groups == (tuple(range(32)),)


def test_its_name_tells_steps_apart_that_have_one_payload() -> None:
    steps = [build.step(), build.step(rows=32), build.step(batch=Batch.DRAWN)]
    assert len({step.name for step in steps}) == len(steps)
    assert replace(steps[0]).name == "jax.step.given.16.float32.4K"


@pytest.mark.parametrize("payload_bytes", [2048, 2**20, 2**30])
def test_the_step_that_is_timed_for_a_case_has_its_payload_and_ranks(payload_bytes: int) -> None:
    step = dense_step(build.case(payload_bytes=payload_bytes, ranks=8, step="dense"))
    assert (step.payload_bytes, step.ranks, step.outputs) == (payload_bytes, 8, 512)
