"""A back end of a real framework: devices, groups of processes, memory, errors, versions.

Knows no particular framework.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import platform
import re
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar, final

from busbw.model.case import Case
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Injection
from busbw.model.machine import DeviceSet, Probe
from busbw.model.words import Clock, Device
from busbw.worker import host, process

from .base import (
    Backend,
    MemoryNeed,
    Program,
    World,
    first_line,
    single_process_gather,
    unavailable,
)
from .chain import Chain
from .out_of_memory import is_out_of_memory, out_of_memory

ChainT = TypeVar("ChainT", bound=Chain)


class FrameworkBackend(Backend):
    """A framework on `device`, in one process or as a `member` of a group of processes.

    `missing_errors` are raised by the framework if a class of device is missing, `errors` by its
    programs, also if memory runs out. `leaves_cycles`: only the garbage collector releases a
    program. `keeps_memory`: the allocator never returns memory.
    """

    missing_errors: tuple[type[Exception], ...]
    errors: tuple[type[Exception], ...]
    leaves_cycles: bool = False
    keeps_memory: bool = False

    def __init__(self, device: Device | None, member: ClusterMember | None = None) -> None:
        self.device = device
        self._member = member
        self._processes = member.count if member else 1

    @final
    def all_gather(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        if self._member is None:
            return single_process_gather(values)
        count = len(values)
        words = struct.unpack(f"{2 * count}I", struct.pack(f"{count}d", *values))
        rows = self._gather_words(words)
        return tuple(struct.unpack(f"{count}d", struct.pack(f"{2 * count}I", *row)) for row in rows)

    @final
    def slowest_s(self, seconds: float) -> float:
        """Return the longest of the times of all processes."""
        return max(row[0] for row in self.all_gather([seconds]))

    @final
    def probe(self) -> Probe:
        classes = (self.device,) if self.device else tuple(Device)
        device_sets, missing = [], {}
        for device in classes:
            try:
                device_sets.append(self._device_set(device))
            except self.missing_errors as error:
                missing[device.value] = process.public(first_line(error))
        return Probe(
            framework=self.name,
            framework_path=self.framework_path,
            devices=tuple(device_sets),
            missing=missing,
            versions=self.versions,
            flags={**process.flags(), **host.quota_flags()},
            hosts=(host.name(),),
        )

    @final
    def world(self) -> World:
        assert self.device is not None
        devices = self._device_set(self.device)
        return World(
            device_kind=devices.device_kind, ranks=devices.ranks, processes=devices.processes
        )

    @final
    def memory_need(self, case: Case) -> MemoryNeed | None:
        if self.device is not Device.CPU:
            return None
        needed_bytes = self._host_bytes(case) // self._processes
        return MemoryNeed(needed_bytes=needed_bytes, reuses_kept=self.keeps_memory)

    @final
    def prepare(
        self, case: Case, injection: Injection | None = None
    ) -> AbstractContextManager[Program]:
        return self.hold(partial(self._program, case, injection))

    @final
    @contextlib.contextmanager
    def hold(self, make: Callable[[], ChainT]) -> Iterator[ChainT]:
        """Make a program, and release its memory at the end.

        An error that says that memory ran out becomes a MeasuringError. Any other error ends the
        worker with its stack.
        """
        try:
            program = make()
            try:
                yield program
            finally:
                program.release()
                del program
                if self.leaves_cycles:
                    gc.collect()
        except self.errors as error:
            if not is_out_of_memory(error):
                raise
            raise out_of_memory(error) from error

    def _gather_words(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        raise unavailable(f"{self.name} measures in one process only")

    @abstractmethod
    def _device_set(self, device: Device) -> DeviceSet:
        """Return all devices of a class. Raises one of `missing_errors` if there are none."""

    @abstractmethod
    def _host_bytes(self, case: Case) -> int:
        """Return the peak of the host memory that all ranks of `case` take together."""

    @abstractmethod
    def _program(self, case: Case, injection: Injection | None) -> Chain:
        """Compile and prove `case`, with the injected work. Raises MeasuringError."""


def clocks(device: Device, *, is_recorded: bool) -> tuple[Clock, ...]:
    """Return the clocks of a device, the default first.

    A profiler times a collective best on an accelerator. On a CPU it times its threads.
    """
    host_clocks = (Clock.HOST, Clock.DISPATCH)
    device_clocks = (Clock.DEVICE,) if is_recorded else ()
    is_host_first = device is Device.CPU
    return host_clocks + device_clocks if is_host_first else device_clocks + host_clocks


def package_versions(*names: str, **versions: str) -> dict[str, str]:
    """Return the versions of Python, of numpy and of those packages of `names` that are installed.

    `versions` are added.
    """
    installed = {"python": platform.python_version()}
    for name in ("numpy", *names):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed | versions


def check_version(framework: str, version: str, oldest: str) -> None:
    """Raise MeasuringError UNAVAILABLE if `version` is older than `oldest`."""
    if is_older(version, oldest):
        raise unavailable(f"{framework} {version} is too old: expected {oldest} or newer")


def is_older(version: str, other: str) -> bool:
    """Return whether `version` is older than `other`; a pre-release counts as its release."""
    return _numbers(version) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()
