"""The interface between measuring and a framework.

Errors of a framework end here: a back end raises MeasuringError for every error that it expects.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Proof
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import Detection, FailureKind
from busbw.worker import process

# Sends the values of this process to all processes of its group, and returns those of each process.
AllGather = Callable[[Sequence[float]], Sequence[Sequence[float]]]


def single_process_gather(values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Return the values of the only process."""
    return (tuple(values),)


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """A collective on one device, as a profiler timed it.

    `instruction` is the name of the instruction that began it, "" if the recording does not name
    it. `start_s` can be compared only with other collectives of the same device.
    """

    device: int
    instruction: str
    start_s: float
    duration_s: float


# Takes `Program.timed`, and returns each collective of the recording that it names. Raises
# MeasuringError if there is no recording that can be read.
Reader = Callable[[Mapping[str, str]], Sequence[TimedCollective]]


class MeasuringError(Exception):
    """The reason why a case cannot be measured, with the kind of its Failure.

    Bytes are given for OUT_OF_MEMORY if the framework names them or if it was `predicted` from
    them. `capacity_bytes` would be available on an idle machine, and `process_bytes` is the size of
    the worker's process without the case.
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
        predicted: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self._capacity_bytes = capacity_bytes
        self._process_bytes = process_bytes
        self._detection = Detection.PREDICTED if predicted else Detection.RAISED

    def failure(self, launch: LaunchId) -> Failure:
        """Return the Failure of a launch, without secrets."""
        return Failure(
            kind=self.kind,
            message=process.public(str(self)),
            launch=launch,
            detected=self._detection if self.kind is FailureKind.OUT_OF_MEMORY else None,
            needed_bytes=self.needed_bytes,
            available_bytes=self.available_bytes,
            capacity_bytes=self._capacity_bytes,
            process_bytes=self._process_bytes,
        )


unavailable = partial(MeasuringError, FailureKind.UNAVAILABLE)
wrong_world = partial(MeasuringError, FailureKind.WRONG_WORLD)
not_a_collective = partial(MeasuringError, FailureKind.NOT_A_COLLECTIVE)
wrong_result = partial(MeasuringError, FailureKind.WRONG_RESULT)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if there is no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@dataclass(frozen=True)
class MemoryNeed:
    """The bytes of host memory that a case takes.

    `reuses_kept`: memory that earlier cases left allocated is used first. `is_taken` is False if
    the memory is only simulated.
    """

    needed_bytes: int
    reuses_kept: bool = False
    is_taken: bool = True


class Program(ABC):
    """A case, compiled and proved.

    The number of iterations is a multiple of `step`. Beyond `most_iterations` the values would not
    be exact. `shortest` is the shortest chain that does everything that a call does beside its
    collectives: 0 if an empty call does so.
    """

    compile_s: float
    proof: Proof
    step: int
    most_iterations: int
    shortest: int = 0
    # The names of the instructions that begin and end each collective, as profilers show them.
    timed: Mapping[str, str] = MappingProxyType({})
    # The compiler's figure for one rank's part of the program, with arguments; None if unknown.
    compiled_memory_bytes: int | None = None
    # Whether calls do the injected work, if there is any.
    is_injecting: bool = True
    # The extra values of extensions that are read from first calls with inputs of their own.
    first_calls: Collection[str] = ()

    @abstractmethod
    def initialize(self, first_call: str = "") -> None:
        """Write starting values on every rank, and wait.

        The values differ from the values before, or are the inputs of a first call.
        """

    @abstractmethod
    def run(self, iterations: int) -> None:
        """Run `iterations` collectives in one call, and wait for the result; 0: an empty call."""

    @abstractmethod
    def check(self, iterations: int) -> int:
        """Compare every element on every rank with the exact result; return their number.

        Raises MeasuringError WRONG_RESULT with the first wrong element, or with the number of
        iterations if the program counted another number.
        """

    def read_first_call(self, name: str, iterations: int, all_gather: AllGather) -> object:
        """Read the extra value of an extension from the result of its first call."""
        raise NotImplementedError

    def device_peak_bytes(self) -> int | None:
        """Return the peak memory of one device while this program ran, None if unknown.

        On the CPU it is None, and the host's count is used.
        """
        return None


@dataclass(frozen=True)
class World:
    """The kind of device that a back end uses, how many it can reach, and how many processes."""

    device_kind: str
    ranks: int
    processes: int

    def check(self, case: Case, key: EnvironmentKey) -> None:
        """Raise MeasuringError WRONG_WORLD if `case` was resolved on other devices."""
        is_right = (
            self.device_kind == key.device_kind
            and self.ranks >= case.ranks
            and self.processes == key.processes
        )
        if not is_right:
            raise wrong_world(
                f"{self.ranks} ranks of {self.device_kind} in {self.processes} processes, "
                f"expected {case.ranks} of {key.device_kind} in {key.processes}"
            )


class Backend(ABC):
    """One framework on one class of device; `name` is that of the framework and of its folder."""

    name: str
    framework_path: str
    versions: Mapping[str, str]

    @abstractmethod
    def probe(self) -> Probe:
        """Look for devices, and describe them as the framework does."""

    @abstractmethod
    def world(self) -> World:
        """Ask the framework which devices a case would use now."""

    @abstractmethod
    def memory_need(self, case: Case) -> MemoryNeed | None:
        """Return the host memory that `case` takes; None if devices have their own memory."""

    @abstractmethod
    def prepare(
        self, case: Case, injection: Injection | None = None
    ) -> AbstractContextManager[Program]:
        """Compile and prove `case`. The program's memory is released at the end.

        An `injection` is a delay that the program does in addition to the case. Raises
        MeasuringError.
        """

    @abstractmethod
    def record(self, folder: Path) -> AbstractContextManager[Reader]:
        """Record the block's programs with the framework's profiler, into files in `folder`.

        The Reader can be called after the block.
        """

    def all_gather(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        """Return `values` of every process of the group, in the order of their indices.

        All processes call this method with equally many values, and it returns when the last one
        has called it.
        """
        return single_process_gather(values)

    def now_s(self) -> float:
        """Return the time of the clock, in seconds."""
        return time.perf_counter()
