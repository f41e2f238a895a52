"""Measure groups of hosts at the same time, each group in a launch of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from busbw import grid
from busbw.driver.executor import Executor
from busbw.driver.transport import HostError, HostsTransport, Request, WorkerSpec
from busbw.extensions.stragglers.liveness import HostGroup, Round, TimesByQuantity
from busbw.extensions.stragglers.worker import ChipTimes
from busbw.model.case import CaseSpec, GridError
from busbw.model.launch import Failure, LaunchId, Plan, Run
from busbw.model.machine import Probe, ProcessGroup
from busbw.model.words import DeviceClass, FailureKind, payload_text
from busbw.stats.launches import launch_time_s

# A launch of all hosts, which wait for each other, has this many times the timeout of a pair.
_ALL_HOSTS_TIMEOUT_FACTOR = 5.0

# A step of a launch, such as measuring a case; the step returns its failure, or None.
LaunchStep = Callable[["GroupLaunch"], Failure | None]


@dataclass(kw_only=True)
class GroupMeasurer:
    """A measurer of groups of hosts, which measures each group in a launch of its own.

    Attributes:
        transport: The transport that starts workers on the hosts.
        worker_spec: How a worker is started. `worker_spec.ranks` is the number of ranks of each
            process; None for the default of the device.
        specs: The cases to measure with each group.
        plan: How long to measure a case, and the timeout of a case and of the start.
        processes: The number of processes on each host.
        rounds: The number of rounds that have been launched so far.

    """

    transport: HostsTransport
    worker_spec: WorkerSpec
    specs: Sequence[CaseSpec]
    plan: Plan
    processes: int = 1
    rounds: int = 0

    def measure_groups(self, groups: Round) -> list[TimesByQuantity | str]:
        """Measure all `groups` at the same time, and return an answer for each group, in order.

        An answer is the seconds of the group by quantity, or the reason why the group has no times.
        """
        steps = [partial(GroupLaunch.measure_case, spec=spec) for spec in self.specs]
        launches = self._launch_groups(groups, steps)
        return [launch.failure.message if launch.failure else launch.times_s for launch in launches]

    def measure_chips(self, hosts: HostGroup, payload_bytes: int, rounds: int) -> GroupLaunch:
        """Time the chips of `hosts`, and the links between chips, in a single launch.

        `payload_bytes` is the payload of a link, and `rounds` is how often each chip is timed. The
        returned launch has the times, or a failure.
        """
        step = partial(GroupLaunch.measure_chips, payload_bytes=payload_bytes, rounds=rounds)
        return self._launch_groups((hosts,), [step])[0]

    def _launch_groups(self, groups: Round, steps: Sequence[LaunchStep]) -> list[GroupLaunch]:
        """Launch all groups at the same time, and return their launches, in the order of `groups`.

        Each step runs in all groups at once, and begins when the previous step has ended in all
        groups. The workers have ended when this function returns.
        """
        self.rounds += 1
        with ExitStack() as stack:
            launches = []
            for group in groups:
                host_indexes = list(map(self.transport.names.index, group))
                executor = stack.enter_context(Executor(self.transport.for_hosts(host_indexes)))
                launches.append(GroupLaunch(self, executor, host_indexes))
            threads = stack.enter_context(ThreadPoolExecutor(max(1, len(groups))))
            try:
                for step in (GroupLaunch.start_workers, *steps, GroupLaunch.close_workers):
                    list(threads.map(partial(GroupLaunch.run_step, step=step), launches))
            except BaseException:
                for launch in launches:
                    launch.executor.stop()
                raise
        return launches


@dataclass
class GroupLaunch:
    """A launch of a group of hosts, with its times, or with the failure that ended the launch.

    Attributes:
        measurer: The GroupMeasurer that started the launch.
        executor: The executor that starts the workers of the group.
        host_indexes: The indexes of the group's hosts among all hosts of the transport.
        times_s: Maps each quantity, such as ``all-reduce 16M``, to its seconds.
        chips: The times of the chips of each process; empty if chips were not timed.
        failure: The failure that ended the launch; None as long as nothing failed.

    """

    measurer: GroupMeasurer
    executor: Executor
    host_indexes: Sequence[int]
    times_s: dict[str, float] = field(default_factory=dict)
    chips: Sequence[ChipTimes] = ()
    failure: Failure | None = None

    @property
    def lost_hosts(self) -> list[str]:
        """The name of the host that did not answer; empty if all hosts answered.

        Also empty if the failure does not name a single process, so that the host is unknown.
        """
        failure = self.failure
        # Several processes, as in "worker 1, worker 2: ...", may all have waited for another
        # process that does not answer.
        if failure is None or not failure.launch.member or "," in failure.message.partition(":")[0]:
            return []
        process = int(failure.launch.member.removeprefix("worker"))
        host_index = self.host_indexes[process // self.measurer.processes]
        return [self.measurer.transport.names[host_index]]

    def run_step(self, step: LaunchStep) -> None:
        """Run a step unless an earlier step failed, and keep the failure if the step fails."""
        if self.failure is None:
            try:
                self.failure = step(self)
            except (HostError, GridError) as error:
                self.failure = Failure(kind=FailureKind.CRASHED, message=str(error))

    def start_workers(self) -> Failure | None:
        """Start the workers, and request their devices; return the failure, or None."""
        worker_spec = self.measurer.worker_spec
        count = self.measurer.processes * len(self.host_indexes)
        worker_spec = replace(
            worker_spec,
            cluster=ProcessGroup(processes=count),
            ranks=worker_spec.ranks and worker_spec.ranks * count,
        )
        name = f"slow-{self.measurer.rounds}-{self.host_indexes[0]}"
        self._workers = self.executor.start(worker_spec, LaunchId(name=name))
        timeout_s = self.measurer.plan.timeout_s
        if failure := self._workers.wait_until_ready(timeout_s):
            return failure
        probe = self._workers.ask(Request("probe", Probe), timeout_s, "looking for devices")
        if isinstance(probe, Failure):
            return probe
        self._target = grid.choose_devices(
            device=DeviceClass(worker_spec.device),
            ranks=None,
            probes=[probe],
            named_frameworks=[probe.framework],
        )
        return None

    def measure_case(self, spec: CaseSpec) -> Failure | None:
        """Measure a case, and keep its time in `times_s`; return the failure, or None."""
        kind = spec.collective.replace("_", "-")
        quantity = f"{kind} {payload_text(spec.payload_bytes)}"
        (case, key) = grid.resolve_case(spec, self._target)
        plan = self.measurer.plan
        values = {"case": case, "plan": plan, "key": key, "injection": None, "pace": None}
        answer = self._workers.ask(
            Request("measure", Run, values), plan.timeout_s, f"measuring {quantity}"
        )
        if isinstance(answer, Run):
            self.times_s[quantity] = launch_time_s(answer)
        return answer if isinstance(answer, Failure) else None

    def measure_chips(self, payload_bytes: int, rounds: int) -> Failure | None:
        """Time the chips of all processes, and keep their times in `chips`.

        `payload_bytes` is the payload of a link, and `rounds` is how often each chip is timed.
        Returns the first failure of a process, or None if all processes answered.
        """
        values = {"rounds": rounds, "payload_bytes": payload_bytes}
        timeout_s = _ALL_HOSTS_TIMEOUT_FACTOR * self.measurer.plan.timeout_s
        answers = self._workers.ask_each(
            Request("chips", ChipTimes, values), timeout_s, "measuring chips"
        )
        replies = [answers] if isinstance(answers, Failure) else answers
        failure = next((reply for reply in replies if isinstance(reply, Failure)), None)
        if failure is None:
            self.chips = [reply for reply in replies if isinstance(reply, ChipTimes)]
        return failure

    def close_workers(self) -> None:
        """End the workers of the group, which have no more steps."""
        self.executor.close_group(self._workers)
