"""The delay between the first and the confirming launches of a case that seems slower."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from busbw.judge.policy import POLICIES
from busbw.model.words import DeviceClass
from busbw.session.measure import confirmation_delay_s
from tests.helpers import build


def _resolved(device: DeviceClass, *, paired: bool = False) -> Any:
    return cast(
        Any, SimpleNamespace(policy=POLICIES[device], options=SimpleNamespace(is_paired=paired))
    )


@pytest.mark.parametrize(
    ("resolved", "frameworks", "seconds"),
    [
        (_resolved(DeviceClass.CPU), ["jax"], 60),
        (_resolved(DeviceClass.CPU), ["fake", "tensorflow"], 60),
        (_resolved(DeviceClass.CPU), ["fake"], 0),
        (_resolved(DeviceClass.CPU), [], 0),
        (_resolved(DeviceClass.CPU, paired=True), ["jax"], 0),
        (_resolved(DeviceClass.TPU), ["jax"], 0),
        (_resolved(DeviceClass.GPU), ["jax"], 0),
    ],
)
def test_confirming_launches_begin_after_a_minute_on_a_cpu_unless_stacks_are_interleaved(
    resolved: Any, frameworks: list[str], seconds: float
) -> None:
    slower = [build.spec(framework=name) for name in frameworks]
    assert confirmation_delay_s(resolved, slower) == seconds
