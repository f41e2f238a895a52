"""Measure all cases, then measure undecided cases again until --time-budget is used up.

The parameter `resolved_session` is the MeasuredSession without measurements that `resolve.py`
makes. The progress is shown in a single line of a terminal, or in several lines of a log.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from busbw import extensions
from busbw.driver.executor import Executor
from busbw.driver.schedules import RoundRunner, Side, StackWorkers
from busbw.driver.transport import HostError
from busbw.frameworks import FRAMEWORKS
from busbw.judge.case import plan_rerun
from busbw.judge.policy import AUTO_RANDOM_CASE_SHARE
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, LaunchId, Measurement
from busbw.model.stored import setup_changes
from busbw.model.words import DeviceClass, FailureKind, plural, shorten_list
from busbw.report.session import header_lines, reference_stack_lines

from .judge import find_decided_cases, judge_cases
from .machine import worker_spec_of
from .state import MeasuredSession

# A log, which cannot be overwritten, gets a line for a status text at most once in this interval.
LOG_INTERVAL_S = 60.0


class Display:
    """An output that shows the header and the progress of a session to the user.

    This base class shows nothing. Subclasses override `write_line` and `overwrite`.

    Attributes:
        can_overwrite: Whether the output is a terminal, on which a text can replace another text.
        verbose: Whether the header has more lines on the machine, as with -v.

    """

    can_overwrite = False
    verbose = False
    _last_line_s = -math.inf

    def write_line(self, text: str) -> None:
        """Write `text` as a line that stays. The line replaces a text of `overwrite`, if any."""

    def overwrite(self, text: str) -> None:
        """Show `text` until the next call of `overwrite` or `write_line`."""

    def write_header(self, measured_session: MeasuredSession) -> None:
        """Write lines on the machine, on the stacks and on what changed since the baselines."""
        options = measured_session.options
        environment = measured_session.environment
        baselines = None if measured_session.options.is_paired else options.baselines
        unreached = measured_session.machine.target.unreached
        home = os.path.expanduser("~")
        lines = [
            *header_lines(environment, baselines, unreached, verbose=self.verbose),
            *changed_stack_lines(measured_session),
            *reference_stack_lines(measured_session.machine.references, environment.flags, home),
        ]
        if options.inject is not None:
            lines.append(f"busbw injected: {options.inject.text}; the times are not real")
        for text in lines:
            self.write_line(text)

    def show_status(self, text: str) -> None:
        """Show `text` on the progress; in a log, only one text in LOG_INTERVAL_S seconds."""
        if self.can_overwrite:
            self.overwrite(text)
        elif time.monotonic() - self._last_line_s >= LOG_INTERVAL_S:
            self._last_line_s = time.monotonic()
            self.write_line(text)


def changed_stack_lines(measured_session: MeasuredSession) -> Iterator[str]:
    """Yield a line for each framework whose stack differs from the stack of its newest baseline.

    The line names the changes, such as ``jax 0.10.1 -> 0.10.2``. The measurements of
    `measured_session` are not used.
    """
    environment = measured_session.environment
    records = [
        (job.case.framework, record)
        for job in measured_session.jobs.values()
        if job.baseline_search.baseline is not None
        for record in job.baseline_search.baseline.sessions[-1:]
    ]
    newest = dict(sorted(records, key=lambda pair: pair[1].began))
    for framework, record in sorted(newest.items()):
        setup = {**environment.versions.get(framework, {}), **environment.flags}
        changes = ", ".join(setup_changes(record.setup, setup))
        if changes:
            yield f"busbw {framework}: other than the baseline of {record.date}: {changes}"


class Observer(NamedTuple):
    """Two functions with which an extension observes the machine while cases are measured.

    An extension declares functions in its table OBSERVERS, by the name of an extra value of the
    session. Such a function takes a MeasuredSession without measurements and the Executor, and
    returns an Observer, or None if there is nothing to observe.

    Attributes:
        observe: Called after each case of a launch, with the case that was just measured. Also
            called before the first case of a launch, with None.
        value: Returns the extra value that was observed so far; None if there is no value.

    """

    observe: Callable[[Case | None], None]
    value: Callable[[], object]


def make_observers(resolved_session: MeasuredSession, executor: Executor) -> dict[str, Observer]:
    """Return the Observers of all extensions, by the name of the extra value of each Observer."""
    makers = extensions.load_table("OBSERVERS")
    observers = {name: make(resolved_session, executor) for name, make in makers.items()}
    return {name: observer for name, observer in observers.items() if observer is not None}


def observed_values(observers: Mapping[str, Observer]) -> dict[str, Any]:
    """Return the extra values that were observed so far, by name, without those that are None."""
    values = {name: observer.value() for name, observer in observers.items()}
    return {name: value for name, value in values.items() if value is not None}


def measure_cases(
    resolved_session: MeasuredSession, executor: Executor, display: Display
) -> MeasuredSession:
    """Measure the cases of a session, and return the session with the measurements.

    If a host is lost, measuring ends, and `lost_host_text` of the result has the message.
    """
    if not resolved_session.jobs:
        return resolved_session
    measurer = _Measurer(resolved_session, executor, display)
    begun_s = time.monotonic()
    lost_host_text = ""
    try:
        measurer.measure_planned_launches()
        measurer.measure_undecided_cases()
    except HostError as error:
        lost_host_text = str(error)
    finally:
        measuring_s = time.monotonic() - begun_s
        display.write_line(f"busbw: measured in {measuring_s:.0f} s")
    return replace(
        measurer.measured_so_far(lost_host_text),
        measuring_s=measuring_s,
        spent_s=dict(executor.spent_s),
        lost_host_text=lost_host_text,
    )


def round_runner_arguments(
    resolved_session: MeasuredSession,
    executor: Executor,
    display: Display,
    observers: Mapping[str, Observer],
) -> dict[str, Any]:
    """Return the keyword arguments for a RoundRunner that measures the cases of a session.

    A RoundRunner runs rounds. In each round, a launch of each stack measures the cases of a
    framework.

    Args:
        resolved_session: The session with its cases and stacks, before it measures.
        executor: Starts the workers.
        display: Shows the progress.
        observers: The Observers of extensions, which the RoundRunner calls.

    """
    options = resolved_session.options
    device = resolved_session.machine.target.device
    jobs = sorted(resolved_session.jobs.values(), key=lambda job: job.key.ranks)
    # The largest number of ranks of each framework.
    ranks = {job.case.framework: job.key.ranks for job in jobs}
    stacks = {}
    for side in Side if options.is_paired else (Side.CANDIDATE,):
        worker_specs = {
            name: worker_spec_of(options, name, side, device=device, ranks=count)
            for name, count in ranks.items()
        }
        # The reference stays unchanged, so that a slower candidate shows as a loss.
        injection = options.inject if side is Side.CANDIDATE else None
        stacks[side] = StackWorkers(worker_specs=worker_specs, injection=injection)
    return {
        "executor": executor,
        # Two CaseSpecs with different strategies can be the same Case, which is measured once.
        "cases": {job.case: job.key for job in resolved_session.jobs.values()},
        "plan": resolved_session.plan,
        "stacks": stacks,
        "can_overlap": device is DeviceClass.CPU,
        "on_progress": display.show_status,
        "observers": [observer.observe for observer in observers.values()],
    }


class _Measurer:
    """Measures the cases of a session in launches. Its RoundRunner keeps the measurements."""

    def __init__(
        self, resolved_session: MeasuredSession, executor: Executor, display: Display
    ) -> None:
        self._resolved = resolved_session
        self._display = display
        self._observers = make_observers(resolved_session, executor)
        self._runner = RoundRunner(
            **round_runner_arguments(resolved_session, executor, display, self._observers)
        )
        self._needed_launch_counts = dict.fromkeys(
            self._runner.cases, resolved_session.plan.launches
        )

    def measured_so_far(self, lost_host_text: str = "") -> MeasuredSession:
        """Return the session with the measurements and the observed extra values so far.

        `lost_host_text` is the message about a lost host; empty if no host was lost. If a host was
        lost, each case with fewer launches than planned gets a Failure with this message.
        """
        return replace(
            self._resolved,
            extra=observed_values(self._observers),
            measurements=self._measurements_of_side(Side.CANDIDATE, lost_host_text),
            references=self._measurements_of_side(Side.REFERENCE, lost_host_text),
        )

    def _measurements_of_side(self, side: Side, lost_host_text: str) -> dict[CaseSpec, Measurement]:
        """Return the measurements of one stack so far, as `measured_so_far` does for all stacks."""
        by_case = {m.case: m for m in self._runner.measurements(side)}
        measurements = {spec: by_case[job.case] for spec, job in self._resolved.jobs.items()}
        for spec, measurement in measurements.items():
            needed = self._needed_launch_counts[measurement.case]
            if lost_host_text and measurement.launch_count < needed:
                failure = Failure(
                    kind=FailureKind.KILLED,
                    message=lost_host_text,
                    launch=LaunchId(name="not started"),
                )
                measurements[spec] = replace(measurement, failures=(*measurement.failures, failure))
        return measurements

    def measure_planned_launches(self) -> None:
        """Measure the cases in the planned launches, or in fewer launches with --launches=auto.

        With --launches=auto the first launch measures all cases. The other planned launches measure
        only the cases that the history and the first launch do not decide, and a random share of
        the decided cases. The random cases show how much launches differ. If the rule for verdicts
        does not use this difference, there are no random cases.
        """
        resolved_session = self._resolved
        cases = tuple(self._runner.cases)
        if resolved_session.options.launches:
            self._runner.run()
            return
        self._runner.run_rounds(cases, 1)
        decided = find_decided_cases(self.measured_so_far())
        chance = random.Random(resolved_session.plan.seed)
        needs_variance = resolved_session.policy.rule.max_launch_degrees_of_freedom > 0
        share = AUTO_RANDOM_CASE_SHARE if needs_variance else 0.0
        more = [case for case in cases if case not in decided or chance.random() < share]
        self._needed_launch_counts |= dict.fromkeys(set(cases) - set(more), 1)
        if more:
            self._runner.run_rounds(more, resolved_session.plan.launches - 1)

    def measure_undecided_cases(self) -> None:
        """Measure undecided cases again until all are decided or --time-budget is used up.

        If an undecided case seems slower, its additional launches begin only when the confirmation
        delay has passed since the last planned launch of the case. By then a disturbance of the
        machine may be over.
        """
        begun_s = time.monotonic()
        waited_s = 0.0
        measured_at_s = dict(self._runner.measured_at_s)
        jobs = self._resolved.jobs
        budget_s = self._resolved.options.time_budget
        while True:
            measured_session = self.measured_so_far()
            interim_verdicts = judge_cases(measured_session)
            launches = {spec: m.launch_count for spec, m in measured_session.measurements.items()}
            specs, rounds = plan_rerun(
                interim_verdicts,
                launches,
                include_neighbours=measured_session.policy.rule.compares_neighbours,
            )
            if not specs:
                return
            if time.monotonic() - begun_s - waited_s > budget_s:
                self._runner.executor.on_note(
                    f"--time-budget of {budget_s:g} s for more launches is spent; still undecided: "
                    f"{', '.join(spec.id for spec in specs)}"
                )
                return
            slower_cases = [
                spec for spec, interim in interim_verdicts.items() if interim.is_suspected
            ]
            end_s = confirmation_delay_s(measured_session, slower_cases) + max(
                (measured_at_s[jobs[spec].case] for spec in slower_cases), default=0.0
            )
            wait_s = max(0.0, end_s - time.monotonic())
            names = ", ".join(shorten_list([spec.id for spec in specs], 3, "case"))
            waiting = f"waiting {math.ceil(wait_s)} s, then " if wait_s else ""
            self._display.write_line(f"busbw: {waiting}{plural(rounds, 'more launch')} of {names}")
            waited_s += wait_s
            # The workers start while the suspected case waits.
            self._runner.run_rounds(
                tuple(dict.fromkeys(jobs[spec].case for spec in specs)), rounds, end_s
            )


def confirmation_delay_s(
    measured_session: MeasuredSession, slower_cases: Iterable[CaseSpec]
) -> float:
    """Return how many seconds to wait before cases that seem slower are measured again.

    `slower_cases` are the cases that seem slower. The wait begins when the last planned launch has
    measured the case. The result is 0

    - if two stacks are interleaved, because a disturbance of the machine slows down both,
    - if all `slower_cases` are of scripted frameworks, whose times have no disturbances.
    """
    is_scripted = all(FRAMEWORKS[spec.framework].is_scripted for spec in slower_cases)
    return (
        0.0
        if is_scripted or measured_session.options.is_paired
        else measured_session.policy.confirmation_delay_s
    )
