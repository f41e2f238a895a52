"""The narrow interface that a framework implements: what measuring needs of it.

Abstract or final, never both. Foreign errors end here: a back end raises MeasuringError and
nothing else for what it expects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Proof
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.soak import Wrong
from busbw.model.words import Detection, FailureKind
from busbw.worker import process


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """A collective on one device, as a profiler timed it.

    `instruction` is the name of the instruction that began it, "" where the recording does not name
    one. `start_s` can be compared only with other collectives of the same device.
    """

    device: int
    instruction: str
    start_s: float
    duration_s: float


# Takes `AbstractProgram.timed`, and returns each collective of the recording that it names. Raises
# MeasuringError where there is no recording that can be read.
Reader = Callable[[Mapping[str, str]], Sequence[TimedCollective]]


class MeasuringError(Exception):
    """Why a case cannot be measured, with the kind of its Failure.

    Bytes belong to OUT_OF_MEMORY, where the framework said them or it was `predicted` from them;
    `capacity_bytes` is what could be had if nothing else used the machine, `process_bytes` what the
    worker's process takes by itself.
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


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of host memory a case takes.

    `reuses_kept`: memory that earlier cases left allocated is used first. `really_taken` is False
    where the need is only simulated.
    """

    needed_bytes: int
    reuses_kept: bool = False
    really_taken: bool = True


class AbstractProgram(ABC):
    """One case, compiled and proved. Iterations come in multiples of `step`.

    Beyond `most_iterations` the values would no longer be exact. `shortest` is the shortest chain
    in which a call does all that it does beyond its collectives: none, where an empty one does.
    Calls do the injected work, if there is any, unless `injecting` was set to False.
    """

    compile_s: float
    proof: Proof
    step: int
    most_iterations: int
    shortest: int = 0
    # The names of the instructions that begin and end each collective, as profilers show them.
    timed: Mapping[str, str] = MappingProxyType({})
    # What the compiler says that one rank's part takes, with arguments; None where it does not.
    compiled_memory_bytes: int | None = None
    injecting: bool = True
    # Of a soak: which input was laid out last, of which kind its values are, and which kinds need
    # not be passed unchanged.
    draw: int = 0
    kind: str = ""
    special: tuple[str, ...] = ()

    @abstractmethod
    def fresh(self) -> None:
        """Lay out starting values on every rank, different from the last ones, and wait for it."""

    @abstractmethod
    def run(self, iterations: int) -> None:
        """`iterations` collectives in one call, and wait for it; with none, an empty call."""

    @abstractmethod
    def check(self, iterations: int) -> int:
        """Compare the result with the exact one, every element on every rank; how many.

        Raises MeasuringError WRONG_RESULT with the first wrong element, or with the number of
        rounds where the program counted another number than it was asked to run.
        """

    def lay_out_inexact(self) -> bool:
        """Lay out numbers whose sum depends on the order; False where there is no such sum."""
        return False

    def signature(self, iterations: int) -> tuple[int, int]:
        """Of the result of these, as `signature.signature` has it."""
        raise unavailable("this program adds up nothing inexact")

    def swap(self) -> None:  # noqa: B027 what is scripted has one input
        """Of a soak: go on with the input that was laid out before this one; they take turns.

        So a result that is still that of the round before is a wrong one.
        """

    def digests(self) -> tuple[int, ...]:
        """Of a soak: hashes of the last result, one for each rank of this process."""
        raise unavailable("this program is not made to be soaked")

    def wrong(self, number: int) -> Wrong | None:
        """Of a soak: the first wrong word of the last result, which is that of round `number`."""
        raise unavailable("this program is not made to be soaked")

    @abstractmethod
    def device_peak_bytes(self) -> int | None:
        """Peak memory of one device while this program ran, where the device itself tells.

        None where it does not; on the CPU the host's own count is taken.
        """


@dataclass(frozen=True)
class World:
    """What a back end runs on: the kind of device, how many it can reach, processes."""

    device_kind: str
    ranks: int
    processes: int

    def check(self, case: Case, key: EnvironmentKey) -> None:
        """Raise MeasuringError WRONG_WORLD where it is not that which `case` was resolved on."""
        right = (
            self.device_kind == key.device_kind
            and self.ranks >= case.ranks
            and self.processes == key.processes
        )
        if not right:
            raise wrong_world(
                f"{self.ranks} ranks of {self.device_kind} in {self.processes} processes, "
                f"expected {case.ranks} of {key.device_kind} in {key.processes}"
            )


class AbstractBackend(ABC):
    """One framework on one class of device; `name` is that of the framework and of its folder."""

    name: str
    framework_path: str
    versions: Mapping[str, str]
    # By how many devices the ranks of programs are moved on, and whether they can be.
    turned: int = 0
    turns: bool = False

    @abstractmethod
    def probe(self) -> Probe:
        """The devices, as the framework reports them."""

    @abstractmethod
    def world(self) -> World:
        """What cases would run on now, asked of the framework itself."""

    @abstractmethod
    def gathered(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        """`values` of every process of the group, in order of their indices.

        All processes call it, with equally many values, and none returns before the last has come.
        """

    @abstractmethod
    def now_s(self) -> float:
        """The clock, in seconds."""

    @abstractmethod
    def memory_need(self, case: Case) -> MemoryNeed | None:
        """Host memory that `case` takes; None where the device has its own memory."""

    @abstractmethod
    def prepared(
        self, case: Case, injection: Injection | None = None, *, soaking: bool = False
    ) -> AbstractContextManager[AbstractProgram]:
        """`case` compiled and proved; its memory is released at the end.

        One for `soaking` starts from whole words. With an `injection` of `delay` its program does
        that in addition to the case. Raises MeasuringError.
        """

    @abstractmethod
    def recording(self, folder: Path) -> AbstractContextManager[Reader]:
        """Record what runs meanwhile with the framework's profiler, into files in `folder`.

        The Reader that it gives can be called after the profiler has stopped.
        """
