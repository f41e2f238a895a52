"""Rounds of measuring and judging: all cases first, then the undecided ones, while time is left.

Drives the driver and asks the judge; decides nothing itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from busbw import driver, judge
from busbw.driver import Side
from busbw.frameworks import FRAMEWORKS
from busbw.model import Case, Device, Measurement, Spec

from . import judging
from .state import State
from .terminal import Display


def starter_of(
    state: State,
    framework: str,
    device: Device | None,
    ranks: int | None,
    *,
    side: Side = Side.CANDIDATE,
) -> driver.Starter:
    """How a worker of `framework` is started; of the reference in its own environment."""
    settings = state.settings
    ours = settings.pythons.get(framework, sys.executable)
    against = settings.against
    reference = side is Side.REFERENCE and against is not None
    return driver.Starter(
        python=against.pythons.get(framework, ours) if reference and against else ours,
        framework=framework,
        device=device.value if device else "",
        ranks=ranks,
        environment=against.environment if reference and against else {},
        defaults=FRAMEWORKS[framework].environment,
    )


def measure(
    state: State, resolved: Mapping[Spec, Case], executor: driver.Executor, display: Display
) -> None:
    """All rounds. What was measured is in `state`, also after an interrupt."""
    assert state.plan is not None
    schedule = _schedule(state, resolved, executor, display)
    begun_s = time.monotonic()
    try:
        schedule.run()
        _keep(state, resolved, schedule)
        _further(state, resolved, schedule, display)
    except KeyboardInterrupt:
        state.interrupted = True
        raise
    finally:
        state.measuring_s = time.monotonic() - begun_s
        state.spent_s = executor.spent_s
        _keep(state, resolved, schedule)
        display.done(state)


def _schedule(
    state: State, resolved: Mapping[Spec, Case], executor: driver.Executor, display: Display
) -> driver.AbstractSchedule:
    assert state.plan is not None and state.target is not None
    device, paired = state.target.device, state.settings.against is not None
    ranks: dict[str, int] = {}
    for spec in resolved:
        # Training on one device takes fewer than are there for the others.
        ranks[spec.framework] = max(ranks.get(spec.framework, 0), state.keys[spec].ranks)
    stacks = {
        side: driver.Stack(
            starters={
                name: starter_of(state, name, device, ranks[name], side=side) for name in ranks
            },
            # Only what is tried is made slower, not what it is held against.
            injection=state.settings.injection if side is Side.CANDIDATE else None,
        )
        for side in (Side if paired else (Side.CANDIDATE,))
    }
    return driver.SCHEDULES["pairs" if paired else "passes"](
        executor=executor,
        # Two strategies can be two names of one Case: it is measured once.
        cases={case: state.keys[spec] for spec, case in resolved.items()},
        plan=state.plan,
        stacks=stacks,
        shared=device is Device.CPU,
        examples=state.examples,
        on_progress=display.progress,
    )


def _keep(state: State, resolved: Mapping[Spec, Case], schedule: driver.AbstractSchedule) -> None:
    state.measurements = _by_spec(resolved, schedule.measurements(Side.CANDIDATE))
    if Side.REFERENCE in schedule.stacks:
        state.references = _by_spec(resolved, schedule.measurements(Side.REFERENCE))


def _by_spec(
    resolved: Mapping[Spec, Case], measurements: tuple[Measurement, ...]
) -> dict[Spec, Measurement]:
    found = {measurement.case: measurement for measurement in measurements}
    return {spec: found[case] for spec, case in resolved.items()}


def _further(
    state: State,
    resolved: Mapping[Spec, Case],
    schedule: driver.AbstractSchedule,
    display: Display,
) -> None:
    """Launches for the undecided, until all is decided or the time for that is spent."""
    begun_s = time.monotonic()
    while True:
        judged = judging.judged(state, resolved)
        launches = {spec: _launches(state.measurements[spec]) for spec in resolved}
        wanted = judge.further(judged, launches)
        if not wanted.specs:
            return
        if time.monotonic() - begun_s > state.settings.time_budget_s:
            state.notes.append(
                f"--time-budget of {state.settings.time_budget_s:g} s for further launches is "
                f"spent; still undecided: {', '.join(spec.id for spec in wanted.specs)}"
            )
            return
        display.further(wanted)
        schedule.passes(
            tuple(dict.fromkeys(resolved[spec] for spec in wanted.specs)), wanted.passes
        )
        _keep(state, resolved, schedule)


def _launches(measurement: Measurement) -> int:
    return len(measurement.runs) + len(measurement.failures)
