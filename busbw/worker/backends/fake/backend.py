"""A back end without a framework, scripted by the environment variable BUSBW_FAKE.

It is for tests and demonstrations. Only devices and times are simulated: processes, pipes,
deadlines and memory are real. The variable holds JSON::

    {"device": "tpu", "device_kind": "TPU v2", "ranks": 8, "latency_s": 1e-5, "gb_per_s": 10,
     "dispatch_s": 1e-4, "clocks": ["device", "host"], "device_slower": 1.0, "events_lost": 0,
     "cases": [{"payload_bytes": 4096, "passes": [2], "slower": 3, "then": "kill"},
               {"dtype": "int32", "then": "wrong_result"}],
     "processes": {"1": {"latency_s": 1e-3}}, "hosts": {"two": {"latency_s": 1e-3}}}

- `processes` changes the script for processes of a group, by index.
- `hosts` changes it on the host that the variable BUSBW_FAKE_HOST names.
- `releases` changes it for releases of installed packages, by package.
- `versions` are added to the versions of the probe, and `framework_path` is its path.
- `injected_more` is how many times the requested time an injected delay takes.
- `then` is an event of a case: kill, segfault, exit, hang, hang_with_lock, reply_then_hang,
  out_of_memory, wrong_result, not_a_collective, other_dtype or unavailable. ``"probe": "exit"`` and
  ``"probe": "hang"`` are events of the probe.

The values in ``"extra": {"signature": "00000001 ring"}``, of all cases or of a single case, are
those of extensions.
A `program` of the user's is what the file ``hlo`` holds, its axes those of ``mesh``.
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
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Injection, LaunchId, Proof
from busbw.model.machine import VIRTUAL_RANKS, DeviceSet, Probe
from busbw.model.words import Clock, Device, Extra, FailureKind
from busbw.worker import host, process

from ..base import (
    AllGather,
    Backend,
    MeasuringError,
    MemoryNeed,
    Program,
    Reader,
    TimedCollective,
    World,
    single_process_gather,
)
from .exchange import Exchange

VARIABLE, HOST = "BUSBW_FAKE", "BUSBW_FAKE_HOST"
_LONG_S = 3600
# Like the sums of a real program over four ranks.
_MOST_ITERATIONS = 126
_RAISED = {
    "out_of_memory": (FailureKind.OUT_OF_MEMORY, "RESOURCE_EXHAUSTED: made up"),
    "wrong_result": (FailureKind.WRONG_RESULT, "rank 1, element 7: 3.0, expected 4.0"),
    "not_a_collective": (
        FailureKind.NOT_A_COLLECTIVE,
        "expected 1 all-reduce, got %made-up(...):\n%made-up = f32[4]{0} made-up(%x), all of it",
    ),
    "other_dtype": (FailureKind.OTHER_DTYPE, "the made-up compiler computes this in float32"),
    "unavailable": (FailureKind.UNAVAILABLE, "no such algorithm here"),
}


class FakeBackend(Backend):
    """Devices and times from the script. The clock moves only while a program runs."""

    name = "fake"

    def __init__(
        self, device: Device | None, ranks: int | None, member: ClusterMember | None = None
    ) -> None:
        self._processes, self._hosts = (member.count, member.hosts) if member else (1, 1)
        self.index = member.index if member else 0
        self._is_shared = member is not None and member.shared_devices > 0
        self.script = _read_script(self.index)
        self._exchange = Exchange(member) if member and member.count > 1 else None
        self._device = device
        self._ranks = ranks
        self.elapsed_s = 0.0
        self.call_s = float(self.script.get("dispatch_s", 0.0))
        self._recorded_s: list[tuple[float, float]] = []
        self.framework_path = self.script.get("framework_path", "made up")
        self.versions = {"fake": "1"} | self.script.get("versions", {})

    def all_gather(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        if self._exchange is None:
            return single_process_gather(values)
        return tuple(map(tuple, self._exchange(values)))

    def now_s(self) -> float:
        return self.elapsed_s

    def probe(self) -> Probe:
        happen(self.script.get("probe", ""))
        device = Device(self.script.get("device", "cpu"))
        is_virtual = device is Device.CPU
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
            cores=host.cores() if is_virtual else None,
            hosts=self._hosts,
            processes=self._processes,
            shared=self._is_shared,
        )
        is_reached = self._device in (None, device)
        return Probe(
            framework="fake",
            framework_path=self.framework_path,
            devices=(devices,) if is_reached else (),
            missing={} if self._device is None else {self._device.value: "not in the script"},
            versions=self.versions,
            flags=process.flags(),
            hosts=(host.name(),),
        )

    def world(self) -> World:
        world: dict[str, Any] = self.script.get("world", {})
        return World(
            device_kind=(self.script | world).get("device_kind", "Fake CPU"),
            ranks=world.get("ranks", self._device_count),
            processes=self._processes,
        )

    @property
    def _device_count(self) -> int:
        """One for each process that shares a device, else those of the script."""
        if self._is_shared:
            return self._processes
        return int(self.script.get("ranks", self._ranks or VIRTUAL_RANKS))

    def memory_need(self, case: Case) -> MemoryNeed | None:
        if Device(self.script.get("device", "cpu")) is not Device.CPU:
            return None
        return MemoryNeed(needed_bytes=2 * case.ranks * case.payload_bytes, is_taken=False)

    @contextlib.contextmanager
    def prepare(self, case: Case, injection: Injection | None = None) -> Iterator[Program]:
        line = self.line(case)
        happen(line.get("then", ""))
        latency_s = float(self.script.get("latency_s", 1e-5))
        rate = float(self.script.get("gb_per_s", 10.0)) * 1e9
        collective_s = (latency_s + case.payload_bytes / rate) * float(line.get("slower", 1.0))
        injected_s = 0.0
        if injection is not None and injection.extra is Extra.DELAY:
            injected_s = injection.delay_s(collective_s)
        # A real delay is not exactly the requested one, either.
        injected_s *= float(self.script.get("injected_more", 1.0))
        self.instruction = f"{COLLECTIVES[case.collective].hlo}.1"
        program = FakeProgram(self, case, collective_s, injected_s)
        program.first_calls = line.get("extra", self.script.get("extra", {}))
        yield program

    @contextlib.contextmanager
    def record(self, folder: Path) -> Iterator[Reader]:
        self._recorded_s = []
        yield self._recorded

    def _recorded(self, timed: Mapping[str, str]) -> list[TimedCollective]:
        slower = float(self.script.get("device_slower", 1.0))
        events = self._recorded_s[: len(self._recorded_s) - self.script.get("events_lost", 0)]
        local_ranks = self.world().ranks // self._processes
        first = local_ranks * self.index
        return [
            TimedCollective(
                rank, self.instruction, begun_s + index * collective_s, slower * collective_s
            )
            for rank in range(first, first + local_ranks)
            for index, (begun_s, collective_s) in enumerate(events)
        ]

    def spend(self, call_s: float, collectives_s: Sequence[float]) -> None:
        """Move the clock by a call and its collectives."""
        self._recorded_s += [(self.elapsed_s, collective_s) for collective_s in collectives_s]
        self.elapsed_s += call_s + sum(collectives_s)

    def line(self, case: Case) -> dict[str, Any]:
        """Return the line of the script for a case in this launch; empty for none."""
        number = launch_number()
        for line in self.script.get("cases", []):
            sizes = line.get("payload_bytes", case.payload_bytes)
            is_case = sizes == case.payload_bytes and line.get("dtype", case.dtype) == case.dtype
            is_case = is_case and line.get("reduce_op", case.reduce_op) == case.reduce_op
            if is_case and number in line.get("passes", [number]):
                return dict(line)
        return {}


class FakeProgram(Program):
    """Moves the clock of its back end, each time a little more, so that samples differ.

    The first chain of another length begins again, so that samples do not depend on the warm-up.
    """

    compile_s = 0.001
    step = 1
    first_calls: Mapping[str, object] = MappingProxyType({})

    def __init__(
        self, backend: FakeBackend, case: Case, collective_s: float, injected_s: float
    ) -> None:
        self._backend, self._case = backend, case
        self._collective_s, self._injected_s = collective_s, injected_s
        self._turn = self._length = 0
        self.most_iterations = 1 if case.clock is Clock.DISPATCH else _MOST_ITERATIONS
        self.timed = {backend.instruction: backend.instruction}
        self.proof = Proof(collectives={"fake": 1}, payload_copies=0, algorithm="fake")

    def initialize(self, first_call: str = "") -> None:
        """Do nothing: there are no values."""

    def run(self, iterations: int) -> None:
        if iterations:
            self._turn = self._turn + 1 if iterations == self._length else 0
            self._length = iterations
        collective_s = self._collective_s + (self._injected_s if self.is_injecting else 0.0)
        collective_s *= 1 + 0.01 * (self._turn * 7 % 4)
        self._backend.spend(self._backend.call_s, [collective_s] * iterations)

    def check(self, iterations: int) -> int:
        return self._case.ranks

    def read_first_call(self, name: str, iterations: int, all_gather: AllGather) -> object:
        return self.first_calls[name]


def launch_number() -> int:
    """Return the pass of this launch, from the worker's command line; 0 for none."""
    prefix = "--launch="
    text = next((word[len(prefix) :] for word in sys.argv if word.startswith(prefix)), "")
    return LaunchId.parse(text).round_number


def _read_script(index: int) -> dict[str, Any]:
    """Return the script for this host, these releases and process `index` of its group."""
    script: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
    changes = script.get("hosts", {}).get(os.environ.get(HOST, ""), {})
    for package, releases in script.get("releases", {}).items():
        # Importing this takes a fifth of the start of a worker that plays another script.
        from importlib.metadata import version

        changes |= releases.get(version(package), {})
    return {**script, **changes, **script.get("processes", {}).get(str(index), {})}


_EVENTS: Mapping[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "hang": lambda: time.sleep(_LONG_S),
    "hang_with_lock": lambda: ctypes.PyDLL(None).sleep(_LONG_S),
    "reply_then_hang": lambda: atexit.register(time.sleep, _LONG_S),
}


def happen(event: str) -> None:
    """Let an event of the script happen; "" is none."""
    if event in _RAISED:
        raise MeasuringError(*_RAISED[event])
    if event:
        print(f"the script says {event}", file=sys.stderr, flush=True)
        if event not in _EVENTS:
            raise ValueError(f"{VARIABLE}: no event {event!r}")
        _EVENTS[event]()
