"""What the back ends of real frameworks share: devices, a chain of rounds, versions, memory.

Knows none of them: each one's folder has its own devices, errors and programs. Standard
library only; which values a chain starts with and must end with is in `values`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import math
import platform
import re
import struct
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from busbw.model.case import Case
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Injection
from busbw.model.machine import DeviceSet, Probe
from busbw.model.soak import Wrong
from busbw.model.words import Clock, Device, FailureKind
from busbw.worker import host, process
from busbw.worker.operations import counters

from .base import (
    AbstractBackend,
    AbstractProgram,
    MeasuringError,
    MemoryNeed,
    World,
    unavailable,
    wrong_result,
)

if TYPE_CHECKING:
    from .values import Values

# How JAX, XLA on TPU and GPU, and TensorFlow say that memory ran out.
_WORDS = re.compile(
    r"RESOURCE_EXHAUSTED|ResourceExhausted|[Oo]ut of memory|OOM when allocating|bad_alloc"
)
_NEEDED = (
    re.compile(r"allocat(?:e|ing) (?P<size>\d+) ?bytes"),
    re.compile(r"allocate (?P<size>[\d.]+)(?P<unit>[KMGT])i?B"),
    re.compile(r"total memory required[^(]*\((?P<size>[\d.]+)(?P<unit>[KMGT])\)"),
    re.compile(r"reserve (?P<size>[\d.]+)(?P<unit>[KMGT])"),
    re.compile(r"Used (?P<size>[\d.]+)(?P<unit>[KMGT]) of"),
)
_AVAILABLE = (
    re.compile(r"exceeds available \w+ \((?P<size>[\d.]+)(?P<unit>[KMGT])\)"),
    re.compile(r"Used [\d.]+[KMGT] of (?P<size>[\d.]+)(?P<unit>[KMGT])"),
    re.compile(r"There (?:are|is) (?P<size>[\d.]+)(?P<unit>[KMGT]) free"),
)
_TENSOR = re.compile(r"shape ?\[(?P<shape>[\d,]+)\] and type (?P<type>\w+)")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TYPE_BYTES = {"float": 4, "int32": 4, "half": 2, "bfloat16": 2, "double": 8}


class AbstractFramework(AbstractBackend):
    """A framework on `device`, in one process or as a `member` of a group of them.

    `refusals` are the errors by which it says that a class of device is not there, `errors` those
    of a program, running out of memory among them. `leaves_cycles`: a program is released by the
    garbage collector alone. `keeps_memory`: its allocator keeps what it once had.
    """

    refusals: tuple[type[Exception], ...]
    errors: tuple[type[Exception], ...]
    leaves_cycles: bool = False
    keeps_memory: bool = False

    def __init__(self, device: Device | None, member: ClusterMember | None = None) -> None:
        self.device = device
        self._member = member

    @final
    def gathered(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        if self._member is None:
            return (tuple(values),)
        count = len(values)
        words = struct.unpack(f"{2 * count}I", struct.pack(f"{count}d", *values))
        rows = self._gathered(words)
        return tuple(struct.unpack(f"{count}d", struct.pack(f"{2 * count}I", *row)) for row in rows)

    @final
    def slowest(self, seconds: float) -> float:
        return max(row[0] for row in self.gathered([seconds]))

    @final
    def now_s(self) -> float:
        return time.perf_counter()

    @final
    def probe(self) -> Probe:
        wanted = (self.device,) if self.device else tuple(Device)
        devices, missing = [], {}
        for device in wanted:
            try:
                devices.append(self._device_set(device))
            except self.refusals as error:
                missing[device.value] = process.public(first_line(error))
        return Probe(
            framework=self.name,
            framework_path=self.framework_path,
            devices=tuple(devices),
            missing=missing,
            versions=self.versions,
            flags={**process.flags(), **host.quota_flags()},
            hosts=(host.name(),),
            counts=any(counters.are_there(one.device) for one in devices),
        )

    @final
    def world(self) -> World:
        assert self.device is not None
        found = self._device_set(self.device)
        return World(device_kind=found.device_kind, ranks=found.ranks, processes=found.processes)

    @final
    def memory_need(self, case: Case) -> MemoryNeed | None:
        if self.device is not Device.CPU:
            return None
        processes = self._member.count if self._member else 1
        needed_bytes = self._host_bytes(case) // processes
        return MemoryNeed(needed_bytes=needed_bytes, reuses_kept=self.keeps_memory)

    @final
    @contextlib.contextmanager
    def prepared(
        self, case: Case, injection: Injection | None = None, *, soaking: bool = False
    ) -> Iterator[AbstractProgram]:
        """Errors of running out of memory are ours; any other ends the worker, with its stack."""
        try:
            program = self._soaked(case) if soaking else self._program(case, injection)
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

    def _gathered(self, words: Sequence[int]) -> Sequence[Sequence[int]]:
        raise unavailable(f"{self.name} measures in one process only")

    @abstractmethod
    def _device_set(self, device: Device) -> DeviceSet:
        """All devices of one class. Raises one of `refusals` where there are none."""

    @abstractmethod
    def _host_bytes(self, case: Case) -> int:
        """Peak memory of all ranks of `case` together, where it is the host's."""

    @abstractmethod
    def _program(self, case: Case, injection: Injection | None) -> AbstractChain:
        """The program of `case`, with the injected work. Raises MeasuringError."""

    def _soaked(self, case: Case) -> AbstractChain:
        """The same of whole words, with an input that stays. Raises MeasuringError."""
        raise unavailable(f"{self.name} is not soaked")


def clocks(device: Device, *, recorded: bool) -> tuple[Clock, ...]:
    """The default first. A CPU's trace shows its threads' view; an accelerator's is best."""
    of_host = (Clock.HOST, Clock.DISPATCH)
    of_device = (Clock.DEVICE,) if recorded else ()
    return of_host + of_device if device is Device.CPU else of_device + of_host


class AbstractChain(AbstractProgram):
    """The chain of `case`, whose results must be those of `values`."""

    def __init__(self, case: Case, values: Values) -> None:
        self._case = case
        self._values = values
        self.draw = self._drawn = self._other = -1
        self.special = values.special
        self._result: Any = None
        self._counted: Any = None

    @final
    def fresh(self) -> None:
        self.draw = self._drawn = (self._drawn + 1) % self._values.draws
        self.kind = self._values.kind(self.draw)
        self._result = None
        self._lay_out(self.draw)

    @final
    def lay_out_inexact(self) -> bool:
        if self._values.is_inexact:
            self._result = None
            self._lay_out(self._values.INEXACT)
        return self._values.is_inexact

    @final
    def signature(self, iterations: int) -> tuple[int, int]:
        return self._values.signature(iterations, *self._first_result())

    @final
    def run(self, iterations: int) -> None:
        self._result = None
        self._counted, self._result = self._called(iterations)

    @final
    def check(self, iterations: int) -> int:
        counted = int(self._counted) * self.step
        if counted != iterations:
            raise wrong_result(f"the program ran {counted} rounds, expected {iterations}")
        return self._compared(self.draw, iterations)

    @final
    def swap(self) -> None:
        self.draw, self._other = self._other, self.draw
        self.kind = self._values.kind(self.draw)
        self._result = None
        self._swap()

    @final
    def digests(self) -> tuple[int, ...]:
        return self._digests()

    @final
    def wrong(self, number: int) -> Wrong | None:
        return self._values.wrong(self.draw, number, self._results())

    @final
    @contextlib.contextmanager
    def _compiling(self) -> Iterator[None]:
        begun_s = time.perf_counter()
        yield
        self.compile_s = time.perf_counter() - begun_s

    @abstractmethod
    def release(self) -> None:
        """Release all that takes memory."""

    @abstractmethod
    def _lay_out(self, number: int) -> None:
        """Starting values of draw `number` on every rank, and wait for it."""

    @abstractmethod
    def _called(self, iterations: int) -> tuple[Any, Any]:
        """`iterations` rounds in one call, waited for: turns of `step` counted, and the result."""

    def _swap(self) -> None:
        """Of what is soaked: put starting values aside, and take those that were, if any."""
        raise NotImplementedError

    def _compared(self, number: int, iterations: int) -> int:
        """Compare the result on every rank; how many elements."""
        return self._values.check_all(number, iterations, self._results())

    def _first_result(self) -> tuple[int, Any]:
        """The first rank of this process, and its result."""
        return next(iter(self._results().items()))

    @abstractmethod
    def _results(self) -> Mapping[int, Any]:
        """The result of each rank of this process, flat."""

    def _digests(self) -> tuple[int, ...]:
        """Of what is soaked: a hash of each, in their order."""
        return self._values.digests(self._results())


def check_version(framework: str, found: str, oldest: str) -> None:
    """Raise MeasuringError UNAVAILABLE where the version `found` comes before `oldest`."""
    if is_before(found, oldest):
        raise unavailable(f"{framework} {found} is too old: expected {oldest} or newer")


def package_versions(*names: str, **known: str) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("numpy", *names):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found | known


def is_before(found: str, other: str) -> bool:
    """Whether the version `found` is older than `other`; a pre-release counts as its release."""
    return _numbers(found) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def is_out_of_memory(error: BaseException) -> bool:
    """By its type or its text: JAX reports some as INTERNAL."""
    text = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or bool(_WORDS.search(text))


def out_of_memory(error: BaseException) -> MeasuringError:
    text = str(error)
    return MeasuringError(
        FailureKind.OUT_OF_MEMORY,
        first_line(error),
        needed_bytes=_first(_NEEDED, text) or _tensor_bytes(text),
        available_bytes=_first(_AVAILABLE, text),
    )


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(text)
        if match:
            unit = match.groupdict().get("unit")
            return int(float(match["size"]) * (_UNITS[unit] if unit else 1))
    return None


def _tensor_bytes(text: str) -> int | None:
    match = _TENSOR.search(text)
    if match is None or match["type"] not in _TYPE_BYTES:
        return None
    return math.prod(map(int, match["shape"].split(","))) * _TYPE_BYTES[match["type"]]
