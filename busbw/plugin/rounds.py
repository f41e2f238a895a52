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

Driving = driver.Sweep | driver.Duel


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
    state: State, resolved: Mapping[Spec, Case], bundle: driver.Bundle, display: Display
) -> None:
    """All rounds. What was measured is in `state`, also after an interrupt."""
    assert state.plan is not None
    driving = _driving(state, resolved, bundle, display)
    begun_s = time.monotonic()
    try:
        driving.run()
        _keep(state, resolved, driving)
        _further(state, resolved, driving, display)
    except KeyboardInterrupt:
        state.interrupted = True
        raise
    finally:
        state.measuring_s = time.monotonic() - begun_s
        state.spent_s = driving.spent_s
        _keep(state, resolved, driving)
        display.done(state)


def _driving(
    state: State, resolved: Mapping[Spec, Case], bundle: driver.Bundle, display: Display
) -> Driving:
    assert state.plan is not None and state.target is not None
    device = state.target.device
    ranks: dict[str, int] = {}
    for spec in resolved:
        # Training on one device takes fewer than are there for the others.
        ranks[spec.framework] = max(ranks.get(spec.framework, 0), state.keys[spec].ranks)
    # Two strategies can be two names of one Case: it is measured once.
    keys = {case: state.keys[spec] for spec, case in resolved.items()}
    if state.settings.against is None:
        return driver.Sweep(
            cases=keys,
            plan=state.plan,
            starters={name: starter_of(state, name, device, ranks[name]) for name in ranks},
            bundle=bundle,
            handover=device is Device.CPU,
            injection=state.settings.injection,
            examples=state.examples,
            on_progress=display.progress,
            on_note=state.notes.append,
        )
    return driver.Duel(
        cases=keys,
        plan=state.plan,
        starters={
            name: {side: starter_of(state, name, device, ranks[name], side=side) for side in Side}
            for name in ranks
        },
        bundle=bundle,
        at_once=device is Device.CPU,
        injection=state.settings.injection,
        on_progress=display.progress,
        on_note=state.notes.append,
    )


def _keep(state: State, resolved: Mapping[Spec, Case], driving: Driving) -> None:
    if isinstance(driving, driver.Sweep):
        state.measurements = _by_spec(resolved, driving.measurements())
        return
    state.measurements = _by_spec(resolved, driving.measurements(Side.CANDIDATE))
    state.references = _by_spec(resolved, driving.measurements(Side.REFERENCE))


def _by_spec(
    resolved: Mapping[Spec, Case], measurements: tuple[Measurement, ...]
) -> dict[Spec, Measurement]:
    found = {measurement.case: measurement for measurement in measurements}
    return {spec: found[case] for spec, case in resolved.items()}


def _further(
    state: State, resolved: Mapping[Spec, Case], driving: Driving, display: Display
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
        driving.passes(tuple(dict.fromkeys(resolved[spec] for spec in wanted.specs)), wanted.passes)
        _keep(state, resolved, driving)


def _launches(measurement: Measurement) -> int:
    return len(measurement.runs) + len(measurement.failures)
