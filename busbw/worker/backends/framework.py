"""The common part of the back ends of all real frameworks: devices, memory, errors, versions.

This module knows no particular framework.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import platform
import re
import struct
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import final

from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.machine import ClusterMember, DeviceSet, EnvironmentKey, Probe
from busbw.model.words import Clock, Device
from busbw.worker import host, process

from .base import (
    Backend,
    MemoryNeed,
    first_line,
    single_process_gather,
    unavailable,
)
from .chain import Chain
from .out_of_memory import is_out_of_memory, out_of_memory_error
from .values import ExactValues


class FrameworkBackend(Backend):
    """The back end of a real framework, in a single process or in a group of processes.

    `device` is the class of device to measure; None in a worker that only looks for devices.
    `member` is this process and its group, None for a single process. `missing_device_errors` are
    the types of errors that the framework raises if it finds no device of a class. `program_errors`
    are the types of errors that its programs raise, also if memory runs out. If a framework
    `leaves_reference_cycles`, only the garbage collector releases its programs. If its
    `allocator_keeps_memory`, freed memory is never returned to the kernel.
    """

    missing_device_errors: tuple[type[Exception], ...]
    program_errors: tuple[type[Exception], ...]
    leaves_reference_cycles: bool = False
    allocator_keeps_memory: bool = False

    def __init__(self, device: Device | None, member: ClusterMember | None = None) -> None:
        self.device = device
        self._member = member
        self._processes = member.process_count if member else 1

    @final
    def all_gather(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        if self._member is None:
            return single_process_gather(values)
        count = len(values)
        words = struct.unpack(f"{2 * count}I", struct.pack(f"{count}d", *values))
        rows = self._gather_words(words)
        return tuple(struct.unpack(f"{count}d", struct.pack(f"{2 * count}I", *row)) for row in rows)

    @final
    def probe(self) -> Probe:
        classes = (self.device,) if self.device else tuple(Device)
        device_sets, missing = [], {}
        for device in classes:
            try:
                device_sets.append(self._find_devices(device))
            except self.missing_device_errors as error:
                missing[device.value] = process.remove_secrets(first_line(error))
        return Probe(
            framework=self.name,
            framework_path=self.framework_path,
            devices=tuple(device_sets),
            missing=missing,
            versions=self.versions,
            flags={**process.recorded_variables(), **host.cpu_quota_flags()},
            hosts=(host.host_name(),),
        )

    @final
    def reachable_devices(self) -> EnvironmentKey:
        assert self.device is not None
        return self._find_devices(self.device)

    @final
    def memory_need(self, case: Case) -> MemoryNeed | None:
        if self.device is not Device.CPU:
            return None
        needed_bytes = self._needed_host_bytes(case) // self._processes
        return MemoryNeed(needed_bytes=needed_bytes, reuses_kept_memory=self.allocator_keeps_memory)

    @final
    @contextlib.contextmanager
    def prepare_program(
        self,
        case: Case,
        injection: Injection | None = None,
        values_type: type[ExactValues] = ExactValues,
    ) -> Iterator[Chain]:
        """Compile and prove the program of `case`, and bind it in a `with` block.

        `values_type` is the class of the starting values and the exact results. If the block or
        compiling raises an error because memory ran out, raises MeasuringError OUT_OF_MEMORY
        instead. Any other error ends the worker.
        """
        try:
            program = self._make_program(case, injection, values_type)
            try:
                yield program
            finally:
                program.release_memory()
                del program
                if self.leaves_reference_cycles:
                    gc.collect()
        except self.program_errors as error:
            if not is_out_of_memory(error):
                raise
            raise out_of_memory_error(error) from error

    def _gather_words(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        """Exchange `words`, which are integers of 32 bits, and return the words of each process.

        By default raise MeasuringError UNAVAILABLE, for a framework without groups of processes.
        """
        raise unavailable(f"{self.name} measures in one process only")

    @abstractmethod
    def _find_devices(self, device: Device) -> DeviceSet:
        """Return all devices of the class `device`.

        Raises an error of the types in `missing_device_errors` if there is no such device.
        """

    @abstractmethod
    def _needed_host_bytes(self, case: Case) -> int:
        """Return the bytes of host memory that all ranks of `case` take together at the peak."""

    @abstractmethod
    def _make_program(
        self, case: Case, injection: Injection | None, values_type: type[ExactValues]
    ) -> Chain:
        """Compile and prove the program of `case`, with the injected work if there is any.

        `values_type` is the class of the starting values and the exact results. Raises
        MeasuringError if the case cannot be measured.
        """


def usable_clocks(device: Device, *, has_readable_profiler: bool) -> tuple[Clock, ...]:
    """Return the clocks that can be used on a device, the default first.

    With `has_readable_profiler` busbw can read the recordings of the framework's profiler. On
    accelerators the device's clock is the most accurate. On a CPU the profiler times threads in
    place of the collective, so the host's clock is the default.
    """
    host_clocks = (Clock.HOST, Clock.DISPATCH)
    device_clocks = (Clock.DEVICE,) if has_readable_profiler else ()
    return host_clocks + device_clocks if device is Device.CPU else device_clocks + host_clocks


def package_versions(*names: str, **versions: str) -> dict[str, str]:
    """Return the versions of Python, numpy and the packages `names`, by the package's name.

    Packages that are not installed are left out. `versions` are added to the result.
    """
    installed = {"python": platform.python_version()}
    for name in ("numpy", *names):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed | versions


def check_version(framework: str, version: str, oldest_version: str) -> None:
    """Raise MeasuringError UNAVAILABLE if `version` is older than `oldest_version`."""
    if is_older(version, oldest_version):
        raise unavailable(f"{framework} {version} is too old: expected {oldest_version} or newer")


def is_older(version: str, other_version: str) -> bool:
    """Return whether `version` is older than `other_version`.

    Both are texts such as ``2.16.1`` or ``0.5.0rc1``; a pre-release is equal to its release.
    """
    return _release_numbers(version) < _release_numbers(other_version)


def _release_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version: (2, 16, 1) for ``2.16.1rc0``."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()
