"""A whole program of the user's, such as a training step: every collective in it, compiled.

A function of his makes it, for the devices that it is given; only a worker imports the module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from busbw.model.case import Asked, Case, GridError, Spec
from busbw.model.machine import DeviceSet, EnvironmentKey, Protocol
from busbw.model.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Program(Workload):
    """What ``source``, such as ``perf/programs.py:train_step``, lowers for some devices."""

    collective: str = "all"
    source: str = ""

    kind = "program"
    is_sized = False

    @property
    def word(self) -> str:
        return self.kind

    @classmethod
    def check(cls, asked: Asked) -> None:
        """Raise GridError for what a program does not have: it says itself what it runs."""
        raise GridError("a program is named by --program")

    def case_on(self, spec: Spec, key: EnvironmentKey, found: DeviceSet, only: str) -> Case:
        return Case(
            framework=spec.framework,
            payload_bytes=spec.payload_bytes,
            workload=spec.workload,
            strategy=spec.strategy,
            dtype=spec.dtype,
            ranks=key.ranks,
            mesh=key.mesh,
            protocol=Protocol(
                clock=found.clocks[0], program="as-written", allocator=found.allocator
            ),
        )


def is_dump(source: str) -> bool:
    """Tell whether `source` is a file of optimized HLO instead of a function."""
    return ":" not in PurePath(source).name


def program_spec(framework: str, source: str) -> Spec:
    """The Spec of a program; its name, such as ``programs-train_step``, is that of a strategy."""
    place, _, function = source.rpartition(":")
    words = PurePath(source).stem if is_dump(source) else f"{PurePath(place).stem}-{function}"
    name = re.sub(r"\W+", "-", words).strip("-")
    # There is no one payload: 1 stands for it where a document must have one.
    return Spec(
        framework=framework, payload_bytes=1, workload=Program(source=source), strategy=name
    )
