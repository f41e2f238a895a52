"""What the back ends of real frameworks do alike: devices by class, the host's clock, one program.

Knows none of them: what each calls its devices, errors and programs, its own folder says.
"""

from __future__ import annotations

import contextlib
import gc
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import final

from busbw.model import Case, Clock, Device, DeviceSet, Injection, Probe
from busbw.worker import environ

from .base import AbstractBackend, AbstractProgram, MemoryNeed
from .chain import AbstractChain
from .oom_errors import is_out_of_memory, out_of_memory


class AbstractFramework(AbstractBackend):
    """A framework on `device`, in one process.

    `refusals` are the errors by which it says that a class of device is not there, `errors` those
    of a program, running out of memory among them. `leaves_cycles`: a program is released by the
    garbage collector alone. `keeps_memory`: its allocator keeps what it once had.
    """

    name: str
    refusals: tuple[type[Exception], ...]
    errors: tuple[type[Exception], ...]
    leaves_cycles: bool = False
    keeps_memory: bool = False

    def __init__(self, device: Device | None) -> None:
        self._device = device

    @final
    def now_s(self) -> float:
        """The host's monotonic clock."""
        return time.perf_counter()

    @final
    def sleep(self, seconds: float) -> None:
        """The host's own sleep."""
        time.sleep(seconds)

    @final
    def probe(self) -> Probe:
        """The classes of device that it reaches; for the others its own words why not."""
        wanted = (self._device,) if self._device else tuple(Device)
        devices, missing = [], {}
        for device in wanted:
            try:
                devices.append(self._device_set(device))
            except self.refusals as error:
                missing[device.value] = str(error).strip().splitlines()[0]
        return Probe(
            framework=self.name,
            framework_path=self.framework_path,
            devices=tuple(devices),
            missing=missing,
            versions=self.versions,
            flags=environ.flags(),
        )

    @final
    def memory_need(self, case: Case) -> MemoryNeed | None:
        """On the CPU, as the case's program says."""
        if self._device is not Device.CPU:
            return None
        needed_bytes = self._kind(case).host_bytes(case)
        return MemoryNeed(needed_bytes=needed_bytes, reuses_kept=self.keeps_memory)

    @final
    @contextlib.contextmanager
    def prepared(self, case: Case, injection: Injection | None = None) -> Iterator[AbstractProgram]:
        """The compiled and proved program of `case`.

        Errors of running out of memory are ours; any other ends the worker, with its stack.
        """
        try:
            program = self._program(case, injection)
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

    @abstractmethod
    def _device_set(self, device: Device) -> DeviceSet:
        """All devices of one class. Raises one of `refusals` where there are none."""

    @abstractmethod
    def _kind(self, case: Case) -> type[AbstractChain]:
        """Which of its programs measures the workload of `case`."""

    @abstractmethod
    def _program(self, case: Case, injection: Injection | None) -> AbstractChain:
        """The program of `case`, which does the injected work beside it. Raises MeasuringError."""


def clocks(device: Device, *, recorded: bool) -> tuple[Clock, ...]:
    """The clocks on `device`, the default first; its own only where all can be `recorded`.

    A CPU's trace shows its threads' view; an accelerator's is the truest clock there is.
    """
    of_host = (Clock.HOST, Clock.DISPATCH)
    of_device = (Clock.DEVICE,) if recorded else ()
    return of_host + of_device if device is Device.CPU else of_device + of_host
