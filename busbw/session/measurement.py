"""All cases are measured, then the undecided ones again, while time is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from busbw import extensions
from busbw.driver.executor import Executor
from busbw.driver.schedules import Schedule, Side, Stack
from busbw.driver.transport import HostError
from busbw.frameworks import FRAMEWORKS
from busbw.judge.case import plan_rerun
from busbw.model.case import Case, Spec
from busbw.model.launch import Failure, LaunchId, Measurement
from busbw.model.words import Device, FailureKind, plural

from . import judgement, machine
from .display import Display
from .state import Measured


class Observer(NamedTuple):
    """What an extension observes while cases are measured.

    `observe` is called with each case that was measured, and with None before the first case of a
    launch. `value` returns the extra value so far, None for none.

    An extension has a table OBSERVERS, from the name of the extra value to a function of what will
    be measured and of the Executor. The function returns an Observer, or None where there is
    nothing to observe.
    """

    observe: Callable[[Case | None], None]
    value: Callable[[], object]


def observers_of(resolved: Measured, executor: Executor) -> dict[str, Observer]:
    """Return the observers of all extensions, by the names of their values."""
    makers = extensions.table("OBSERVERS")
    observers = {name: make(resolved, executor) for name, make in makers.items()}
    return {name: observer for name, observer in observers.items() if observer is not None}


def values_of(observers: Mapping[str, Observer]) -> dict[str, Any]:
    """Return the extra values of a session so far."""
    values = {name: observer.value() for name, observer in observers.items()}
    return {name: value for name, value in values.items() if value is not None}


def measured(
    resolved: Measured,
    executor: Executor,
    display: Display,
    keep: Callable[[Measured], None],
) -> Measured:
    """Until a host is lost; what there is goes to `keep`, also after an interrupt."""
    if not resolved.jobs:
        return resolved
    observers = observers_of(resolved, executor)
    schedule = _schedule(resolved, executor, display, observers)
    begun_s, interrupted, lost = time.monotonic(), False, ""
    try:
        schedule.run()
        again = tuple(case for case in schedule.cases if case in resolved.wrong_before)
        if again:
            schedule.passes(again, resolved.plan.launches)
        _measure_undecided(resolved, schedule, display, observers)
    except HostError as error:
        lost = str(error)
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        found = replace(
            _so_far(resolved, schedule, observers, lost),
            measuring_s=time.monotonic() - begun_s,
            spent_s=dict(executor.spent_s),
            interrupted=interrupted,
            lost=lost,
        )
        keep(found)
        display.done("interrupted after" if interrupted else "measured in", found.measuring_s)
    return found


def _schedule(
    resolved: Measured, executor: Executor, display: Display, observers: Mapping[str, Observer]
) -> Schedule:
    settings, device = resolved.settings, resolved.machine.target.device
    ranks: dict[str, int] = {}
    for job in resolved.jobs.values():
        ranks[job.case.framework] = max(ranks.get(job.case.framework, 0), job.key.ranks)
    stacks = {
        side: Stack(
            starters={
                name: machine.starter_of(settings, name, side, device=device, ranks=ranks[name])
                for name in ranks
            },
            # Only the candidate is made slower, not the reference.
            injection=settings.injection if side is Side.CANDIDATE else None,
        )
        for side in (Side if resolved.paired else (Side.CANDIDATE,))
    }
    return Schedule(
        executor=executor,
        # Two strategies can be two names of one Case: it is measured once.
        cases={job.case: job.key for job in resolved.jobs.values()},
        plan=resolved.plan,
        stacks=stacks,
        shared=device is Device.CPU,
        on_progress=display.progress,
        observers=[observer.observe for observer in observers.values()],
    )


def _so_far(
    resolved: Measured, schedule: Schedule, observers: Mapping[str, Observer], lost: str = ""
) -> Measured:
    def by_spec(side: Side) -> dict[Spec, Measurement]:
        found = {one.case: one for one in schedule.measurements(side)}
        least = resolved.plan.launches if lost else 0
        return {spec: _cut_off(found[job.case], least, lost) for spec, job in resolved.jobs.items()}

    return replace(
        resolved,
        extra=values_of(observers),
        measurements=by_spec(Side.CANDIDATE),
        references=by_spec(Side.REFERENCE) if resolved.paired else {},
    )


def _cut_off(found: Measurement, launches: int, lost: str) -> Measurement:
    """A case that has fewer launches than it should have failed; `lost` says why."""
    if found.launches >= launches:
        return found
    launch = LaunchId(name="not started")
    failure = Failure(kind=FailureKind.KILLED, message=lost, launch=launch)
    return replace(found, failures=(*found.failures, failure))


def _measure_undecided(
    resolved: Measured, schedule: Schedule, display: Display, observers: Mapping[str, Observer]
) -> None:
    """Right after the first launches: those that confirm a suspicion may come later."""
    begun_s, waited_s = time.monotonic(), 0.0
    budget_s = resolved.settings.time_budget_s
    while True:
        found = _so_far(resolved, schedule, observers)
        rulings = judgement.rulings(found)
        launches = {spec: one.launches for spec, one in found.measurements.items()}
        by_neighbours = found.policy.rule.compares_neighbours
        specs, rounds = plan_rerun(rulings, launches, by_neighbours=by_neighbours)
        if not specs:
            return
        if time.monotonic() - begun_s - waited_s > budget_s:
            schedule.executor.on_note(
                f"--time-budget of {budget_s:g} s for more launches is spent; still undecided: "
                f"{', '.join(spec.id for spec in specs)}"
            )
            return
        suspects = [spec for spec, one in rulings.items() if one.is_suspected]
        wait_s = max(0.0, begun_s + _later_s(resolved, suspects) - time.monotonic())
        display.say(_again_text(specs, rounds, wait_s))
        time.sleep(wait_s)
        waited_s += wait_s
        again = tuple(dict.fromkeys(resolved.jobs[spec].case for spec in specs))
        schedule.passes(again, rounds)


def _again_text(specs: Sequence[Spec], rounds: int, wait_s: float) -> str:
    shown = ", ".join(spec.id for spec in specs[:3])
    more = f" and {len(specs) - 3} more" if len(specs) > 3 else ""
    when = f" in {math.ceil(wait_s)} s" if wait_s else ""
    return f"busbw: {plural(rounds, 'more launch')} of {shown}{more}{when}"


def _later_s(resolved: Measured, suspects: Iterable[Spec]) -> float:
    """Two stacks in turn share what disturbs them; what is scripted does not change by itself."""
    scripted = all(FRAMEWORKS[spec.framework].scripted for spec in suspects)
    return 0.0 if scripted or resolved.paired else resolved.policy.confirmation_delay_s
