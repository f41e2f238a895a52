"""A group of busbw's own workers, asked for single cases without a session of pytest."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import grid
from busbw.collectives import COLLECTIVES
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, words_of
from busbw.driver.group import Group
from busbw.driver.local import LocalTransport, alone
from busbw.driver.transport import Request, Starter
from busbw.frameworks import FRAMEWORKS
from busbw.metrics import parse_payload
from busbw.model.case import Case, Spec
from busbw.model.launch import Failure, LaunchId, Plan, Run
from busbw.model.machine import Probe
from busbw.model.workload import Workload

from .bench import RANKS, Bench, PartError

# Few samples: a part is to end soon, and nothing is compared with its times.
PLAN = Plan(launches=1, samples=4, budget_s=0.05)

_FRAMEWORK = "jax"
_PATCHED = "patched"
_START_S, _PROBE_S, _CASE_S = 120.0, 60.0, 60.0
# How long another session of busbw may take to end.
_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """A group that runs, on its `target`."""

    bench: Bench
    group: Group
    target: grid.Target

    def case(
        self, payload: str, clock: str = "default", dtype: str = "float32", **own: str
    ) -> Case:
        """Return the case of a collective, by default an all-reduce. Raises GridError."""
        spec = Spec(
            framework=_FRAMEWORK,
            workload=Workload(**own),
            payload_bytes=parse_payload(payload),
            dtype=dtype,
            clock=clock,
        )
        return grid.resolve(spec, self.target)

    def measure(self, case: Case, plan: Plan = PLAN) -> Run | Failure:
        """Return the answers of the workers. Raises PartError if the group or the time is over."""
        if self.group.is_over:
            raise PartError("the group is over")
        spec = Spec(framework=_FRAMEWORK, workload=case.workload, payload_bytes=case.payload_bytes)
        values = {"case": case, "plan": plan, "key": self.target.key(spec)}
        timeout_s = self.bench.left_s(_CASE_S)
        answer = self.group.ask(Request("measure", values), timeout_s, f"measuring {case.name}")
        assert isinstance(answer, (Run, Failure))
        return answer


@contextlib.contextmanager
def measuring(
    bench: Bench, *, environment: Mapping[str, str] | None = None, patched: bool = False
) -> Iterator[Measuring]:
    """Two workers of JAX; `patched`: of the back end of `bench.gpu.patched`. Raises PartError."""
    bundle = Bundle()
    try:
        if patched:
            backends = bundle.path / "busbw" / "worker" / "backends"
            shutil.copytree(Path(__file__).with_name(_PATCHED), backends / _PATCHED)
        with alone(_WAIT_S), Executor(LocalTransport(bundle)) as executor:
            starter = Starter(
                python=sys.executable,
                framework=_PATCHED if patched else _FRAMEWORK,
                device=bench.device.value,
                ranks=RANKS,
                processes=RANKS,
                shared_devices=1 if bench.is_gpu else 0,
                environment=environment or {},
                defaults=FRAMEWORKS[_FRAMEWORK].environment,
            )
            yield _begun(bench, executor, starter)
    finally:
        bundle.remove()


def whole(own: Mapping[str, str]) -> dict[str, str]:
    """Return the spec of a collective with its default placement."""
    return {**own, "placement": COLLECTIVES[own["collective"]].placements[0]}


def _begun(bench: Bench, executor: Executor, starter: Starter) -> Measuring:
    group = executor.start(starter, LaunchId(name="bench"))
    failure = group.begin(bench.left_s(_START_S))
    answer = failure or group.ask(Request("probe"), bench.left_s(_PROBE_S), "looking for devices")
    if isinstance(answer, Failure):
        raise PartError(words_of(answer))
    assert isinstance(answer, Probe)
    # The patched back end is one of JAX, too.
    probe = replace(answer, framework=_FRAMEWORK)
    target = grid.choose_target(device=bench.device, ranks=RANKS, probes=[probe], named=[])
    return Measuring(bench=bench, group=group, target=target)
