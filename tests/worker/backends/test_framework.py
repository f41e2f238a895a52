"""What back ends of real frameworks share: devices by class, memory, errors, what is released."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.machine import DeviceSet
from busbw.model.training import ClusterMember, Role
from busbw.model.words import Clock, Device, FailureKind
from busbw.worker.backends import load, load_compiler, load_trainer
from busbw.worker.backends.base import MeasuringError, MemoryNeed, Reader
from busbw.worker.backends.framework import AbstractChain, AbstractFramework, clocks
from tests import build

from .test_framework_chain import Counter


class Refused(Exception):
    """How the framework says that something is not there."""


class Small(AbstractFramework):
    """A CPU and nothing else."""

    name = "small"
    refusals = (Refused,)
    errors = (OSError, MemoryError)
    framework_path = "here"

    def __init__(self, device: Device | None) -> None:
        super().__init__(device)
        self.released = 0
        self.versions = {"small": "1"}

    def recording(self, folder: Path) -> AbstractContextManager[Reader]:
        raise NotImplementedError

    def _device_set(self, device: Device) -> DeviceSet:
        if device is not Device.CPU:
            raise Refused(f"no {device.value} here\nand so on")
        return build.device_set(device)

    def _kind(self, case: Case) -> type[AbstractChain]:
        return Counter

    def _program(self, case: Case, injection: Injection | None) -> AbstractChain:
        backend = self

        class Told(Counter):
            def release(self) -> None:
                backend.released += 1

        return Told()


def test_a_probe_has_what_is_there_and_the_first_line_of_why_the_rest_is_not() -> None:
    found = Small(None).probe()
    assert [one.device for one in found.devices] == [Device.CPU]
    assert found.missing == {"gpu": "no gpu here", "tpu": "no tpu here"}
    assert Small(Device.GPU).probe().devices == ()


def test_memory_is_the_program_s_to_say_and_the_host_s_on_the_cpu_alone() -> None:
    case = build.case(payload_bytes=4096)
    assert Small(Device.CPU).memory_need(case) == MemoryNeed(needed_bytes=4096)
    assert Small(Device.GPU).memory_need(case) is None


@pytest.mark.parametrize("error", [OSError("RESOURCE_EXHAUSTED: all"), MemoryError()])
def test_running_out_of_memory_is_an_outcome_and_the_program_is_let_go(error: Exception) -> None:
    backend = Small(Device.CPU)
    with pytest.raises(MeasuringError) as raised, backend.prepared(build.case()):
        raise error
    assert raised.value.kind is FailureKind.OUT_OF_MEMORY
    assert backend.released == 1


def test_any_other_error_stays_what_it_is() -> None:
    backend = Small(Device.CPU)
    with pytest.raises(OSError, match="broken"), backend.prepared(build.case()):
        raise OSError("broken")
    assert backend.released == 1


def test_a_device_has_a_clock_of_its_own_only_where_all_of_it_is_recorded() -> None:
    assert clocks(Device.GPU, recorded=True) == (Clock.DEVICE, Clock.HOST, Clock.DISPATCH)
    assert clocks(Device.CPU, recorded=True) == (Clock.HOST, Clock.DISPATCH, Clock.DEVICE)
    assert clocks(Device.TPU, recorded=False) == (Clock.HOST, Clock.DISPATCH)


@pytest.mark.parametrize("name", ["hlo", "base", "nothing"])
def test_a_folder_that_offers_no_back_end_is_none(name: str) -> None:
    with pytest.raises(ValueError, match="offer no load"):
        load(name, Device.CPU, 2)


def test_each_framework_offers_what_it_can() -> None:
    with pytest.raises(ValueError, match="no load_trainer for 'jax'"):
        load_trainer("jax", ClusterMember(role=Role(task="chief"), addresses={}))
    with pytest.raises(ValueError, match="no load_compiler for 'tensorflow'"):
        load_compiler("tensorflow")
