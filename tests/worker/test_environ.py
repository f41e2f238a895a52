"""What stands in a worker's environment before its framework starts."""

from __future__ import annotations

import os

import pytest

from busbw.model import Capability, Device
from busbw.worker import environ, huge_pages


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A copy of this process's, as it is after the worker has started itself anew."""
    monkeypatch.setattr(os, "environ", {**os.environ, "GLIBC_TUNABLES": huge_pages.TUNABLE})
    return monkeypatch


@pytest.mark.parametrize("capability", Capability)
@pytest.mark.parametrize("framework", ["jax", "tensorflow", "fake"])
def test_products_of_numpy_leave_no_threads_spinning_whatever_the_user_has(
    environment: pytest.MonkeyPatch, framework: str, capability: Capability
) -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "8"
    environ.prepare(framework, Device.CPU, capability)
    assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"


def test_what_a_framework_is_told_is_the_user_s_to_change(environment: pytest.MonkeyPatch) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    environ.prepare("tensorflow", Device.CPU)
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
