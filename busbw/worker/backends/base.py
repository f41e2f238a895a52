"""The interface between the code that measures and the back end of a framework.

A back end raises a MeasuringError in place of each error of its framework that it expects.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Proof
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import FailureKind, OutOfMemoryDetection
from busbw.worker import process

# A function that exchanges values between the processes of a group. Each process passes the same
# number of values, and gets the values of each process, in the order of the processes' indices.
AllGather = Callable[[Sequence[float]], Sequence[Sequence[float]]]


def single_process_gather(values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Return `values` as the values of the only process, in place of an exchange of values."""
    return (tuple(values),)


def slowest_process_s(all_gather: AllGather, seconds: float) -> float:
    """Return the largest of the times that the processes of a group pass as `seconds`.

    All processes of the group call this function at the same point, and get the same result.
    """
    return max(row[0] for row in all_gather([seconds]))


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """A collective on the device with index `device`, as a profiler timed it.

    `instruction` is the name of the instruction that began the collective, empty if the recording
    does not name the instruction. `start_s` can be compared only with the starts of collectives on
    the same device.
    """

    device: int
    instruction: str
    start_s: float
    duration_s: float


# A function that reads a recording of the profiler. It is called with `Program.timed_instructions`,
# and returns each collective that these instructions begin and end. It raises MeasuringError if no
# recording can be read.
RecordingReader = Callable[[Mapping[str, str]], Sequence[TimedCollective]]


class MeasuringError(Exception):
    """The reason why a case cannot be measured.

    `kind` is the kind of the Failure that the error becomes. The other fields are for the kind
    OUT_OF_MEMORY, and a size is None if it is unknown.

    With `is_predicted` busbw predicted the lack of memory; otherwise the framework reported it. The
    case needs `needed_bytes`, and `available_bytes` were free. `capacity_bytes` would be free if no
    other process used memory. `process_bytes` is the size of the worker's process without the case.
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
        """Return this error as the Failure of the launch `launch`, without secrets."""
        return replace(self._failure, launch=launch, message=process.remove_secrets(str(self)))


# Each of these functions makes a MeasuringError of its kind from a message.
unavailable = partial(MeasuringError, FailureKind.UNAVAILABLE)
wrong_world = partial(MeasuringError, FailureKind.WRONG_WORLD)
not_a_collective = partial(MeasuringError, FailureKind.NOT_A_COLLECTIVE)
wrong_result = partial(MeasuringError, FailureKind.WRONG_RESULT)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type without a message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@dataclass(frozen=True)
class MemoryNeed:
    """The host memory that a case needs in a process, in bytes.

    With `reuses_kept_memory` the case first uses the memory that earlier cases left allocated. The
    case takes the memory only if it `is_real`: a simulated case takes none.
    """

    needed_bytes: int
    reuses_kept_memory: bool = False
    is_real: bool = True


class Program(ABC):
    """The program of a case: compiled, and proved to contain the collective of the case.

    A call runs a chain of iterations, in a loop with `iterations_per_turn` iterations in each turn.
    The number of iterations of a call is a multiple of `iterations_per_turn`. It is at most
    `max_iterations`, because more iterations would not give exact values.

    The cost of a call is measured by a chain of `shortest_chain` iterations. It is 0, an empty
    call, unless an empty call lacks a cost of longer chains.
    """

    # The seconds that compiling took.
    compile_s: float
    proof: Proof
    iterations_per_turn: int
    max_iterations: int
    shortest_chain: int = 0
    # Maps the name of the instruction that begins a collective to the name of the instruction that
    # ends it. Profilers show these names.
    timed_instructions: Mapping[str, str] = MappingProxyType({})
    # The memory of a rank's part of the program and its arguments, as the compiler says; None if
    # unknown.
    compiled_memory_bytes: int | None = None
    # Whether calls do the injected work, if the case has injected work.
    is_injecting: bool = True
    # The names of the values of extensions that have inputs of their own for a first call.
    first_calls: Collection[str] = ()

    @abstractmethod
    def initialize_values(self, first_call: str = "") -> None:
        """Write starting values on every rank, and wait until they are written.

        The values differ from the previous starting values, so that a result of an earlier call is
        noticed. If `first_call` is the name of a value of an extension, write the inputs of the
        extension instead: the next call then gives the result from which it reads this value.
        """

    @abstractmethod
    def run(self, iterations: int) -> None:
        """Run `iterations` collectives in a single call, and wait for the result.

        With 0 the call is empty: it runs no collective.
        """

    @abstractmethod
    def check_result(self, iterations: int) -> int:
        """Compare the result of the last call with the exact result after `iterations`.

        All elements on the ranks of this process are compared, and their number is returned. Raises
        MeasuringError WRONG_RESULT with the first wrong element, or if the program ran another
        number of iterations.
        """

    def read_extra_value(self, name: str, iterations: int, all_gather: AllGather) -> object:
        """Return the value `name` of an extension, read from the result of its first call.

        `iterations` is the number of iterations of that call.
        """
        raise NotImplementedError

    def device_peak_bytes(self) -> int | None:
        """Return the peak memory of a device while this program ran, in bytes.

        None if it is unknown, or on the CPU, whose memory is the memory of the host.
        """
        return None


def check_devices(actual_key: EnvironmentKey, case: Case, expected_key: EnvironmentKey) -> None:
    """Raise MeasuringError WRONG_WORLD if the devices found are not the expected devices.

    The kind of device and the number of processes must be equal, and there must be a device for
    each rank of `case`.
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
    """A framework on a class of device, such as JAX on GPUs.

    `name` is the name of the framework and of its folder. `framework_path` is the folder from which
    the framework was imported. `versions` maps its packages to their versions.
    """

    name: str
    framework_path: str
    versions: Mapping[str, str]

    @abstractmethod
    def probe(self) -> Probe:
        """Look for devices, and return a description of the devices that the framework finds."""

    @abstractmethod
    def reachable_devices(self) -> EnvironmentKey:
        """Return the environment key of the devices that a case would use now."""

    @abstractmethod
    def memory_need(self, case: Case) -> MemoryNeed | None:
        """Return the host memory that `case` needs in this process.

        None if its devices have memory of their own.
        """

    @abstractmethod
    def prepare_program(
        self, case: Case, injection: Injection | None = None
    ) -> AbstractContextManager[Program]:
        """Compile and prove the program of `case`, and yield it to a `with` block.

        The memory of the program is released at the end of the block. `injection` is a loss to
        cause on purpose, such as a delay after each collective; None for no loss. Raises
        MeasuringError if the case cannot be measured.
        """

    @abstractmethod
    def record_profile(self, folder: Path) -> AbstractContextManager[RecordingReader]:
        """Record a `with` block with the framework's profiler, into files in `folder`.

        The block binds a RecordingReader, which can be called after the block.
        """

    def all_gather(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        """Return the `values` of each process of the group, in the order of the processes' indices.

        All processes call this method with the same number of values, and it returns when the last
        process has called it.
        """
        return single_process_gather(values)

    def now_s(self) -> float:
        """Return the present time of the clock that times calls, in seconds."""
        return time.perf_counter()
