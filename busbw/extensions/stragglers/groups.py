"""Groups of hosts, each a launch of its own, measured at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from busbw import grid
from busbw.driver import group as driver
from busbw.driver.executor import Executor, words_of
from busbw.driver.transport import Answer, HostError, Request, Starter, Transport
from busbw.grid import Target
from busbw.model.case import GridError, Spec
from busbw.model.cluster import Cluster
from busbw.model.launch import Arrivals, Chips, Failure, LaunchId, Plan, Run
from busbw.model.machine import Probe
from busbw.model.words import Device, FailureKind, payload_text
from busbw.stats.launches import launch_time_s

from .roll import Times
from .rounds import Group, Round


def quantity(spec: Spec) -> str:
    """Such as ``all-reduce 16M``."""
    return f"{spec.workload.collective.replace('_', '-')} {payload_text(spec.payload_bytes)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """What each process said, in the order of hosts; `why` one of the two is empty.

    `lost` is the index, in the group, of the host that gave no answer; None if that is not known.
    `is_incomplete`: something failed, which is no refusal of a framework that cannot measure it.
    """

    arrivals: Sequence[Arrivals]
    chips: Sequence[Chips]
    why: str = ""
    lost: int | None = None
    is_incomplete: bool = False


# How much longer than a pair all hosts may take: they wait for the slowest one, and in every round.
_TOGETHER = 5.0


class _NoTime(Exception):
    """Why a group gives none; the message is the sentence."""


@dataclass(kw_only=True)
class Groups:
    """On every host `each` processes, started as `starter` says, measure `specs` by `plan`.

    `transport_of` gives the transport of some hosts; the ranks of `starter` are those of a process.
    """

    transport_of: Callable[[Group], Transport]
    starter: Starter
    specs: Sequence[Spec]
    plan: Plan
    each: int = 1
    rounds: int = 0

    def measure(self, groups: Round) -> Sequence[Times | str]:
        """The seconds by quantity; or why there are none.

        All have started before one is measured, and all measure the same at the same time.
        """
        self.rounds += 1
        with ExitStack() as left:
            executors = [left.enter_context(Executor(self.transport_of(one))) for one in groups]
            taking = [_Taking(self, *one) for one in zip(executors, groups)]
            threads = left.enter_context(ThreadPoolExecutor(max(1, len(groups))))
            try:
                list(threads.map(_Taking.begin, taking))
                for spec in self.specs:
                    list(threads.map(lambda one, spec=spec: one.measure(spec), taking))
                list(threads.map(_Taking.end, taking))
            except BaseException:
                for executor in executors:
                    executor.stop()
                raise
        return [one.why or one.times_s for one in taking]

    def together(self, group: Group, spec: Spec, rounds: int) -> Together:
        """Of all hosts of `group` in one launch."""
        self.rounds += 1
        with Executor(self.transport_of(group)) as executor:
            taking = _Taking(self, executor, group, patience=_TOGETHER)
            taking.begin()
            chips = taking.chips(rounds, 0, "measuring chips")
            links = taking.chips(rounds, spec.payload_bytes, "measuring links")
            arrivals = taking.arrivals(spec, rounds)
            taking.end()
        return Together(
            arrivals=arrivals,
            chips=[replace(a, links_s=b.links_s, pairs=b.pairs) for a, b in zip(chips, links)],
            why=taking.why,
            lost=taking.lost,
            is_incomplete=taking.is_incomplete,
        )


@dataclass
class _Taking:
    """One group in one round; `why` it gave no time, as soon as something failed.

    It has `patience` times as long as the plan says for an answer.
    """

    of: Groups
    executor: Executor
    group: Group
    patience: float = 1.0
    why: str = ""
    lost: int | None = None
    is_incomplete: bool = False
    times_s: dict[str, float] = field(default_factory=dict)
    _launch: driver.Group | None = None
    _target: Target | None = None

    def begin(self) -> None:
        starter, count = self.of.starter, self.of.each * len(self.group)
        starter = replace(starter, processes=count, ranks=starter.ranks and starter.ranks * count)
        name = LaunchId(name=f"slow-{self.of.rounds}-{'-'.join(map(str, self.group))}")
        with self._failing():
            cluster = Cluster(processes=count)
            self._launch = self.executor.start(starter, name, cluster)
            failure = self._launch.begin(self.of.plan.timeout_s)
            if failure is not None:
                raise self._no_time(failure)
            probe = self._asked(Request("probe"), "looking for devices")
            assert isinstance(probe, Probe)
            self._target = grid.choose_target(
                device=Device(starter.device), ranks=None, probes=[probe], named=[probe.framework]
            )

    def measure(self, spec: Spec) -> None:
        if self.why or self._target is None:
            return
        with self._failing():
            case, key = grid.resolve(spec, self._target), self._target.key(spec)
            values = {"case": case, "plan": self.of.plan, "key": key, "injection": None}
            request = Request("measure", {**values, "pace": None})
            run = self._asked(request, f"measuring {quantity(spec)}")
            assert isinstance(run, Run)
            self.times_s[quantity(spec)] = launch_time_s(run)

    def chips(self, rounds: int, payload_bytes: int, doing: str) -> list[Chips]:
        asked = {"rounds": rounds, "payload_bytes": payload_bytes}
        return [one for one in self.each(Request("chips", asked), doing) if isinstance(one, Chips)]

    def arrivals(self, spec: Spec, rounds: int) -> list[Arrivals]:
        if self._target is None:
            return []
        with self._failing():
            case, key = grid.resolve(spec, self._target), self._target.key(spec)
            request = Request("arrivals", {"case": case, "key": key, "rounds": rounds})
            found = self.each(request, f"waiting in {quantity(spec)}")
            return [one for one in found if isinstance(one, Arrivals)]
        return []

    def each(self, request: Request, doing: str) -> list[Answer]:
        """The answers of all processes; none where one of them is lost."""
        if self._launch is None or self._launch.is_over:
            return []
        asked = dict.fromkeys(self._launch.members, request)
        timeout_s = self.patience * self.of.plan.timeout_s
        answers = self._launch.ask_each(asked, timeout_s, doing, together=True)
        found: list[Answer] = [answers] if isinstance(answers, Failure) else list(answers.values())
        refused = next((one for one in found if isinstance(one, Failure)), None)
        if refused is not None and not self.why:
            self.why = str(self._no_time(refused))
        return [] if refused is not None else found

    def end(self) -> None:
        if self._launch is not None and not self._launch.is_over:
            self.executor.close(self._launch)

    def _asked(self, request: Request, doing: str) -> Answer:
        assert self._launch is not None
        answer = self._launch.ask(request, self.of.plan.timeout_s, doing)
        if isinstance(answer, Failure):
            raise self._no_time(answer)
        return answer

    def _no_time(self, failure: Failure) -> _NoTime:
        """Return the error of a failure; a single process that ended is the cause of it."""
        index = failure.launch.member.removeprefix("worker")
        # "worker 1, worker 2: ..." did not answer in time, and may all have waited for another.
        if index and "," not in failure.message.partition(":")[0]:
            self.lost = int(index) // self.of.each
        self.is_incomplete = failure.kind is not FailureKind.UNAVAILABLE
        return _NoTime(words_of(failure))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (HostError, GridError, _NoTime) as error:
            self.why = str(error).strip()
