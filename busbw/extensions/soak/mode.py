"""A soak as a mode of sessions: the tests that measure compare every result, and time nothing.

Cases are soaked by turns until the time is over, larger payloads longer, launch after launch. Some
errors belong to a launch, others come after hours: a launch soaks for a few times as long as it
took to start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from busbw.driver.group import Group
from busbw.driver.schedules import Side
from busbw.driver.transport import Request
from busbw.judge.findings import merge_findings
from busbw.model.case import Case, Spec
from busbw.model.launch import Failure, LaunchId, Measurement
from busbw.model.verdict import Verdict
from busbw.session import judgement, machine, measurement, outputs, phases
from busbw.session.errors import usage_error
from busbw.session.forms import flag
from busbw.session.mode import Mode, measuring
from busbw.session.option import Given
from busbw.session.state import Judged, Measured

from .judge import NAME, Tally, amount_text, judge_soak, judge_soak_session
from .options import SOAK
from .worker import SoakRun

# Options of times, which a soak does not take, and of a collective that is not out of place.
_EXCLUDED = (
    *("launches", "time_budget", "fail_above", "against", "against_env", "try_env", "inject"),
    *("accept_regression", "require_baselines", "require_signature", "clock", "placement"),
    *("program", "update_baselines", "prune_baselines"),
)
# How much longer than its start a launch soaks, and how long one case has in a turn.
_START_TIMES, _TURN_S, _LEAST_S = 4.0, 2.0, 0.1


@usage_error(ValueError)
def mode_of(request: Given) -> Mode | None:
    """Return the mode of a soak, with --soak. Raises UsageError."""
    text = SOAK.found(request)
    if text is None:
        return None
    for name in _EXCLUDED:
        if request.options.get(name):
            raise ValueError(f"{flag(name)}: not with {flag(NAME)}, which takes no times")
    mode = measuring(request)
    settings = replace(mode.collected.settings, require_baselines=False)
    return replace(
        mode,
        collected=replace(mode.collected, settings=settings),
        judged=partial(phases.judged, run=partial(phases.on_machine, run=_run)),
        written=outputs.with_outputs,
    )


def _run(running: phases.Running, resolved: Measured) -> Judged:
    return Soak(running, resolved).run()


@dataclass
class Soak:
    """Compares every result of the resolved cases for the time of --soak."""

    running: phases.Running
    resolved: Measured
    tallies: dict[Case, Tally] = field(init=False)
    _observers: Mapping[str, measurement.Observer] = field(init=False)
    _end_s: float = 0.0
    _launches: int = 0

    def __post_init__(self) -> None:
        self.tallies = {job.case: Tally() for job in self.resolved.jobs.values()}
        self._observers = measurement.observers_of(self.resolved, self.running.executor)

    def run(self) -> Judged:
        """Soak all cases, and judge them. After an interrupt the verdicts so far are notes."""
        begun_s, executor = time.monotonic(), self.running.executor
        self._end_s = begun_s + self.resolved.settings.extra[NAME]
        try:
            with executor:
                while frameworks := dict.fromkeys(case.framework for case in self._open_cases()):
                    for framework in frameworks:
                        if self._open_cases(framework):
                            self._launch(framework)
        except KeyboardInterrupt:
            for verdict in self._verdicts(self.resolved).values():
                executor.on_note(f"{verdict.spec.id}: {verdict.headline()}")
            self.running.within.keep(self.resolved)
            raise
        finally:
            soaked_s = time.monotonic() - begun_s
            self.running.within.display.done("soaked for", soaked_s)
        return self._judged(soaked_s)

    def _open_cases(self, framework: str = "") -> list[Case]:
        """Return the cases to continue; after the end, the cases without an iteration."""
        is_late = time.monotonic() >= self._end_s
        return [
            case
            for case, tally in self.tallies.items()
            if framework in ("", case.framework)
            and not tally.is_over
            and not (is_late and tally.iterations)
        ]

    def _launch(self, framework: str) -> None:
        self._launches += 1
        launch = LaunchId(pass_number=self._launches, framework=framework)
        begun_s, executor = time.monotonic(), self.running.executor
        starter = machine.starter_of(
            self.resolved.settings,
            framework,
            Side.CANDIDATE,
            device=self.resolved.machine.target.device,
            ranks=max(job.key.ranks for job in self.resolved.jobs.values()),
        )
        with executor.counted("starting"):
            group = executor.open(starter, launch)
        if isinstance(group, Failure):
            for case in self._open_cases(framework):
                self._add(case, group)
            return
        start_s = time.monotonic() - begun_s
        if self._launches == 1:
            # The requested time is that of iterations, however long the first start took.
            self._end_s += start_s
        end_s = time.monotonic() + max(_TURN_S, _START_TIMES * start_s)
        self._observe(None)
        with executor.counted("measuring"):
            while time.monotonic() < end_s and (cases := self._open_cases(framework)):
                self._soak(group, self._next(cases))
                if group.is_over:
                    return
        executor.close(group)

    def _next(self, cases: Sequence[Case]) -> Case:
        """Return the case with the least time for its size: each doubling has as much more.

        Cases that were wrong in an earlier session have twice the time of others.
        """
        least_bytes = min(case.payload_bytes for case in cases)

        def weighted_s(case: Case) -> tuple[float, int]:
            share = 1 + math.log2(case.payload_bytes / least_bytes)
            share *= 2 if case in self.resolved.wrong_before else 1
            return self.tallies[case].soaked_s / share, -case.payload_bytes

        return min(cases, key=weighted_s)

    def _soak(self, group: Group, case: Case) -> None:
        left_s = max(0.0, self._end_s - time.monotonic())
        amount = amount_text(self.tallies.values())
        self.running.within.display.now_and_then(f"busbw: soaking: {amount}, {left_s:.0f} s left")
        seconds, plan = max(_LEAST_S, min(_TURN_S, left_s)), self.resolved.plan
        key = next(job.key for job in self.resolved.jobs.values() if job.case == case)
        values = {"case": case, "plan": plan, "key": key, "seconds": seconds}
        request, doing = Request("soak", SoakRun, values), f"soaking {case.name}"
        replies = group.ask_each(request, plan.timeout_s + seconds, doing)
        for process, reply in enumerate([replies] if isinstance(replies, Failure) else replies):
            self._add(case, reply, process)
        self._observe(case)

    def _observe(self, case: Case | None) -> None:
        for observer in self._observers.values():
            observer.observe(case)

    def _add(self, case: Case, reply: SoakRun | Failure, process: int = 0) -> None:
        self.tallies[case] = self.tallies[case].plus(reply, process)

    def _verdicts(self, observed: Measured) -> dict[Spec, Verdict]:
        hosts = observed.machine.process_hosts
        verdicts = {
            spec: replace(verdict, extra={NAME: Tally()})
            for spec, verdict in observed.skipped.items()
        }
        for spec, job in observed.jobs.items():
            verdict = judge_soak(spec, job.case, self.tallies[job.case], hosts)
            findings = judgement.findings_at(observed, spec, verdict)
            verdicts[spec] = merge_findings(verdict, findings)
        return {spec: verdicts[spec] for spec in observed.specs}

    def _judged(self, soaked_s: float) -> Judged:
        """Return the verdicts. The history keeps the failures alone, since there are no times."""
        extra = measurement.values_of(self._observers)
        observed = replace(self.resolved, measuring_s=soaked_s, extra=extra)
        verdicts = self._verdicts(observed)
        failures = {
            spec: Measurement(case=job.case, failures=(failure,))
            for spec, job in observed.jobs.items()
            if (failure := verdicts[spec].failure) is not None
        }
        return Judged(
            collected=observed.collected,
            session=judge_soak_session(list(verdicts.values()), self.tallies),
            verdicts=verdicts,
            observed=replace(observed, measurements=failures),
        )
