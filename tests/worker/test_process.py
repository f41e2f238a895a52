"""What stands in a worker's environment before its framework starts."""

from __future__ import annotations

import os

import pytest

from busbw.model import Capability, Device
from busbw.worker import huge_pages, process


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A copy of this process's, as it is after the worker has started itself anew."""
    monkeypatch.setattr(os, "environ", {**os.environ, "GLIBC_TUNABLES": huge_pages.TUNABLE})
    return monkeypatch


@pytest.mark.parametrize("capability", Capability)
def test_products_of_numpy_leave_no_threads_spinning_whatever_the_user_has(
    environment: pytest.MonkeyPatch, capability: Capability
) -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "8"
    process.prepare(Device.CPU, capability)
    assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"


def test_on_the_cpu_no_framework_looks_for_another_device(environment: pytest.MonkeyPatch) -> None:
    os.environ["JAX_PLATFORMS"] = "tpu,cpu"
    process.prepare(Device.CPU)
    assert (os.environ["JAX_PLATFORMS"], os.environ["CUDA_VISIBLE_DEVICES"]) == ("cpu", "-1")
