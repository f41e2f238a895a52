"""A back end of busbw, opened in this process as a worker opens it; and what its cases are."""

from __future__ import annotations

import os
from dataclasses import dataclass

from busbw import grid
from busbw.frameworks import FRAMEWORKS
from busbw.model import Capability, Case, Device, Spec
from busbw.worker import process
from busbw.worker.backends.base import AbstractBackend
from busbw.workloads import Collective


@dataclass(frozen=True)
class Opened:
    """A framework on that number of virtual devices."""

    framework: str
    ranks: int
    backend: AbstractBackend
    target: grid.Target

    def case(self, payload_bytes: int) -> Case:
        """An all-reduce of this payload."""
        spec = Spec(
            framework=self.framework,
            workload=Collective(),
            payload_bytes=payload_bytes,
            ranks=self.ranks,
        )
        return grid.resolve(spec, self.target)


def opened(framework: str, ranks: int) -> Opened:
    """Once in a process, before anything heavy is imported: it may start the process anew."""
    for name, value in FRAMEWORKS[framework].environment[Capability.MEASURE].items():
        os.environ.setdefault(name, value)
    process.prepare(Device.CPU)
    from busbw.worker.backends import load

    backend = load(framework, Device.CPU, ranks)
    target = grid.choose_target(device=Device.CPU, ranks=ranks, probes=[backend.probe()], named=[])
    return Opened(framework=framework, ranks=ranks, backend=backend, target=target)
