"""Measure groups of hosts at the same time, each group in a launch of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from busbw import grid
from busbw.driver.executor import Executor
from busbw.driver.transport import HostError, HostsTransport, Request, Starter
from busbw.extensions.stragglers.liveness import Group, Round, Times
from busbw.extensions.stragglers.worker import ChipTimes
from busbw.model.case import GridError, Spec
from busbw.model.cluster import Cluster
from busbw.model.launch import Failure, LaunchId, Plan, Run
from busbw.model.machine import Probe
from busbw.model.words import Device, FailureKind, payload_text
from busbw.stats.launches import launch_time_s

# All hosts together may take longer than a pair: in every round they wait for the slowest.
_ALL_HOSTS = 5.0

Step = Callable[["Launch"], Failure | None]


@dataclass(kw_only=True)
class Groups:
    """Measures `specs` with `processes` on every host, started as `starter` says.

    The ranks of `starter` are those of a process.
    """

    transport: HostsTransport
    starter: Starter
    specs: Sequence[Spec]
    plan: Plan
    processes: int = 1
    rounds: int = 0

    def measure(self, groups: Round) -> list[Times | str]:
        """Return the times of each group, or the reason why it has none."""
        steps = [partial(Launch.measure, spec=spec) for spec in self.specs]
        return [launch.reason or launch.times_s for launch in self._launch(groups, steps)]

    def measure_chips(self, hosts: Group, payload_bytes: int, rounds: int) -> Launch:
        """Measure the chips of all hosts in one launch, and links between chips."""
        step = partial(Launch.measure_chips, payload_bytes=payload_bytes, rounds=rounds)
        return self._launch((hosts,), [step])[0]

    def _launch(self, groups: Round, steps: Sequence[Step]) -> list[Launch]:
        """Take each step in all groups at the same time, after all have started."""
        self.rounds += 1
        with ExitStack() as stack:
            launches = []
            for group in groups:
                ranks = list(map(self.transport.names.index, group))
                executor = stack.enter_context(Executor(self.transport.for_hosts(ranks)))
                launches.append(Launch(self, executor, ranks))
            threads = stack.enter_context(ThreadPoolExecutor(max(1, len(groups))))
            try:
                for step in (Launch.begin, *steps, Launch.end):
                    list(threads.map(partial(Launch.attempt, step=step), launches))
            except BaseException:
                for launch in launches:
                    launch.executor.stop()
                raise
        return launches


@dataclass
class Launch:
    """One group of hosts in one round: its times, or the reason why it has none.

    `lost` is the index, in the group, of the host that gave no answer; None if that is not known.
    A launch `is_incomplete` if it failed, unless the framework cannot measure what was requested.
    """

    groups: Groups
    executor: Executor
    ranks: Sequence[int]
    times_s: dict[str, float] = field(default_factory=dict)
    chips: Sequence[ChipTimes] = ()
    reason: str = ""
    lost: int | None = None
    is_incomplete: bool = False

    def attempt(self, step: Step) -> None:
        """Run a step unless an earlier one failed, and keep its failure.

        A single process that ended is the cause of a failure.
        """
        if self.reason:
            return
        try:
            failure = step(self)
        except (HostError, GridError) as error:
            self.reason, self.is_incomplete = str(error), True
            return
        if failure is not None:
            self.reason = failure.message
            self.is_incomplete = failure.kind is not FailureKind.UNAVAILABLE
            index = failure.launch.member.removeprefix("worker")
            # "worker 1, worker 2: ..." did not answer in time, and may all have waited for another.
            if index and "," not in failure.message.partition(":")[0]:
                self.lost = int(index) // self.groups.processes

    def begin(self) -> Failure | None:
        starter, count = self.groups.starter, self.groups.processes * len(self.ranks)
        starter = replace(starter, processes=count, ranks=starter.ranks and starter.ranks * count)
        name = f"slow-{self.groups.rounds}-{self.ranks[0]}"
        cluster = Cluster(processes=count)
        self._workers = self.executor.start(starter, LaunchId(name=name), cluster)
        timeout_s = self.groups.plan.timeout_s
        if failure := self._workers.wait_until_ready(timeout_s):
            return failure
        probe = self._workers.ask(Request("probe", Probe), timeout_s, "looking for devices")
        if isinstance(probe, Failure):
            return probe
        self._target = grid.choose_target(
            device=Device(starter.device),
            ranks=None,
            probes=[probe],
            named_frameworks=[probe.framework],
        )
        return None

    def measure(self, spec: Spec) -> Failure | None:
        kind = spec.collective.replace("_", "-")
        quantity = f"{kind} {payload_text(spec.payload_bytes)}"
        plan, case, key = (
            self.groups.plan,
            grid.resolve_case(spec, self._target),
            self._target.key(spec),
        )
        values = {"case": case, "plan": plan, "key": key, "injection": None, "pace": None}
        answer = self._workers.ask(
            Request("measure", Run, values), plan.timeout_s, f"measuring {quantity}"
        )
        if isinstance(answer, Run):
            self.times_s[quantity] = launch_time_s(answer)
        return answer if isinstance(answer, Failure) else None

    def measure_chips(self, payload_bytes: int, rounds: int) -> Failure | None:
        """Measure chips, and then links, which have a payload."""
        for size in (0, payload_bytes):
            request = Request("chips", ChipTimes, {"rounds": rounds, "payload_bytes": size})
            timeout_s = _ALL_HOSTS * self.groups.plan.timeout_s
            doing = "measuring links" if size else "measuring chips"
            answers = self._workers.ask_each(request, timeout_s, doing)
            replies = [answers] if isinstance(answers, Failure) else answers
            failure = next((reply for reply in replies if isinstance(reply, Failure)), None)
            if failure is not None:
                return failure
            chips = [reply for reply in replies if isinstance(reply, ChipTimes)]
            self.chips = [
                replace(chip, links_s=link.links_s, pairs=link.pairs)
                for chip, link in zip(self.chips or chips, chips)
            ]
        return None

    def end(self) -> None:
        self.executor.close_group(self._workers)
