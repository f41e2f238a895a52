"""The common part of the back ends and programs of all real frameworks.

Back ends have in common how they handle devices, memory, errors and versions. A program runs a
chain of collectives with exact values: the chain begins with the next draw, the program counts the
turns of its loop, and the result is compared with the exact result. A draw is a set of starting
values for all ranks; the module `values` makes draws and exact results. This module imports no
framework.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import platform
import re
import struct
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.machine import DeviceSet, EnvironmentKey, GroupMember, Probe
from busbw.model.words import Clock, DeviceClass
from busbw.worker import host

from .base import (
    AllGather,
    Backend,
    MemoryNeed,
    Program,
    first_line,
    recorded_variables,
    remove_secrets,
    single_process_gather,
    unavailable,
    wrong_result,
)
from .out_of_memory import is_out_of_memory, out_of_memory_error
from .values import CaseValues


class ChainProgram(Program):
    """The program of a case in a real framework, whose calls run chains with exact values.

    A call runs a chain: several iterations of the collective, one after the other.

    Attributes:
        values: Makes the starting values and the exact results.
        inputs: The starting values in the framework's own type, None before the first draw (a set
            of starting values) is written.
        result: The result of the last call in the framework's own type, None if the program was not
            called since a draw was written.

    """

    def __init__(self, case: Case, values: CaseValues) -> None:
        self._case = case
        self.values = values
        self.first_calls = values.first_call_readers
        self.inputs: Any = None
        self.result: Any = None
        self._draw = -1
        self._turns_run: Any = None

    @final
    def initialize_values(self, first_call_name: str = "") -> None:
        if first_call_name:
            self.write_draw(-1 - [*self.first_calls].index(first_call_name))
            return
        self._draw = (self._draw + 1) % self.values.draw_count
        self.write_draw(self._draw)

    @final
    def read_first_call_value(self, name: str, iterations: int, all_gather: AllGather) -> object:
        rank, result = self._first_rank_result()
        return self.values.first_call_readers[name].read(rank, result, iterations, all_gather)

    @final
    def write_draw(self, draw_number: int) -> None:
        """Write a draw, a set of starting values, on every rank of this process, and wait.

        `draw_number` is the number of the draw. With a negative number, write the inputs of an
        extension for a first call instead, as in `CaseValues.starting_values`.
        """
        self.result = None
        self._write_draw(draw_number)

    @final
    def run(self, iterations: int) -> None:
        self.result = None
        self._turns_run, self.result = self._run_and_count_turns(iterations)

    @final
    def check_result(self, iterations: int) -> int:
        counted = int(self._turns_run) * self.iterations_per_turn
        if counted != iterations:
            raise wrong_result(f"the program ran {counted} iterations, expected {iterations}")
        return self._check_and_count_results(self._draw, iterations)

    def max_chain_iterations(self, max_exact_iterations: int) -> int:
        """Return the largest number of iterations in a call of the program.

        The number is `max_exact_iterations`, up to which values are exact, rounded down to whole
        turns of the loop. The number is 1 if a sample is a single call. Raises MeasuringError
        UNAVAILABLE if no chain that is longer than the shortest chain has exact values.
        """
        if self._case.clock is Clock.DISPATCH:
            return 1
        longest = max_exact_iterations // self.iterations_per_turn * self.iterations_per_turn
        if longest <= self.shortest_chain_iterations:
            raise unavailable(
                f"{self._case.dtype} holds no exact chain of "
                f"{self.shortest_chain_iterations + self.iterations_per_turn} over "
                f"{self._case.group_size} ranks"
            )
        return longest

    @abstractmethod
    def release_memory(self) -> None:
        """Release the memory that the program holds, such as its inputs and results."""

    @abstractmethod
    def results_by_rank(self) -> Mapping[int, Any]:
        """Return the result of the last call on each rank of this process, by the rank's number.

        The result of a rank is a flat array, or another value that can be sliced into arrays.
        """

    @abstractmethod
    def _write_draw(self, draw_number: int) -> None:
        """Write starting values to all ranks of this process, and wait until they are written.

        `draw_number` is the number of the draw (the set of starting values), as in `write_draw`.
        """

    @abstractmethod
    def _run_and_count_turns(self, iterations: int) -> tuple[Any, Any]:
        """Run a chain of `iterations` collectives in a single call, and wait for the result.

        Returns the number of turns that the program's loop counted, and the result on all ranks,
        both in the framework's own types.
        """

    def _first_rank_result(self) -> tuple[int, Any]:
        """Return this process's first rank, and the result of this rank as in `results_by_rank`."""
        return next(iter(self.results_by_rank().items()))

    def _check_and_count_results(self, draw_number: int, iterations: int) -> int:
        """Compare the result on each rank of this process with the exact result of the chain.

        The chain began with the draw with the number `draw_number`, and had `iterations`
        collectives. Returns the number of compared elements. Raises MeasuringError WRONG_RESULT for
        a wrong element.
        """
        return self.values.check_results(draw_number, iterations, self.results_by_rank())


class FrameworkBackend(Backend):
    """The back end of a real framework, in a single process or in a process of a group.

    The argument `member` is this process and its group, None for a single process.

    Attributes:
        device: The class of device to measure; None in a worker that only looks for devices.
        missing_device_errors: The types of errors that the framework raises if it finds no device
            of a class.
        program_errors: The types of errors that programs of the framework raise, including errors
            for a lack of memory.
        leaves_reference_cycles: Whether programs of the framework are in reference cycles, so that
            only the garbage collector releases their memory.
        allocator_keeps_memory: Whether the framework keeps the host memory that it freed, and does
            not return it to the kernel.

    """

    missing_device_errors: tuple[type[Exception], ...]
    program_errors: tuple[type[Exception], ...]
    leaves_reference_cycles: bool = False
    allocator_keeps_memory: bool = False

    def __init__(self, device: DeviceClass | None, member: GroupMember | None = None) -> None:
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
        classes = (self.device,) if self.device else tuple(DeviceClass)
        device_sets, missing = [], {}
        for device in classes:
            try:
                device_sets.append(self._describe_devices(device))
            except self.missing_device_errors as error:
                missing[device.value] = remove_secrets(first_line(error))
        return Probe(
            framework=self.name,
            framework_path=self.framework_path,
            devices=tuple(device_sets),
            reason_by_missing_device=missing,
            versions=self.versions,
            flags={**recorded_variables(), **host.cpu_quota_flags()},
            process_hosts=(host.host_name(),),
        )

    @final
    def current_environment_key(self) -> EnvironmentKey:
        assert self.device is not None
        return self._describe_devices(self.device)

    @final
    def memory_need(self, case: Case) -> MemoryNeed | None:
        if self.device is not DeviceClass.CPU:
            return None
        needed_bytes = self._needed_host_bytes(case) // self._processes
        return MemoryNeed(needed_bytes=needed_bytes, reuses_kept_memory=self.allocator_keeps_memory)

    @final
    @contextlib.contextmanager
    def prepare_program(
        self,
        case: Case,
        injection: Injection | None = None,
        values_type: type[CaseValues] = CaseValues,
    ) -> Iterator[ChainProgram]:
        """Compile and prove the program of `case`, and yield the program to a `with` block.

        Args:
            case: the case.
            injection: a loss to cause on purpose, None for no loss.
            values_type: the class that makes the starting values and the exact results.

        Raises:
            MeasuringError: OUT_OF_MEMORY if memory ran out, while compiling or in the block, or
                another kind if the case cannot be measured. Other errors are not translated.

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
        """Exchange words with the other processes, and return the words of each process.

        `words` are unsigned integers of 32 bits. Each process passes the same number of words. By
        default raise MeasuringError UNAVAILABLE, for a framework without groups of processes.
        """
        raise unavailable(f"{self.name} measures in one process only")

    @abstractmethod
    def _describe_devices(self, device: DeviceClass) -> DeviceSet:
        """Return a description of all devices of the class `device` that the framework finds.

        Raises an error of the types in `missing_device_errors` if the class has no device.
        """

    @abstractmethod
    def _needed_host_bytes(self, case: Case) -> int:
        """Return the most host memory that all ranks of `case` take together, in bytes."""

    @abstractmethod
    def _make_program(
        self, case: Case, injection: Injection | None, values_type: type[CaseValues]
    ) -> ChainProgram:
        """Compile and prove the program of `case`, and return the program.

        `injection` is a loss to cause on purpose, None for no loss. `values_type` is the class that
        makes the starting values and the exact results. Raises MeasuringError if the case cannot be
        measured.
        """


def usable_clocks(device: DeviceClass, *, has_readable_profiler: bool) -> tuple[Clock, ...]:
    """Return the clocks that can be used on a class of device, the default first.

    `has_readable_profiler` says that busbw can read the recordings of the framework's profiler. On
    accelerators the device's clock is the most accurate. On a CPU the profiler times threads in
    place of the collective, so the host's clock is the default.
    """
    host_clocks = (Clock.HOST, Clock.DISPATCH)
    device_clocks = (Clock.DEVICE,) if has_readable_profiler else ()
    return host_clocks + device_clocks if device is DeviceClass.CPU else device_clocks + host_clocks


def cpu_allocator_setting() -> str:
    """Return the word for this process's allocator of host memory, as it is part of protocols.

    The word is ``hugepages`` if the C library's allocator uses huge pages, otherwise ``malloc``.
    """
    return "hugepages" if variables.has_huge_pages(os.environ) else "malloc"


def package_versions(*names: str, **known_versions: str) -> dict[str, str]:
    """Return the versions of Python, numpy and the packages in `names`, by the package's name.

    Packages that are not installed are left out. `known_versions` maps further packages to their
    versions, which are added to the result.
    """
    installed = {"python": platform.python_version()}
    for name in ("numpy", *names):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed | known_versions


def check_version(framework: str, version: str, oldest_version: str) -> None:
    """Raise MeasuringError UNAVAILABLE if the `version` of a framework is too old for busbw.

    `framework` is its name, for the message, and `oldest_version` the oldest version that works.
    """
    if is_older(version, oldest_version):
        raise unavailable(f"{framework} {version} is too old: expected {oldest_version} or newer")


def is_older(version: str, other_version: str) -> bool:
    """Return whether `version` is older than `other_version`.

    Both versions are texts such as ``2.16.1`` or ``0.5.0rc1``. A pre-release such as ``0.5.0rc1``
    counts as its release.
    """
    return _release_numbers(version) < _release_numbers(other_version)


def _release_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version, such as (2, 16, 1) for ``2.16.1rc0``."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()
