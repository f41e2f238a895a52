"""Open a back end of busbw in this process, as a worker does, and resolve cases for it."""

from __future__ import annotations

import os

from busbw import grid
from busbw.collectives import COLLECTIVES
from busbw.frameworks import FRAMEWORKS
from busbw.metrics import parse_payload
from busbw.model.case import Case, Spec
from busbw.model.cluster import ClusterMember
from busbw.model.words import Capability, Device
from busbw.model.workload import Workload
from busbw.worker import process
from busbw.worker.backends.base import AbstractBackend


class Opened:
    """The back end, and the target of its cases.

    Open one in a process, before the framework is imported: it may start the process anew.
    """

    def __init__(
        self, framework: str, device: Device, ranks: int, member: ClusterMember | None = None
    ) -> None:
        for name, value in FRAMEWORKS[framework].environment[Capability.MEASURE].items():
            os.environ.setdefault(name, value)
        process.prepare(device)
        from busbw.worker.backends import load

        self.framework, self.device, self.ranks = framework, device, ranks
        self.backend: AbstractBackend = load(framework, device, ranks, member)
        # In a group the driver would merge the probes of all processes, which are equal.
        probe = self.backend.probe()
        self.target = grid.choose_target(device=device, ranks=ranks, probes=[probe], named=[])

    def case(self, payload: str, collective: str = "all_reduce", **fields: str) -> Case:
        """Return the case of a collective; `fields` are dtype and clock."""
        definition = COLLECTIVES[collective]
        workload = Workload(
            collective=collective,
            reduce_op=next(iter(definition.reduce_ops), "none"),
            placement=definition.placements[0],
        )
        spec = Spec(
            framework=self.framework,
            workload=workload,
            payload_bytes=parse_payload(payload),
            ranks=self.ranks,
            **fields,
        )
        return grid.resolve(spec, self.target)
