"""Measure groups of hosts at the same time, and find the hosts that do not answer.

If the measurement of a pair fails, one or both of its hosts do not answer. To tell which, each of
the two hosts is measured again, with other hosts that answer. A host that fails with several
answering hosts is unreachable.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

from busbw import grid
from busbw.cli import print_progress
from busbw.driver.executor import Executor, probe
from busbw.driver.group import Group
from busbw.driver.transport import HostError, HostsTransport, Request, T, WorkerSpec
from busbw.extensions.stragglers import WORKER_OPERATIONS
from busbw.extensions.stragglers.worker import ChipTimes
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import CaseSpec, GridError, GridOptions
from busbw.model.launch import Failure, LaunchId, MeasurementPlan, Run
from busbw.model.machine import Probe, ProcessGroupSize
from busbw.model.words import DeviceClass, payload_text, plural
from busbw.stats.launches import launch_time_s

# A group is the sorted names of its hosts. A round consists of groups without a common host, which
# are measured at the same time.
HostGroup = tuple[str, ...]
Round = tuple[HostGroup, ...]
# Seconds by quantity, such as ``all-reduce 16M``.
TimesByQuantity = Mapping[str, float]
# A function that makes a step of a launch, such as measuring a case: it gets the name of the step,
# the workers and their devices, and raises HostError or GridError if the step fails.
RunStep = Callable[[str, Group, grid.MeasuredDevices], Any]

# How often each chip is timed in a launch.
_CHIP_ROUNDS = 40
# A launch of all hosts, which wait for each other, has this many times the timeout of a pair.
_ALL_HOSTS_TIMEOUT_FACTOR = 5.0
# Why the chips of other frameworks than in the table WORKER_OPERATIONS have no times.
CHIPS_NOT_SUPPORTED = "only JAX measures single chips"
# A host is unreachable after it has failed with this many hosts that answer.
_MIN_FAILED_PARTNERS = 2
# The search ends after this many successive rounds without an answering host.
_MAX_SILENT_ROUNDS = 3
# The usual number of hosts in a group of more than two hosts, and the fewest groups in a round, for
# which groups may be smaller.
_GROUP_SIZE, _MIN_GROUPS = 16, 8


@dataclass(kw_only=True)
class GroupMeasurer:
    """The object that measures groups of hosts, each group in a launch of its own.

    Attributes:
        transport: The transport that starts workers on the hosts.
        worker_spec: How the workers of a single host are started. Here `worker_spec.ranks` is the
            number of ranks of each process, or None for the default of the device.
        specs: The case to measure for each quantity, such as ``all-reduce 16M``.
        plan: How long to measure a case, and the timeouts for the start and for each case.
        round_count: The number of rounds that have been launched so far.

    """

    transport: HostsTransport
    worker_spec: WorkerSpec
    specs: Mapping[str, CaseSpec]
    plan: MeasurementPlan
    round_count: int = 0

    def measure_groups(self, groups: Round) -> Sequence[TimesByQuantity | str]:
        """Measure all `groups` at the same time, and return an answer for each group, in order.

        The answer of a group is its time in seconds for each quantity. If the measurement of the
        group fails, its answer is the reason, as text.
        """
        return self._launch_groups(groups, [*self.specs], self._measure_case)

    def measure_chips(self, hosts: Sequence[str]) -> tuple[Sequence[ChipTimes], str]:
        """Time the chips of `hosts`, and the links between chips, in a single launch.

        Each link carries the largest payload of the cases in `specs`.

        Returns:
            The times of the chips of each process, and the reason why chips were not timed. The
            reason is an empty text if the chips were timed, and the times are empty if not.

        """
        name = f"chips_{self.worker_spec.framework}"
        if name not in WORKER_OPERATIONS:
            return (), CHIPS_NOT_SUPPORTED
        (answer,) = self._launch_groups((tuple(hosts),), [name], self._request_chip_times)
        return ((), answer) if isinstance(answer, str) else (answer[name], "")

    def measure_directions(self, link: HostGroup) -> dict[str, float]:
        """Return the seconds of a payload over `link` in each direction, while only one host sends.

        The keys are such as ``a to b``, and the payload is the largest payload of `specs`. Returns
        an empty dictionary if the framework cannot measure directions, or if the launch fails.
        """
        name = f"directions_{self.worker_spec.framework}"
        if name not in WORKER_OPERATIONS:
            return {}
        (answer,) = self._launch_groups((link,), [name], self._request_chip_times)
        if isinstance(answer, str):
            return {}
        # The receiver needs longer than the sender.
        return {
            direction: max(time_s for process in answer[name] for time_s in process["sending"][key])
            for key, direction in (("0 1", " to ".join(link)), ("1 0", " to ".join(link[::-1])))
        }

    def _launch_groups(
        self, groups: Round, step_names: Sequence[str], run_step: RunStep
    ) -> list[dict[str, Any] | str]:
        """Launch workers for all groups at the same time, and run the same steps in each group.

        Each step runs in all groups at once, and begins when the previous step has ended in all
        groups. The workers have ended when this function returns.

        Args:
            groups: The groups, which have no common host.
            step_names: The names of the steps, in the order in which they run.
            run_step: The function that runs a step in a group, and returns its result.

        Returns:
            An answer for each group, in the order of `groups`. The answer maps the name of each
            step to the result of the step. If a step fails, the answer is the reason, as text.

        """
        self.round_count += 1
        print_progress(f"round {self.round_count}: {plural(len(groups), 'group')} of hosts")
        with ExitStack() as stack:
            indexes = [list(map(self.transport.names.index, group)) for group in groups]
            executors = [
                stack.enter_context(Executor(self.transport.for_hosts(hosts))) for hosts in indexes
            ]
            launches = [
                self._run_launch(*launch, step_names, run_step)
                for launch in zip(executors, indexes)
            ]
            threads = stack.enter_context(ThreadPoolExecutor(len(groups)))
            # Ctrl-C ends the threads, which wait for workers, by killing the workers first.
            for executor in executors:
                stack.callback(executor.stop)
            for _ in ("start", *step_names, "close"):
                answers = list(threads.map(next, launches))
            return answers

    def _run_launch(
        self,
        executor: Executor,
        host_indexes: Sequence[int],
        step_names: Sequence[str],
        run_step: RunStep,
    ) -> Iterator[dict[str, Any] | str]:
        """Start the workers of a group, run the steps, and end the workers, part by part.

        Each part ends with a `yield`: the start, each step, and the end of the workers. The yielded
        value maps the names of the steps so far to their results. Once a part has failed, every
        further value is the reason, as text.

        Args:
            executor: The Executor that starts the workers.
            host_indexes: The indexes of the hosts of the group in `transport.names`.
            step_names: The names of the steps, in the order in which they run.
            run_step: The function that runs a step, and returns its result.

        """
        count = self.worker_spec.cluster.processes * len(host_indexes)
        worker_spec = replace(
            self.worker_spec,
            cluster=ProcessGroupSize(processes=count),
            ranks=self.worker_spec.ranks and self.worker_spec.ranks * count,
        )
        launch = LaunchId(name=f"slow-{self.round_count}-{host_indexes[0]}")
        results: dict[str, Any] = {}
        try:
            workers = executor.start_group(worker_spec, launch)
            _raise_failure(workers.wait_until_ready(self.plan.timeout_s))
            request = Request("probe", Probe)
            answer = workers.ask(request, self.plan.timeout_s, "looking for devices")
            devices = grid.choose_devices(
                device=DeviceClass(worker_spec.device),
                ranks=None,
                probes=[_raise_failure(answer)],
                named_frameworks=[worker_spec.framework],
            )
            yield results
            for name in step_names:
                results[name] = run_step(name, workers, devices)
                yield results
            executor.close_group(workers)
            yield results
        except (HostError, GridError) as error:
            yield from repeat(str(error))

    def _measure_case(self, quantity: str, workers: Group, devices: grid.MeasuredDevices) -> float:
        """Measure the case of a quantity in a launch, and return its time in seconds.

        Args:
            quantity: The quantity, a key of `specs`.
            workers: The worker processes of the launch.
            devices: The devices of these workers.

        Raises:
            HostError: The workers fail, or do not answer.

        """
        case, key = grid.resolve_case(self.specs[quantity], devices)
        values = {"case": case, "plan": self.plan, "key": key, "injection": None, "pace": None}
        request = Request("measure", Run, values)
        answer = workers.ask(request, self.plan.timeout_s, f"measuring {quantity}")
        return launch_time_s(_raise_failure(answer))

    def _request_chip_times(
        self, operation: str, workers: Group, _: grid.MeasuredDevices
    ) -> list[ChipTimes]:
        """Ask all worker processes for the times of their chips, and return their replies.

        `operation` is the name of the request, such as ``chips_jax``. Raises HostError if a process
        fails or does not answer.
        """
        payload_bytes = max(spec.payload_bytes for spec in self.specs.values())
        request = Request(
            operation, ChipTimes, {"rounds": _CHIP_ROUNDS, "payload_bytes": payload_bytes}
        )
        timeout_s = _ALL_HOSTS_TIMEOUT_FACTOR * self.plan.timeout_s
        replies = _raise_failure(workers.ask_each(request, timeout_s, "measuring chips"))
        return list(map(_raise_failure, replies))


def make_group_measurer(options: argparse.Namespace, transport: HostsTransport) -> GroupMeasurer:
    """Return a GroupMeasurer that measures all-reduce and permute of each requested payload.

    If the framework has no permute, only all-reduce is measured. If `options` name no device, all
    hosts are asked for their devices, and the best device that all of them have is used.

    Args:
        options: The options of `busbw find-slow`.
        transport: The transport that starts workers on the hosts.

    Raises:
        HostError: A host does not tell its devices, or the hosts have different devices.
        GridError: No device can be used.

    """
    framework = FRAMEWORKS[options.framework]
    worker_spec = WorkerSpec(
        python=sys.executable, framework=options.framework, default_variables=framework.environment
    )
    processes = options.processes or len(transport.names)
    device = options.device
    if device is None:
        all_hosts = replace(
            worker_spec, cluster=ProcessGroupSize(processes=processes), ranks=processes
        )
        probes = [probe(all_hosts, Executor(transport))]
        device = grid.choose_devices(
            device=None, ranks=None, probes=probes, named_frameworks=()
        ).device
    specs = grid.select_specs(
        GridOptions(
            frameworks=(options.framework,),
            collectives=("all_reduce", "permute"),
            payloads=tuple(options.payloads),
        )
    )
    return GroupMeasurer(
        transport=transport,
        worker_spec=replace(
            worker_spec,
            device=device.value,
            ranks=options.ranks_per_process or (1 if device is DeviceClass.CPU else None),
            cluster=ProcessGroupSize(processes=processes // len(transport.names)),
        ),
        specs={
            f"{spec.collective.replace('_', '-')} {payload_text(spec.payload_bytes)}": spec
            for spec in specs
        },
        plan=MeasurementPlan(launches=1, timeout_s=options.case_timeout),
    )


def _raise_failure(answer: T | Failure) -> T:
    """Return the `answer` of workers, or raise HostError if the answer is a Failure."""
    if isinstance(answer, Failure):
        raise HostError(answer.message)
    return answer


@dataclass
class RoundMeasurer:
    """The object that measures rounds of groups, and records which hosts do not answer.

    Attributes:
        hosts: The names of all hosts.
        measure_groups: The function that measures a round, and returns an answer for each group of
            the round: the times of the group or, if the measurement fails, the reason.
        rng: The random numbers that choose in which order hosts are measured.
        unreachable_hosts: The hosts that are not measured any more, because they did not answer.
        failure_reasons: The reason of the last failure of each group that failed, and of each of
            its hosts. The key of a host is a tuple with the host alone, ``(host,)``.

    """

    hosts: Sequence[str]
    measure_groups: Callable[[Round], Sequence[TimesByQuantity | str]]
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    unreachable_hosts: set[str] = field(default_factory=set)
    failure_reasons: dict[HostGroup, str] = field(default_factory=dict)
    # Maps each host that is still measured to the partners with which the host has failed since it
    # last answered. A host that failed in a larger group, where another host may not have answered,
    # is mapped to itself. So the set of a host is empty if the host answers.
    _failed_partners: dict[str, set[str]] = field(default_factory=dict)
    _silent_round_count: int = 0

    @property
    def reachable_hosts(self) -> list[str]:
        """The hosts that are still measured, in the order of `hosts`."""
        return [host for host in self.hosts if host not in self.unreachable_hosts]

    def measure_round(self, groups: Iterable[HostGroup]) -> dict[HostGroup, TimesByQuantity]:
        """Measure a round, and return the times of each group that answers.

        Unreachable hosts are left out of their groups. A group with fewer than two reachable hosts
        is not measured. If hosts do not answer, they are measured again, in pairs with answering
        hosts, until each host has either answered or become unreachable. Raises HostError if no
        host has answered in several successive rounds.
        """
        reachable = [tuple(h for h in group if h not in self.unreachable_hosts) for group in groups]
        times = self._measure_and_record([group for group in reachable if len(group) > 1])
        self._silent_round_count = 0 if self._answering_hosts else self._silent_round_count + 1
        if self._silent_round_count >= _MAX_SILENT_ROUNDS:
            raise HostError(next(iter(self.failure_reasons.values())))
        while any(self._failed_partners.values()) and self._answering_hosts:
            self._measure_silent_hosts()
        return times

    @property
    def _answering_hosts(self) -> set[str]:
        """The hosts that answered when they were last measured."""
        return {host for host, failed in self._failed_partners.items() if not failed}

    def _measure_and_record(self, groups: Sequence[HostGroup]) -> dict[HostGroup, TimesByQuantity]:
        """Measure groups, record which hosts answer, and return the times of answering groups.

        If a group does not answer, the reason is recorded for the group and for each of its hosts.
        """
        times: dict[HostGroup, TimesByQuantity] = {}
        for group, answer in zip(groups, self.measure_groups(tuple(groups)) if groups else ()):
            if isinstance(answer, str):
                self.failure_reasons |= dict.fromkeys([group, *((host,) for host in group)], answer)
                for host in group:
                    failed = group if len(group) == 2 else (host,)
                    self._failed_partners.setdefault(host, set()).update(failed)
            else:
                times[group] = answer
                self._failed_partners.update((host, set()) for host in group)
        return times

    def _measure_silent_hosts(self) -> None:
        """Measure each silent host in a pair with an answering host that is new to it.

        A host is silent if it did not answer when it was last measured. A host that stays silent
        becomes unreachable when it has failed with several answering hosts. If no silent host gets
        a new partner, all silent hosts become unreachable.
        """
        partners = sorted(self._answering_hosts)
        self.rng.shuffle(partners)
        pairs = []
        for host, failed in self._failed_partners.items():
            partner = next((h for h in partners if failed and h not in failed), None)
            if partner is not None:
                partners.remove(partner)
                pairs.append(sorted_pair(host, partner))
        self._measure_and_record(pairs)
        answering = self._answering_hosts
        for host, failed in list(self._failed_partners.items()):
            if failed and (len(failed & answering) >= _MIN_FAILED_PARTNERS or not pairs):
                del self._failed_partners[host]
                self.unreachable_hosts.add(host)


def sorted_pair(first: str, second: str) -> HostGroup:
    """Return the group of two hosts, with their names in alphabetical order."""
    return (min(first, second), max(first, second))


def rounds_of_pairs(hosts: Sequence[str]) -> list[Round]:
    """Return rounds of pairs, in which every two hosts are a pair exactly once.

    The rounds are those of a round-robin tournament. An even number n of hosts needs n - 1 rounds.
    An odd number n needs n rounds, and in each round a different host has no partner.
    """
    # The empty name stands for no host.
    circle = [*hosts, *([""] if len(hosts) % 2 else [])]
    rounds = []
    for _ in range(len(circle) - 1):
        facing = zip(circle[: len(circle) // 2], reversed(circle))
        rounds.append(tuple(sorted_pair(a, b) for a, b in facing if a and b))
        circle[1:] = [circle[-1], *circle[1:-1]]
    return rounds


def rounds_of_groups(hosts: Sequence[str], rng: random.Random) -> list[Round]:
    """Return rounds, each of which divides all hosts at random into groups of about equal size.

    A round has 8 groups or more, and a group has 18 hosts or fewer. For n hosts there are about
    log2(n) - 2 rounds. So 64 hosts need 4 rounds of 8 groups.
    """
    groups = len(hosts) // min(_GROUP_SIZE, len(hosts) // _MIN_GROUPS)
    rounds = math.ceil(math.log2(len(hosts))) - 2
    orders = [rng.sample(hosts, len(hosts)) for _ in range(rounds)]
    return [
        tuple(tuple(sorted(order[first::groups])) for first in range(groups)) for order in orders
    ]
