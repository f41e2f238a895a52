"""Health counters of devices, which a separate process on each host reads after every case.

If such a process does not answer in time, it is killed, and no counters are read any more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.schedules import Side
from busbw.driver.transport import Request, WorkerSpec
from busbw.frameworks import FRAMEWORKS
from busbw.judge.decision import Finding
from busbw.model.case import Case, CaseSpec
from busbw.model.field_types import NotNegative
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import CPU_QUOTA
from busbw.model.verdict import Verdict
from busbw.model.words import seconds_text
from busbw.session.machine import worker_spec_of
from busbw.session.measure import Observer
from busbw.session.state import MeasuredSession

from .worker_health import HealthReading

HEALTH_VALUE = "health"
_TIMEOUT_S = 10.0

# The variable with the script of the fake framework. With the key ``"counts"`` in the script the
# devices of this framework have counters.
_SCRIPT_VARIABLE = "BUSBW_FAKE"

# Throttling for less than this fraction of the time between two readings is not reported.
_MIN_THROTTLED_FRACTION = 0.01

# Throttling explains a slower case if it took at least this fraction of the time that the case
# lost. The time of a launch is the lower quartile of its samples, and the time of a case is the
# median of its launches. So stops in three quarters of the samples of half of the launches are
# enough to make a case slower.
_MIN_THROTTLED_LOSS_FRACTION = 1 / 3


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthChanges:
    """The health counters that changed while a case ran.

    A name is a device and a counter, such as ``gpu 0 PCIe replays``. In a session with several
    hosts, a name begins with the host.

    Attributes:
        errors: Maps the name of each changed error counter to the pair (count before the first
            change, count after the last change).
        throttled_s: Maps the name of each device and reason for throttling to the seconds of
            throttling while the case ran.

    """

    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    throttled_s: Mapping[str, NotNegative] = field(default_factory=dict)

    def with_added_changes(
        self, earlier: HealthReading, later: HealthReading, prefix: str = ""
    ) -> HealthChanges:
        """Return a copy to which the changes between two readings of a host are added.

        `earlier` and `later` are the two readings. `prefix` is put before the names of counters,
        such as ``host1, ``.
        """
        errors = dict(self.errors)
        throttled_s = dict(self.throttled_s)
        for counter in sorted({*earlier.errors, *later.errors}):
            first = earlier.errors.get(counter, 0.0)
            last = later.errors.get(counter, 0.0)
            if first != last:
                errors[prefix + counter] = errors.get(prefix + counter, (first,))[0], last
        min_s = _MIN_THROTTLED_FRACTION * (later.read_s - earlier.read_s)
        for counter, seconds in later.throttled_s.items():
            # A device counts from the start of its driver, so its first count is no change. A
            # quota's time is counted from the start of the process that reads it.
            first_s = 0.0 if CPU_QUOTA in counter else seconds
            gained_s = seconds - earlier.throttled_s.get(counter, first_s)
            if gained_s > 0 and gained_s >= min_s:
                throttled_s[prefix + counter] = throttled_s.get(prefix + counter, 0.0) + gained_s
        return HealthChanges(errors=errors, throttled_s=throttled_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The health counters of all devices in a session.

    Attributes:
        readings: The last reading of each host.
        changes: Maps the name of each case to the counters that changed while the case ran. Cases
            without a changed counter are left out.

    """

    readings: tuple[HealthReading, ...]
    changes: Mapping[str, HealthChanges]


def make_observer(resolved_session: MeasuredSession, executor: Executor) -> Observer | None:
    """Return an Observer of the session, which reads the health counters of all hosts.

    `resolved_session` is the session before it measures, and `executor` starts the processes that
    read. Returns None for the fake framework, unless its script says that its devices have
    counters.
    """
    options = resolved_session.options
    target = resolved_session.machine.target
    framework = next(iter(target.device_sets))
    if FRAMEWORKS[framework].is_scripted and '"counts"' not in os.environ.get(_SCRIPT_VARIABLE, ""):
        return None
    if options.remote is None:
        # All processes on a host would read the same counters.
        options = replace(options, processes=1)
    worker_spec = worker_spec_of(options, framework, Side.CANDIDATE, device=target.device)
    observer = HealthObserver(executor, replace(worker_spec, service=HEALTH_VALUE))
    return Observer(observer.observe, observer.health)


@dataclass
class HealthObserver:
    """A reader of the health counters of all hosts, which remembers their changes by case.

    Attributes:
        executor: Starts a process on each host, which reads the counters.
        worker_spec: Describes these processes; None after reading has failed once. Then no counters
            are read any more.

    """

    executor: Executor
    worker_spec: WorkerSpec | None
    _last_readings: dict[str, HealthReading] = field(default_factory=dict)
    _changes: dict[str, HealthChanges] = field(default_factory=dict)
    _group: Group | Failure | None = None

    def health(self) -> Health | None:
        """Return the counters and their changes so far; None if no counter was read."""
        readings = tuple(self._last_readings.values())
        return Health(readings=readings, changes=dict(self._changes)) if readings else None

    def observe(self, case: Case | None) -> None:
        """Read the counters, and add their changes since the last reading to the changes of `case`.

        `case` is the case that has just run. Before the first case of a launch, `case` is None.
        Then no case ran since the last reading, and the changes are ignored. If several processes
        run on a host, the reading of the last process counts.
        """
        replies = self._ask_all_hosts(self.worker_spec) if self.worker_spec else []
        readings = {reply.host: reply for reply in replies if isinstance(reply, HealthReading)}
        failures = [reply.message for reply in replies if isinstance(reply, Failure)]
        if failures or not any(r.errors or r.throttled_s or r.values for r in readings.values()):
            self.worker_spec = None
            for message in failures[:1]:
                self.executor.on_note(f"health counters of devices are not read: {message}")
            return
        for host, reading in readings.items():
            before = self._last_readings.get(host, reading)
            prefix = f"{host}, " if len(self._last_readings) > 1 else ""
            if case is not None:
                changes = self._changes.get(case.name, HealthChanges())
                changes = changes.with_added_changes(before, reading, prefix)
                if changes != HealthChanges():
                    self._changes[case.name] = changes
            self._last_readings[host] = reading

    def _ask_all_hosts(self, worker_spec: WorkerSpec) -> Sequence[HealthReading | Failure]:
        """Return the reading of each process, or the failures of the processes without a reading.

        `worker_spec` describes the processes, which are started if they do not run.
        """
        if not isinstance(self._group, Group) or self._group.has_ended:
            self._group = self.executor.open_group(worker_spec, LaunchId(name=HEALTH_VALUE))
        if isinstance(self._group, Failure):
            return [self._group]
        request = Request(HEALTH_VALUE, HealthReading)
        replies = self._group.ask_each(request, _TIMEOUT_S, "reading health counters")
        return [replies] if isinstance(replies, Failure) else replies


def health_finding(measured_session: MeasuredSession, spec: CaseSpec, verdict: Verdict) -> Finding:
    """Return the finding on the health counters that changed while the case `spec` ran.

    The finding contains a note for each changed counter. If throttling took long enough to explain
    the lost time, the finding also contains a doubt: throttling, and not the code, may have made
    the case slower. If two stacks are interleaved, no doubt is added, because both are throttled
    alike.
    """
    health: Health | None = measured_session.extra.get(HEALTH_VALUE)
    case_name = measured_session.jobs[spec].case.name
    if health is None or case_name not in health.changes:
        return Finding()
    changes = health.changes[case_name]
    errors = [f"{name} {first:g} -> {last:g}" for name, (first, last) in changes.errors.items()]
    throttling = [
        f"{name}: throttled for {seconds_text(seconds, 3)}"
        for name, seconds in changes.throttled_s.items()
    ]
    lost_s = 0.0
    if verdict.ratio:
        runs = measured_session.measurements[spec].runs
        sampling_s = sum(run.phases_s.get("sampling", 0.0) for run in runs)
        lost_s = (1 - 1 / verdict.ratio) * sampling_s
    explains = sum(changes.throttled_s.values()) >= _MIN_THROTTLED_LOSS_FRACTION * lost_s
    is_doubted = explains and not measured_session.options.is_paired
    doubt = ", ".join(throttling) if is_doubted else ""
    return Finding(notes=(*errors, *throttling), doubt=doubt)
