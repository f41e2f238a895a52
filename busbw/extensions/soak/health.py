"""Health counters of devices, read after every case by a process of its own on each host.

A process that does not answer in time is killed, and nothing is read any more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.schedules import Side
from busbw.driver.transport import Request, Starter
from busbw.frameworks import FRAMEWORKS
from busbw.judge.findings import Finding
from busbw.model.case import Case, Spec
from busbw.model.field_types import NotNegative
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import CPU_QUOTA
from busbw.model.verdict import Verdict
from busbw.model.words import seconds_text
from busbw.session.machine import starter_of
from busbw.session.measure import Observer
from busbw.session.state import Measured

from .worker_health import Reading

NAME = "health"
_TIMEOUT_S = 10.0

# The script of the fake framework, whose devices have counters with ``"counts": true``.
_SCRIPT = "BUSBW_FAKE"

# Throttling for a shorter part of the time between two readings explains nothing.
_LEAST_SHARE = 0.01

# Throttling explains a loss if it took at least this part of the time that the case lost. It need
# not be all of it: the time of a launch is the lower quartile of its samples, and that of a case
# the median of its launches, so that stops in three quarters of the samples of half of the launches
# are enough to move it.
_EXPLAINS = 1 / 3


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthChanges:
    """What changed while a case ran: errors from one count to another, and seconds of throttling.

    The name of a counter begins with the name of its host if there are several hosts.
    """

    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    throttled_s: Mapping[str, NotNegative] = field(default_factory=dict)

    def plus(self, before: Reading, after: Reading, prefix: str = "") -> HealthChanges:
        """Return these changes and those between two later readings of a host."""
        errors, throttled_s = dict(self.errors), dict(self.throttled_s)
        for counter in sorted({*before.errors, *after.errors}):
            name, first = prefix + counter, before.errors.get(counter, 0.0)
            last = after.errors.get(counter, 0.0)
            if first != last:
                errors[name] = errors.get(name, (first, last))[0], last
        least_s = _LEAST_SHARE * (after.read_s - before.read_s)
        for counter, seconds in after.throttled_s.items():
            # A counter that is new counts from the start of the driver. That of a quota counts from
            # the start of its reader, and is new where somebody changed the quota.
            gained_s = seconds - before.throttled_s.get(
                counter, 0.0 if CPU_QUOTA in counter else seconds
            )
            if gained_s > 0 and gained_s >= least_s:
                name = prefix + counter
                throttled_s[name] = throttled_s.get(name, 0.0) + gained_s
        return HealthChanges(errors=errors, throttled_s=throttled_s)

    @property
    def throttling(self) -> tuple[str, ...]:
        """Texts such as ``gpu 0 power cap: throttled for 3.2 s``."""
        return tuple(
            f"{name}: throttled for {seconds_text(seconds, 3)}"
            for name, seconds in self.throttled_s.items()
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts of all changes, such as ``gpu 0 PCIe replays 1 -> 3``."""
        errors = (f"{name} {first:g} -> {last:g}" for name, (first, last) in self.errors.items())
        return (*errors, *self.throttling)


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The health counters of a session: the last reading of each host.

    `changes` has what changed during a case, by the name of the case.
    """

    readings: tuple[Reading, ...]
    changes: Mapping[str, HealthChanges]


def observer_of(resolved: Measured, executor: Executor) -> Observer | None:
    """Return what reads the counters of all hosts, None where there are none."""
    options, target = resolved.options, resolved.machine.target
    framework, is_local = next(iter(target.device_sets)), options.remote is None
    script = json.loads(os.environ.get(_SCRIPT, "{}"))
    if FRAMEWORKS[framework].is_scripted and not script.get("counts"):
        return None
    starter = starter_of(options, framework, Side.CANDIDATE, device=target.device)
    # Several processes of a host would all read the same.
    processes = 1 if is_local else starter.processes
    starter = replace(starter, service=NAME, processes=processes, defaults={})
    observer = HealthObserver(executor, starter)
    return Observer(observer.observe, observer.value)


@dataclass
class HealthObserver:
    """Reads counters in the processes that `starter` starts, None once that failed."""

    executor: Executor
    starter: Starter | None
    _last: dict[str, Reading] = field(default_factory=dict)
    _changes: dict[str, HealthChanges] = field(default_factory=dict)
    _group: Group | None = None

    def value(self) -> Health | None:
        """Return the counters so far, None if nothing was read."""
        readings = tuple(self._last.values())
        return Health(readings=readings, changes=dict(self._changes)) if readings else None

    def observe(self, case: Case | None) -> None:
        """Add what changed since the last reading to what changed during `case`."""
        for host, reading in self._read().items():
            before = self._last.get(host, reading)
            prefix = f"{host}, " if len(self._last) > 1 else ""
            if case is not None:
                changes = self._changes.get(case.name, HealthChanges())
                changes = changes.plus(before, reading, prefix)
                self._changes |= {case.name: changes} if changes.texts else {}
            self._last[host] = reading

    def _read(self) -> Mapping[str, Reading]:
        """Return a reading of each host; of several processes on a host the last."""
        if self.starter is None:
            return {}
        if self._group is None or self._group.is_over:
            group = self.executor.open_group(self.starter, LaunchId(name=NAME))
            if isinstance(group, Failure):
                return self._give_up(group.message)
            self._group = group
        request, doing = Request(NAME, Reading), "reading health counters"
        replies = self._group.ask_each(request, _TIMEOUT_S, doing)
        if isinstance(replies, Failure):
            return self._give_up(replies.message)
        readings = {r.host: r for r in replies if isinstance(r, Reading)}
        problem = next((r.problem for r in readings.values() if r.problem), "")
        has_counters = any(r.errors or r.throttled_s or r.values for r in readings.values())
        return readings if has_counters and not problem else self._give_up(problem)

    def _give_up(self, reason: str) -> Mapping[str, Reading]:
        self.starter = None
        if self._group is not None:
            self._group.kill()
        if reason:
            self.executor.on_note(f"health counters of devices are not read: {reason}")
        return {}


def finding_at(measured: Measured, spec: Spec, verdict: Verdict) -> Finding:
    """Return notes on what changed during a case, and a doubt if throttling explains a loss.

    Two interleaved stacks are throttled alike, unless one of the stacks is the reason.
    """
    health: Health | None = measured.extra.get(NAME)
    changes = health.changes.get(measured.jobs[spec].case.name) if health is not None else None
    if changes is None:
        return Finding()
    lost_s = 0.0
    if verdict.ratio:
        runs = measured.measurements[spec].runs
        sampling_s = sum(run.phases_s.get("sampling", 0.0) for run in runs)
        lost_s = (1 - 1 / verdict.ratio) * sampling_s
    explains = sum(changes.throttled_s.values()) >= _EXPLAINS * lost_s
    doubt = ", ".join(changes.throttling) if explains and not measured.is_paired else ""
    return Finding(notes=changes.texts, doubt=doubt)
