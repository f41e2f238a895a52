"""A back end without a framework, scripted by the environment variable BUSBW_FAKE.

Shipped for tests and demonstrations: everything around the measuring is real (processes, pipes,
deadlines, memory), only the devices and the times are synthetic. The variable holds JSON::

    {"device": "tpu", "device_kind": "TPU v2", "ranks": 8, "latency_s": 1e-5, "gb_per_s": 10,
     "dispatch_s": 1e-4, "clocks": ["device", "host"], "device_slower": 1.0, "events_lost": 0,
     "cases": [{"payload_bytes": 4096, "passes": [2], "slower": 3, "then": "kill"},
               {"dtype": "int32", "then": "wrong_result"}],
     "processes": {"1": {"latency_s": 1e-3}}, "hosts": {"two": {"latency_s": 1e-3}}}

`processes` has what is different in single processes of a group, by index, `hosts` on those that
the variable BUSBW_FAKE_HOST names; `versions` are added to its own.
Injected work takes
`injected_more` times what was asked for.
`releases` have by package what is different with one of its releases.
`then` is what happens to a case: kill, segfault, exit, hang, hang_with_lock, reply_then_hang,
out_of_memory, wrong_result, not_a_collective, other_dtype or unavailable. ``"probe": "exit"`` and
``"probe": "hang"`` happen to the probe. `framework_path` is where it says it was loaded from.
In a soak a case's ``{"flips": {"every": 1000, "word": {"rank": 1}, "stays": "device"}}`` makes the
last of that many rounds wrong, on that rank or, wherever ranks are moved, its device.
A ``"signature": [hash, mask]``, of all cases or one, is that of its sums; with ``"counts": true``
there is a library by which its devices count.
A `program` of the user's is what the file ``hlo`` holds, its axes those of ``mesh``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.metadata
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.cluster import ClusterMember
from busbw.model.launch import Injection, LaunchId, Proof
from busbw.model.machine import VIRTUAL_RANKS, DeviceSet, Probe
from busbw.model.soak import Wrong
from busbw.model.words import Clock, Device, Extra, FailureKind
from busbw.worker import host, process

from ..base import (
    AbstractBackend,
    AbstractProgram,
    MeasuringError,
    MemoryNeed,
    Reader,
    TimedCollective,
    World,
)
from .exchange import Exchange

VARIABLE, HOST = "BUSBW_FAKE", "BUSBW_FAKE_HOST"
_LONG_S = 3600
# As far as a real program's sums over four ranks are exact.
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


class FakeBackend(AbstractBackend):
    """Devices and times from the script; its clock moves only when a program runs."""

    name = "fake"
    turns = True

    def __init__(
        self, device: Device | None, ranks: int | None, member: ClusterMember | None = None
    ) -> None:
        self._processes, self._hosts = (member.count, member.hosts) if member else (1, 1)
        self.index = member.index if member else 0
        self._shared = member is not None and member.shared_devices > 0
        shared: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
        here = shared.get("hosts", {}).get(os.environ.get(HOST, ""), {})
        for package, releases in shared.get("releases", {}).items():
            here |= releases.get(importlib.metadata.version(package), {})
        self.script = shared | here | shared.get("processes", {}).get(str(self.index), {})
        self._exchange = Exchange(member) if member and member.count > 1 else None
        self._device = device
        self._ranks = ranks
        self.elapsed_s = 0.0
        self.call_s = float(self.script.get("dispatch_s", 0.0))
        self._recorded_s: list[tuple[float, float]] = []
        self._name = ""
        self.framework_path = self.script.get("framework_path", "made up")
        self.versions = {"fake": "1"} | self.script.get("versions", {})

    def gathered(self, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        if self._exchange is None:
            return (tuple(values),)
        return tuple(map(tuple, self._exchange(values)))

    def now_s(self) -> float:
        return self.elapsed_s

    def probe(self) -> Probe:
        happen(self.script.get("probe", ""))
        device = Device(self.script.get("device", "cpu"))
        virtual = device is Device.CPU
        program, _, allocator = self.script.get("protocol", "fake").partition("/")
        found = DeviceSet(
            device=device,
            device_kind=self.script.get("device_kind", "Fake CPU"),
            ranks=self._found_ranks,
            any_ranks=virtual,
            program=program,
            allocator=allocator,
            strategies={"default": "fake", "fake": "fake"},
            clocks=tuple(Clock(name) for name in self.script.get("clocks", ["host"])),
            cores=host.cores() if virtual else None,
            hosts=self._hosts,
            processes=self._processes,
            shared=self._shared,
        )
        reached = self._device in (None, device)
        return Probe(
            framework="fake",
            framework_path=self.framework_path,
            devices=(found,) if reached else (),
            missing={} if self._device is None else {self._device.value: "not in the script"},
            versions=self.versions,
            flags=process.flags(),
            hosts=(host.name(),),
            counts=self.script.get("counts", False),
        )

    def world(self) -> World:
        there: dict[str, Any] = self.script | self.script.get("world", {})
        return World(
            device_kind=there.get("device_kind", "Fake CPU"),
            ranks=self.script.get("world", {}).get("ranks", self._found_ranks),
            processes=self._processes,
        )

    @property
    def _found_ranks(self) -> int:
        """One for each process that shares a device, else those of the script."""
        if self._shared:
            return self._processes
        found: int = self.script.get("ranks", self._ranks or VIRTUAL_RANKS)
        return found

    def memory_need(self, case: Case) -> MemoryNeed | None:
        if Device(self.script.get("device", "cpu")) is not Device.CPU:
            return None
        return MemoryNeed(needed_bytes=2 * case.ranks * case.payload_bytes, really_taken=False)

    @contextlib.contextmanager
    def prepared(
        self, case: Case, injection: Injection | None = None, *, soaking: bool = False
    ) -> Iterator[AbstractProgram]:
        line = self._line(case)
        happen(line.get("then", ""))
        latency_s = float(self.script.get("latency_s", 1e-5))
        rate = float(self.script.get("gb_per_s", 10.0)) * 1e9
        one_s = (latency_s + case.payload_bytes / rate) * float(line.get("slower", 1.0))
        injected_s = 0.0
        if injection is not None and injection.extra is Extra.DELAY:
            injected_s = injection.delay_s(one_s)
        # As real ones are: not quite what was asked for.
        injected_s *= float(self.script.get("injected_more", 1.0))
        self.instruction = f"{COLLECTIVES[case.collective].hlo}.1"
        flips = line.get("flips", {}) if soaking else {}
        program = FakeProgram(self, case, one_s, injected_s, flips)
        program.signed = line.get("signature", self.script.get("signature", ()))
        yield program

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[Reader]:
        self._recorded_s = []
        yield self._recorded

    def _recorded(self, timed: Mapping[str, str]) -> list[TimedCollective]:
        slower = float(self.script.get("device_slower", 1.0))
        kept = self._recorded_s[: len(self._recorded_s) - self.script.get("events_lost", 0)]
        own = self.world().ranks // self._processes
        return [
            TimedCollective(rank, self.instruction, begun_s + index * one_s, slower * one_s)
            for rank in range(own * self.index, own * (self.index + 1))
            for index, (begun_s, one_s) in enumerate(kept)
        ]

    def spend(self, call_s: float, collectives_s: Sequence[float]) -> None:
        self._recorded_s += [(self.elapsed_s, one_s) for one_s in collectives_s]
        self.elapsed_s += call_s + sum(collectives_s)

    def _line(self, case: Case) -> dict[str, Any]:
        number = launch_number()
        for line in self.script.get("cases", []):
            sizes = line.get("payload_bytes", case.payload_bytes)
            is_case = sizes == case.payload_bytes and line.get("dtype", case.dtype) == case.dtype
            is_case = is_case and line.get("reduce_op", case.reduce_op) == case.reduce_op
            if is_case and number in line.get("passes", [number]):
                found: dict[str, Any] = line
                return found
        return {}


class FakeProgram(AbstractProgram):
    """Moves its back end's clock; a little more each time, so that samples differ.

    Chains of another length begin anew: samples are the same however many warmed up.
    """

    compile_s = 0.001
    step = 1
    kind = "made up"
    signed: Sequence[int] = ()

    def __init__(
        self,
        backend: FakeBackend,
        case: Case,
        one_s: float,
        injected_s: float,
        flips: Mapping[str, Any],
    ) -> None:
        self._backend, self._flips, self._rounds = backend, flips, 0
        self._case = case
        self._one_s, self._injected_s = one_s, injected_s
        self._turn = self._length = 0
        self.most_iterations = 1 if case.clock is Clock.DISPATCH else _MOST_ITERATIONS
        self.timed = {backend.instruction: backend.instruction}
        self.proof = Proof(collectives={"fake": 1}, payload_copies=0, algorithm="fake")

    def fresh(self) -> None:
        """Do nothing: there are no values to lay out."""

    def run(self, iterations: int) -> None:
        if iterations:
            self._turn = self._turn + 1 if iterations == self._length else 0
            self._length = iterations
        one_s = self._one_s + (self._injected_s if self.injecting else 0.0)
        one_s *= 1 + 0.01 * (self._turn * 7 % 4)
        self._backend.spend(self._backend.call_s, [one_s] * iterations)

    def check(self, iterations: int) -> int:
        return self._case.ranks

    def lay_out_inexact(self) -> bool:
        return bool(self.signed)

    def signature(self, iterations: int) -> tuple[int, int]:
        found, mask = self.signed
        return found, mask

    def digests(self) -> tuple[int, ...]:
        self._rounds += 1
        return (int(self._is_wrong),)

    def wrong(self, number: int) -> Wrong | None:
        if not self._is_wrong:
            return None
        found = {"rank": 1, "element": 7, "expected": 0, "found": 1} | self._flips.get("word", {})
        if self._flips.get("stays") == "device":
            found["rank"] = (found["rank"] - self._backend.turned) % self._case.ranks
        return Wrong(number=number, values=self.kind, **found)

    @property
    def _is_wrong(self) -> bool:
        every = self._flips.get("every", 0)
        return bool(every) and self._rounds % every == 0

    def device_peak_bytes(self) -> int | None:
        return None


def launch_number() -> int:
    """The pass of this launch, from the worker's own command line; 0 for none."""
    prefix = "--launch="
    found = next((word[len(prefix) :] for word in sys.argv if word.startswith(prefix)), "")
    return LaunchId.parse(found).pass_number


_EVENTS: Mapping[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "hang": lambda: time.sleep(_LONG_S),
    "hang_with_lock": lambda: ctypes.PyDLL(None).sleep(_LONG_S),
    "reply_then_hang": lambda: atexit.register(time.sleep, _LONG_S),
}


def happen(event: str) -> None:
    if event in _RAISED:
        raise MeasuringError(*_RAISED[event])
    if event:
        print(f"the script says {event}", file=sys.stderr, flush=True)
        if event not in _EVENTS:
            raise ValueError(f"{VARIABLE}: no event {event!r}")
        _EVENTS[event]()
