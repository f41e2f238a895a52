"""The code that frameworks share: chains, probes, errors and versions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from busbw.model.case import Case
from busbw.model.launch import Injection, LaunchId
from busbw.model.machine import DeviceSet
from busbw.model.words import GIB, DeviceClass, FailureKind
from busbw.worker.backends import framework
from busbw.worker.backends.base import MeasuringError, MemoryNeed, RecordingReader
from busbw.worker.backends.framework import ChainProgram, FrameworkBackend
from busbw.worker.backends.out_of_memory import is_out_of_memory, out_of_memory_error
from busbw.worker.backends.values import CaseValues
from tests.helpers import build


class Three(CaseValues):
    """Values of three inputs, where the result must be the number of iterations after the input."""

    draw_count = 3

    def check_results(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
        assert results == {0: 100 * number + iterations}
        return len(results)


class Counter(ChainProgram):
    """Counts turns of two iterations, and can skip some."""

    iterations_per_turn = 2
    max_iterations = 8
    skipped = 0

    def __init__(self) -> None:
        super().__init__(build.case(), Three(build.case(), np.dtype(np.float32)))
        self.initialized: list[int] = []

    def release_memory(self) -> None:
        self.result = None

    def _write_draw(self, draw: int) -> None:
        assert self.result is None
        self.initialized.append(draw)

    def _run_and_count_turns(self, iterations: int) -> tuple[Any, Any]:
        assert self.result is None
        return iterations // 2 - self.skipped, 100 * self.initialized[-1] + iterations

    def results_by_rank(self) -> Mapping[int, Any]:
        return {0: self.result}


def test_each_result_of_a_chain_is_compared_with_the_input_that_was_used_for_it() -> None:
    chain = Counter()
    for _ in range(4):
        chain.initialize_values()
        chain.run(2)
        chain.run(6)
        assert chain.check_result(6) == 1
    assert chain.initialized == [0, 1, 2, 0]


def test_a_chain_that_ran_fewer_iterations_than_requested_is_a_wrong_result() -> None:
    chain = Counter()
    chain.skipped = 1
    chain.initialize_values()
    chain.run(6)
    with pytest.raises(
        MeasuringError, match=r"^the program ran 4 iterations, expected 6$"
    ) as raised:
        chain.check_result(6)
    assert raised.value.kind is FailureKind.WRONG_RESULT


class Refused(Exception):
    """The error of a framework that lacks a device."""


class Small(FrameworkBackend):
    """A framework that has only a CPU."""

    name = "small"
    missing_device_errors = (Refused,)
    program_errors = (OSError, MemoryError)
    framework_path = "here"

    def __init__(self, device: DeviceClass | None) -> None:
        super().__init__(device)
        self.released = 0
        self.versions = {"small": "1"}

    def record_profile(self, folder: Path) -> AbstractContextManager[RecordingReader]:
        raise NotImplementedError

    def _describe_devices(self, device: DeviceClass) -> DeviceSet:
        if device is not DeviceClass.CPU:
            raise Refused(f"no {device.value} here\nand so on")
        return build.device_set(device)

    def _needed_host_bytes(self, case: Case) -> int:
        return case.payload_bytes

    def _make_program(
        self, case: Case, injection: Injection | None, values_type: type[CaseValues]
    ) -> ChainProgram:
        backend = self

        class ReleasedCounter(Counter):
            def release_memory(self) -> None:
                backend.released += 1

        return ReleasedCounter()


def test_a_probe_reports_the_devices_and_the_reason_for_each_missing_kind_of_device() -> None:
    probe = Small(None).probe()
    assert [devices.device for devices in probe.devices] == [DeviceClass.CPU]
    assert probe.reason_by_missing_device == {"gpu": "no gpu here", "tpu": "no tpu here"}
    assert Small(DeviceClass.GPU).probe().devices == ()


def test_only_cases_on_the_cpu_need_host_memory() -> None:
    case = build.case(payload_bytes=4096)
    assert Small(DeviceClass.CPU).memory_need(case) == MemoryNeed(needed_bytes=4096)
    assert Small(DeviceClass.GPU).memory_need(case) is None


@pytest.mark.parametrize("error", [OSError("RESOURCE_EXHAUSTED: all"), MemoryError()])
def test_an_out_of_memory_error_of_a_framework_releases_the_program(
    error: Exception,
) -> None:
    backend = Small(DeviceClass.CPU)
    with pytest.raises(MeasuringError) as raised, backend.prepare_program(build.case()):
        raise error
    assert raised.value.kind is FailureKind.OUT_OF_MEMORY
    assert backend.released == 1


def test_an_error_of_a_framework_that_is_no_out_of_memory_error_is_raised_unchanged() -> None:
    assert not is_out_of_memory(ValueError("INVALID_ARGUMENT: shapes differ"))
    backend = Small(DeviceClass.CPU)
    with pytest.raises(OSError, match="broken"), backend.prepare_program(build.case()):
        raise OSError("broken")
    assert backend.released == 1


@pytest.mark.parametrize(
    ("words", "needed_bytes", "available_bytes"),
    [
        ("std::bad_alloc", None, None),
        ("RESOURCE_EXHAUSTED: Out of memory allocating 42949672960 bytes.", 40 * GIB, None),
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
def test_needed_and_available_bytes_are_read_from_the_out_of_memory_message_of_a_framework(
    words: str, needed_bytes: int | None, available_bytes: int | None
) -> None:
    error = out_of_memory_error(RuntimeError(words))
    assert is_out_of_memory(RuntimeError(words))
    failure = error.to_failure(LaunchId(name="1"))
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert (needed_bytes, available_bytes) == (failure.needed_bytes, failure.available_bytes)


@pytest.mark.parametrize(
    ("version", "other"),
    [
        *((older, "0.5.0") for older in ("0.4.38", "0.4.5", "0.3.25", "0.4.9.dev1")),
        *(("0.5.0", newer) for newer in ("0.5.3", "0.10.2", "1.0.dev20270101")),
        *(("2.9.3", "2.16"), ("2.15.1", "2.16"), ("1", "2.0")),
    ],
)
def test_versions_of_frameworks_are_compared_number_by_number(version: str, other: str) -> None:
    assert framework.is_older(version, other)
    assert not framework.is_older(other, version)


@pytest.mark.parametrize(
    "version", ["2.16", "2.16.0", "2.16.0rc1", "2.16.dev20240101+cpu", "2.17.1"]
)
def test_a_pre_release_of_a_framework_counts_as_its_release(version: str) -> None:
    framework.check_version("tensorflow", version, "2.16")
