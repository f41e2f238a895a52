"""The interface between the code that measures and the back end of a framework.

If a framework raises an error that the back end expects, such as a lack of memory, the back end
raises a MeasuringError instead.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Proof
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import FailureKind, OutOfMemoryDetection

# A function that exchanges values between the processes of a group. Each process passes the same
# number of values, and gets the values of each process, in the order of the processes' indices.
AllGather = Callable[[Sequence[float]], Sequence[Sequence[float]]]


def single_process_gather(values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Return `values` as the only row: the AllGather of a single process, without any exchange."""
    return (tuple(values),)


def slowest_process_time_s(all_gather: AllGather, seconds: float) -> float:
    """Return the time of the slowest process of a group: the largest `seconds` of all processes.

    All processes of the group call this function at the same point, each with its own time, and
    get the same result. `all_gather` exchanges the times.
    """
    return max(row[0] for row in all_gather([seconds]))


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """A single run of a collective on a device, with its times in a profiler's recording.

    Attributes:
        device: The index of the device.
        instruction: The name of the instruction of the compiled program that began the collective;
            empty if the recording does not name the instruction.
        start_s: The time at which the collective began. The time can be compared only with the
            starts of collectives on the same device.
        duration_s: The time from the start to the end of the collective.

    """

    device: int
    instruction: str
    start_s: float
    duration_s: float


# A function that reads a recording of the profiler. The function is called with
# `Program.end_by_begin_instruction`, and returns each collective that these instructions begin and
# end. The function raises MeasuringError if no recording can be read.
RecordingReader = Callable[[Mapping[str, str]], Sequence[TimedCollective]]


class MeasuringError(Exception):
    """An error that says why a case cannot be measured, and that the driver gets as a Failure.

    The arguments after `message` are only for the kind OUT_OF_MEMORY. A size is None if it is
    unknown.

    Args:
        kind: the kind of the Failure.
        message: the reason, for the user.
        needed_bytes: the memory that the case needs.
        available_bytes: the memory that was free.
        capacity_bytes: the memory that would be free if no other process used memory.
        process_bytes: the memory of the worker's process without the case.
        is_predicted: whether busbw predicted the lack of memory; otherwise the framework
            reported the lack.

    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        needed_bytes: int | None = None,
        available_bytes: int | None = None,
        capacity_bytes: int | None = None,
        process_bytes: int | None = None,
        is_predicted: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        detection = OutOfMemoryDetection.PREDICTED if is_predicted else OutOfMemoryDetection.RAISED
        self._failure = Failure(
            kind=kind,
            message=message,
            detected=detection if kind is FailureKind.OUT_OF_MEMORY else None,
            needed_bytes=needed_bytes,
            available_bytes=available_bytes,
            capacity_bytes=capacity_bytes,
            process_bytes=process_bytes,
        )

    def to_failure(self, launch: LaunchId) -> Failure:
        """Return this error as a Failure of the launch with the id `launch`, without secrets."""
        return replace(self._failure, launch=launch, message=remove_secrets(str(self)))


# Each of these functions makes a MeasuringError of its kind from a message.
unavailable = partial(MeasuringError, FailureKind.UNAVAILABLE)
wrong_world = partial(MeasuringError, FailureKind.WRONG_WORLD)
not_a_collective = partial(MeasuringError, FailureKind.NOT_A_COLLECTIVE)
wrong_result = partial(MeasuringError, FailureKind.WRONG_RESULT)


def remove_secrets(text: str) -> str:
    """Return `text` without secrets and home directories, so that the text can be published."""
    return variables.without_secrets(text, os.environ, os.path.expanduser("~"))


def recorded_variables() -> dict[str, str]:
    """Return the environment variables that busbw records with its results, by name.

    Secrets and home directories are removed from the values.
    """
    return variables.recorded_variables(os.environ, os.path.expanduser("~"))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the error's type if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@dataclass(frozen=True)
class MemoryNeed:
    """The memory of the host that a case needs in a process.

    Attributes:
        needed_bytes: The size of the memory.
        reuses_kept_memory: Whether the case first uses the memory that earlier cases of the process
            left allocated.
        is_real: Whether the case takes the memory. False for a simulated case, which takes none.

    """

    needed_bytes: int
    reuses_kept_memory: bool = False
    is_real: bool = True


class Program(ABC):
    """The compiled program of a case, which is proved to contain the collective of the case.

    A call of the program runs a chain: several iterations of the collective, one after the other,
    in a loop. The number of iterations in a call is a multiple of `iterations_per_turn`.

    Attributes:
        compile_s: The seconds that compiling took.
        iterations_per_turn: The number of iterations in each turn of the loop.
        max_iterations: The largest number of iterations in a call. More iterations would not give
            exact values.
        shortest_chain_iterations: The number of iterations of the chain whose time shows the cost
            of a call. 0 is an empty call. More than 0 if an empty call lacks a cost that longer
            chains have.
        end_by_begin_instruction: Maps the name of the instruction that begins a collective to the
            name of the instruction that ends this collective. Profilers show these names.
        compiled_memory_bytes: The memory of a rank's part of the program and its arguments, as the
            compiler reports it; None if unknown.
        is_injecting: Whether calls do the injected work, if the program has injected work. The
            caller sets this attribute.
        first_calls: The names of the extra values of extensions for which a first call of the
            program has special inputs.

    """

    compile_s: float
    proof: Proof
    iterations_per_turn: int
    max_iterations: int
    shortest_chain_iterations: int = 0
    end_by_begin_instruction: Mapping[str, str] = MappingProxyType({})
    compiled_memory_bytes: int | None = None
    is_injecting: bool = True
    first_calls: Collection[str] = ()

    @abstractmethod
    def initialize_values(self, first_call_name: str = "") -> None:
        """Write starting values on every rank of this process, and wait until they are written.

        The values differ from the previous starting values, so that the result of an earlier call
        is noticed.

        An extension can compute a value from the result of a call with special inputs. If
        `first_call_name` is the name of such a value (one of `first_calls`), the special inputs are
        written in place of starting values. Then make a call, and get the value from
        `read_first_call_value`.
        """

    @abstractmethod
    def run(self, iterations: int) -> None:
        """Run a chain of `iterations` collectives in a single call, and wait for the result.

        If `iterations` is 0, the call is empty: it runs no collective.
        """

    @abstractmethod
    def check_result(self, iterations: int) -> int:
        """Compare the result of the last call with the exact result after `iterations` iterations.

        All elements on the ranks of this process are compared. Returns the number of compared
        elements. Raises MeasuringError WRONG_RESULT with the first wrong element, or if the program
        ran another number of iterations.
        """

    def read_first_call_value(self, name: str, iterations: int, all_gather: AllGather) -> object:
        """Return the value `name` of an extension, read from the result of the last call.

        That call must be the first call after `initialize_values(name)`, which wrote the inputs for
        this value.

        Args:
            name: the name of the value, one of `first_calls`.
            iterations: the number of iterations in that call.
            all_gather: exchanges values with the other processes of the group.

        """
        raise NotImplementedError

    def device_peak_bytes(self) -> int | None:
        """Return the most memory of a device that was in use while this program ran, in bytes.

        None if the number is unknown, or on the CPU, whose memory is the memory of the host.
        """
        return None


def check_devices(actual_key: EnvironmentKey, case: Case, expected_key: EnvironmentKey) -> None:
    """Raise MeasuringError WRONG_WORLD if the present devices do not fit the expected devices.

    The kind of device and the number of processes must be equal, and each rank of `case` must have
    a device.

    Args:
        actual_key: the environment key of the devices that the framework finds now.
        case: the case to measure.
        expected_key: the environment key that the case was requested for.

    """
    is_right = (
        actual_key.device_kind == expected_key.device_kind
        and actual_key.ranks >= case.ranks
        and actual_key.processes == expected_key.processes
    )
    if not is_right:
        raise wrong_world(
            f"{actual_key.ranks} ranks of {actual_key.device_kind} in {actual_key.processes} "
            f"processes, expected {case.ranks} of {expected_key.device_kind} in "
            f"{expected_key.processes}"
        )


class Backend(ABC):
    """The part of a worker that uses a framework on a class of device, such as JAX on GPUs.

    Attributes:
        name: The name of the framework, and of the folder of its back end.
        framework_path: The folder from which the framework was imported.
        versions: Maps the packages of the framework to their versions.

    """

    name: str
    framework_path: str
    versions: Mapping[str, str]

    @abstractmethod
    def probe(self) -> Probe:
        """Look for devices, and return a description of the devices that the framework finds."""

    @abstractmethod
    def current_environment_key(self) -> EnvironmentKey:
        """Return the environment key of all devices that the framework can use at present."""

    @abstractmethod
    def memory_need(self, case: Case) -> MemoryNeed | None:
        """Return the memory of the host that `case` needs in this process.

        None if the devices have memory of their own.
        """

    @abstractmethod
    def prepare_program(
        self, case: Case, injection: Injection | None = None
    ) -> AbstractContextManager[Program]:
        """Return a context manager that compiles and proves the program of `case`.

        The `with` block gets the Program. The memory of the Program is released at the end of the
        block. `injection` is a loss to cause on purpose, such as a delay after each collective;
        None for no loss. Raises MeasuringError if the case cannot be measured.
        """

    @abstractmethod
    def record_profile(self, folder: Path) -> AbstractContextManager[RecordingReader]:
        """Return a context manager that runs the framework's profiler during its `with` block.

        The recording is written to files in `folder`. The block gets a RecordingReader, which reads
        the recorded collectives. Call the reader after the block, because the recording is complete
        only then.
        """

    def all_gather(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        """Return the `values` of each process of the group, in the order of the processes' indices.

        All processes call this method with the same number of values. The method returns when the
        last process has called it.
        """
        return single_process_gather(values)

    def now_s(self) -> float:
        """Return the present time in seconds, on the clock by which calls are timed."""
        return time.perf_counter()
