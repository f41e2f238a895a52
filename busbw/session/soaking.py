"""With --soak: cases in turn, every result compared, until the time is over. Nothing is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from busbw.driver.executor import Executor
from busbw.driver.schedules import Side
from busbw.driver.soaking import Soaking
from busbw.judge.soak import judge_soak, judge_soak_session
from busbw.judge.validity import apply_counters
from busbw.model.counters import Counted
from busbw.model.soak import Tally

from . import machine
from .display import Display
from .state import Judged, Measured


def soaked(
    resolved: Measured,
    seconds: float,
    executor: Executor,
    display: Display,
    keep: Callable[[Measured], None],
) -> Judged:
    """The verdicts. An interrupt ends it, and what was found until then is told."""
    device = resolved.machine.target.device
    cases = {job.case: job.key for job in resolved.jobs.values()}
    ranks = max((key.ranks for key in cases.values()), default=None)
    soaking = Soaking(
        executor=executor,
        cases=cases,
        starters={
            name: machine.starter_of(
                resolved.settings, name, Side.CANDIDATE, device=device, ranks=ranks
            )
            for name in dict.fromkeys(case.framework for case in cases)
        },
        seconds=seconds,
        plan=resolved.plan,
        on_progress=display.soaked,
        watched=resolved.wrong_before,
        counters=machine.counters_of(resolved.settings, resolved.machine, executor),
    )
    begun_s = time.monotonic()
    try:
        soaking.run()
    except KeyboardInterrupt:
        found = _judged(resolved, soaking)
        for one in found.verdicts.values():
            executor.on_note(f"{one.spec.id}: {one.headline()}")
        keep(replace(resolved, interrupted=True))
        raise
    finally:
        display.done("soaked for", time.monotonic() - begun_s)
    return _judged(replace(resolved, measuring_s=time.monotonic() - begun_s), soaking)


def _judged(resolved: Measured, soaking: Soaking) -> Judged:
    tallies, counters = soaking.tallies, soaking.counters
    measured = replace(resolved, readings=counters.readings if counters else ())
    hosts = measured.machine.process_hosts
    found = {
        spec: apply_counters(
            judge_soak(spec, job.case, tallies.get(job.case, Tally()), hosts),
            soaking.counted.get(job.case, Counted()),
        )
        for spec, job in measured.jobs.items()
    }
    skipped = {spec: replace(one, soaked=Tally()) for spec, one in measured.skipped.items()}
    verdicts = {**skipped, **found}
    return Judged(
        collected=measured.collected,
        session=judge_soak_session(list(verdicts.values()), tallies),
        verdicts={spec: verdicts[spec] for spec in measured.specs},
        observed=measured,
    )
