"""The back end of the framework `fake`, for tests and demonstrations.

A script in the environment variable BUSBW_FAKE describes the devices and times. Only devices and
times are simulated: processes, pipes, deadlines and memory are real. The script is JSON::

    {"device": "tpu", "device_kind": "TPU v2", "ranks": 8, "latency_s": 1e-5, "gb_per_s": 10,
     "dispatch_s": 1e-4, "clocks": ["device", "host"], "device_slower": 1.0, "events_lost": 0,
     "cases": [{"payload_bytes": 4096, "passes": [2], "slower": 3, "then": "kill"},
               {"dtype": "int32", "then": "wrong_result"}],
     "processes": {"1": {"latency_s": 1e-3}}, "hosts": {"two": {"latency_s": 1e-3}}}

- A collective takes `latency_s` plus the payload divided by `gb_per_s` (10^9 bytes per second), and
  a call costs `dispatch_s` more. On the device's clock a collective takes `device_slower` times as
  long, and the recording lacks the last `events_lost` collectives.
- `cases` is a list of entries that change cases. An entry applies to the cases that have the
  `payload_bytes`, `dtype` and `reduce_op` of the entry, in the rounds that `passes` lists. For a
  case the first entry that applies is used. With `slower` the case takes that many times as long.
- `processes` maps the index of a process in its group to changes of the script for this process.
- `hosts` maps the name of a host to changes of the script for this host. The variable
  BUSBW_FAKE_HOST says on which host a process runs.
- `releases` maps an installed package and its release to changes of the script.
- `versions` are added to the versions of the probe, and `framework_path` is the probe's path.
- `injected_more` is the time that an injected delay takes, divided by the requested time.
- `then` is the fault that a case causes in the worker: kill, segfault, exit, hang, hang_with_lock,
  reply_then_hang, out_of_memory, wrong_result, not_a_collective, other_dtype or unavailable.
  ``"probe": "exit"`` and ``"probe": "hang"`` are faults that the probe causes.
- `extra`, of the script or of an entry of `cases`, maps names of extra values to the values, such
  as ``{"signature": "00000001 ring"}``.
- `hlo` is a file with the HLO of a user's program, and `mesh` has the axes of this program.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.launch import Injection, LaunchId, Proof
from busbw.model.machine import DEFAULT_VIRTUAL_RANKS, DeviceSet, EnvironmentKey, GroupMember, Probe
from busbw.model.words import Clock, DeviceClass, FailureKind
from busbw.worker import host

from ..base import (
    AllGather,
    Backend,
    MeasuringError,
    MemoryNeed,
    Program,
    RecordingReader,
    TimedCollective,
    recorded_variables,
    single_process_gather,
)

SCRIPT_VARIABLE, HOST_VARIABLE = "BUSBW_FAKE", "BUSBW_FAKE_HOST"
# The seconds for which a worker hangs.
_HANG_S = 3600
# As many iterations as a real sum over four ranks allows.
_MAX_ITERATIONS = 126
# The faults of a script that raise a MeasuringError, with its kind and its message.
_RAISED_FAULTS = {
    "out_of_memory": (FailureKind.OUT_OF_MEMORY, "RESOURCE_EXHAUSTED: made up"),
    "wrong_result": (FailureKind.WRONG_RESULT, "rank 1, element 7: 3.0, expected 4.0"),
    "not_a_collective": (
        FailureKind.NOT_A_COLLECTIVE,
        "expected 1 all-reduce, got %made-up(...):\n%made-up = f32[4]{0} made-up(%x), all of it",
    ),
    "other_dtype": (FailureKind.OTHER_DTYPE, "the made-up compiler computes this in float32"),
    "unavailable": (FailureKind.UNAVAILABLE, "no such algorithm here"),
}


def load(device: DeviceClass | None, ranks: int | None, member: GroupMember | None) -> Backend:
    """Read the script that describes the devices and times, and return the back end.

    `device` is the class of device to measure, None for any class. `ranks` is the number of ranks
    of all processes together, None for the default. `member` is this process and its group, None
    for a single process.
    """
    return FakeBackend(device, ranks, member)


class FakeBackend(Backend):
    """A back end whose devices and times are in a script, and whose clock moves only during calls.

    Attributes:
        index: The index of this process in its group, 0 for a single process.
        script: The script, with the changes for this host, its packages and this process.
        elapsed_s: The present time of the simulated clock.
        call_s: The time that a call takes in addition to its collectives.
        recorded_s: A pair of times for each collective since the recording began: the time at which
            the call of the collective began, and the time that the collective took.
        instruction: The name that recordings show for the collective of the current case.

    """

    name = "fake"

    def __init__(
        self, device: DeviceClass | None, ranks: int | None, member: GroupMember | None = None
    ) -> None:
        self._processes, self._hosts = (member.process_count, member.hosts) if member else (1, 1)
        self.index = member.index if member else 0
        self._is_shared = member is not None and member.shared_devices > 0
        self.script = _read_script(self.index)
        self._word_exchange: AllGather | None = None
        if member and member.process_count > 1:
            # A process without a group starts faster without this import.
            from .exchange import FakeAllGather

            self._word_exchange = FakeAllGather(member)
        self._device = device
        self._ranks = ranks
        self.elapsed_s = 0.0
        self.call_s = float(self.script.get("dispatch_s", 0.0))
        self.recorded_s: list[tuple[float, float]] = []
        self.framework_path = self.script.get("framework_path", "made up")
        self.versions = {"fake": "1"} | self.script.get("versions", {})

    def all_gather(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        if self._word_exchange is None:
            return single_process_gather(values)
        return tuple(map(tuple, self._word_exchange(values)))

    def now_s(self) -> float:
        return self.elapsed_s

    def probe(self) -> Probe:
        cause_fault(self.script.get("probe", ""))
        device = DeviceClass(self.script.get("device", "cpu"))
        is_virtual = device is DeviceClass.CPU
        program, _, allocator = self.script.get("protocol", "fake").partition("/")
        devices = DeviceSet(
            device=device,
            device_kind=self.script.get("device_kind", "Fake CPU"),
            ranks=self._device_count,
            any_ranks=is_virtual,
            program=program,
            allocator=allocator,
            strategies={"default": "fake", "fake": "fake"},
            clocks=tuple(Clock(name) for name in self.script.get("clocks", ["host"])),
            cores=host.usable_cores() if is_virtual else None,
            hosts=self._hosts,
            processes=self._processes,
            shared=self._is_shared,
        )
        is_reached = self._device in (None, device)
        return Probe(
            framework="fake",
            framework_path=self.framework_path,
            devices=(devices,) if is_reached else (),
            reason_by_missing_device={}
            if self._device is None
            else {self._device.value: "not in the script"},
            versions=self.versions,
            flags=recorded_variables(),
            process_hosts=(host.host_name(),),
        )

    def current_environment_key(self) -> EnvironmentKey:
        world: dict[str, Any] = self.script.get("world", {})
        return EnvironmentKey(
            device_kind=(self.script | world).get("device_kind", "Fake CPU"),
            ranks=world.get("ranks", self._device_count),
            processes=self._processes,
        )

    @property
    def _device_count(self) -> int:
        """The number of devices of all processes together, as the script says.

        If processes share a device, the number of processes is used instead, as if each process
        had a device.
        """
        if self._is_shared:
            return self._processes
        return int(self.script.get("ranks", self._ranks or DEFAULT_VIRTUAL_RANKS))

    def memory_need(self, case: Case) -> MemoryNeed | None:
        if DeviceClass(self.script.get("device", "cpu")) is not DeviceClass.CPU:
            return None
        return MemoryNeed(needed_bytes=2 * case.ranks * case.payload_bytes, is_real=False)

    @contextlib.contextmanager
    def prepare_program(self, case: Case, injection: Injection | None = None) -> Iterator[Program]:
        line = self.scripted_changes(case)
        cause_fault(line.get("then", ""))
        latency_s = float(self.script.get("latency_s", 1e-5))
        rate = float(self.script.get("gb_per_s", 10.0)) * 1e9
        collective_s = (latency_s + case.payload_bytes / rate) * float(line.get("slower", 1.0))
        injected_s = 0.0
        if injection is not None and injection.share is not None:
            injected_s = injection.delay_s(collective_s)
        # A real delay is not exactly the requested delay, either.
        injected_s *= float(self.script.get("injected_more", 1.0))
        self.instruction = f"{COLLECTIVES[case.collective].hlo_name}.1"
        program = FakeProgram(self, case, collective_s, injected_s)
        program.first_calls = line.get("extra", self.script.get("extra", {}))
        yield program

    @contextlib.contextmanager
    def record_profile(self, folder: Path) -> Iterator[RecordingReader]:
        self.recorded_s = []
        yield self._read_recording

    def _read_recording(self, _: Mapping[str, str]) -> list[TimedCollective]:
        """Return the collectives of each rank of this process since the recording began.

        The script can simulate a profiler that loses events: the last `events_lost` collectives
        are left out. The argument, a mapping of instructions' names, is not used.
        """
        slower = float(self.script.get("device_slower", 1.0))
        events = self.recorded_s[: len(self.recorded_s) - self.script.get("events_lost", 0)]
        local_ranks = self.current_environment_key().ranks // self._processes
        first = local_ranks * self.index
        return [
            TimedCollective(
                rank, self.instruction, begun_s + index * collective_s, slower * collective_s
            )
            for rank in range(first, first + local_ranks)
            for index, (begun_s, collective_s) in enumerate(events)
        ]

    def scripted_changes(self, case: Case) -> dict[str, Any]:
        """Return the changes of a case in this round, such as ``{"slower": 3}``.

        The result is the first entry of the script's list `cases` that applies to the case. The
        result is empty if no entry applies.
        """
        # Outside of rounds, the launch has the round number 0.
        launches = [word for word in sys.argv if word.startswith("--launch=")]
        launch = LaunchId.parse("".join(launches).removeprefix("--launch="))
        properties = {
            "payload_bytes": case.payload_bytes,
            "dtype": case.dtype,
            "reduce_op": case.reduce_op,
        }
        for line in self.script.get("cases", []):
            expected = {name: value for name, value in line.items() if name in properties}
            is_round = launch.round_number in line.get("passes", [launch.round_number])
            if is_round and expected.items() <= properties.items():
                return dict(line)
        return {}


class FakeProgram(Program):
    """A simulated program without values, whose calls only move the clock of the back end.

    The times of successive calls differ a little, as real times do. The series of times begins
    again when the number of iterations changes, so that samples do not depend on earlier calls,
    such as the warm-up.

    Args:
        backend: the back end, whose clock the program moves.
        case: the case.
        collective_s: the time of a collective without a delay, in seconds.
        injected_s: the injected delay after each collective, in seconds; 0 for no delay.

    """

    compile_s = 0.001
    iterations_per_turn = 1
    first_calls: Mapping[str, object] = MappingProxyType({})

    def __init__(
        self, backend: FakeBackend, case: Case, collective_s: float, injected_s: float
    ) -> None:
        self._backend, self._case = backend, case
        self._collective_s, self._injected_s = collective_s, injected_s
        self._repetition = self._length = 0
        self.max_iterations = 1 if case.clock is Clock.DISPATCH else _MAX_ITERATIONS
        self.end_by_begin_instruction = {backend.instruction: backend.instruction}
        self.proof = Proof(collectives={"fake": 1}, payload_copies=0, algorithm="fake")

    def initialize_values(self, first_call_name: str = "") -> None:
        """Do nothing, because the program has no values."""

    def run(self, iterations: int) -> None:
        if iterations:
            self._repetition = self._repetition + 1 if iterations == self._length else 0
            self._length = iterations
        collective_s = self._collective_s
        if self.is_injecting:
            collective_s += self._injected_s
        collective_s *= 1 + 0.01 * (self._repetition * 7 % 4)
        backend = self._backend
        backend.recorded_s += [(backend.elapsed_s, collective_s)] * iterations
        backend.elapsed_s += backend.call_s + sum([collective_s] * iterations)

    def check_result(self, iterations: int) -> int:
        """Compare nothing, and return the number of ranks, as the number of compared elements."""
        return self._case.ranks

    def read_first_call_value(self, name: str, iterations: int, all_gather: AllGather) -> object:
        return self.first_calls[name]


def _read_script(process_index: int) -> dict[str, Any]:
    """Return the script from the environment variable, with the changes that apply here.

    Such changes are for this host, for the releases of installed packages, or for the process with
    the index `process_index` in its group.
    """
    script: dict[str, Any] = json.loads(os.environ.get(SCRIPT_VARIABLE, "{}"))
    changes = script.get("hosts", {}).get(os.environ.get(HOST_VARIABLE, ""), {})
    for package, releases in script.get("releases", {}).items():
        # Only this needs the import, which takes a fifth of the time to start a worker.
        from importlib.metadata import version

        changes |= releases.get(version(package), {})
    return {**script, **changes, **script.get("processes", {}).get(str(process_index), {})}


_FAULTS: Mapping[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "hang": lambda: time.sleep(_HANG_S),
    "hang_with_lock": lambda: ctypes.PyDLL(None).sleep(_HANG_S),
    "reply_then_hang": lambda: atexit.register(time.sleep, _HANG_S),
}


def cause_fault(fault: str) -> None:
    """Cause the fault with the name `fault`, such as ``kill``; do nothing if the name is empty.

    Some faults are errors of a measurement, such as ``out_of_memory``: for these the function
    raises a MeasuringError. Other faults end or stop the process. Raises KeyError for an unknown
    name.
    """
    if fault in _RAISED_FAULTS:
        raise MeasuringError(*_RAISED_FAULTS[fault])
    if fault:
        print(f"the script says {fault}", file=sys.stderr, flush=True)
        _FAULTS[fault]()
