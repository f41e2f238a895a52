"""Options → Specs: the grid of one test, and what no session could measure of those selected.

A test asks for the collectives of the grid, or with `Steps` for what trains. No hardware is asked
and nothing is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw import grid
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Asked, GridError, Spec
from busbw.model.launch import Injection, OwnProcesses
from busbw.model.words import Clock, Extra, payload_text
from busbw.workloads import WORKLOADS
from busbw.workloads.program import program_spec

from .settings import Settings, how_to_get
from .state import Collected


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The training steps that a test asks for, or with `alone` their collectives by themselves."""

    step: str
    alone: bool = False


def with_specs(collected: Collected, steps: Steps | None) -> tuple[Collected, tuple[Spec, ...]]:
    """`collected` with the Specs of one test, and these Specs. Raises GridError."""
    settings = collected.settings
    asked = settings.compile
    if steps is None and asked is not None and settings.programs:
        framework = _asked(settings).frameworks[0]
        specs = more = tuple(program_spec(framework, one) for one in settings.programs)
    elif steps is None and settings.programs:
        specs = more = tuple(
            dict.fromkeys(spec for one in collected.programs for spec in one.times)
        )
    elif steps is None:
        specs = more = grid.specs(_asked(settings))
    else:
        specs = _of_training(settings, steps)
        more = () if steps.alone else specs
    found = replace(collected, grid=tuple(dict.fromkeys((*collected.grid, *more))))
    if asked is None or steps is not None:
        return found, specs
    return found, tuple(
        replace(spec, topology=topology.name, compiler=label)
        for topology in asked.topologies
        for label in asked.labels
        for spec in specs
    )


def _of_training(settings: Settings, steps: Steps) -> tuple[Spec, ...]:
    """Collectives alone do not belong to the grid of collectives: steps have other payloads.

    --prune-baselines would remove the baselines of payloads that the grid lacks.
    """
    asked = replace(_asked(settings), payloads=settings.step_payloads)
    found = grid.step_specs(WORKLOADS[steps.step], asked)
    return grid.collectives_alone(found) if steps.alone else found


def _asked(settings: Settings) -> Asked:
    if not settings.frameworks:
        raise GridError(f"neither jax nor tensorflow is installed here; {how_to_get('jax')}")
    return settings.asked


def is_empty(settings: Settings, steps: Steps | None) -> bool:
    """Whether the strategies that are asked for are none of the test's."""
    if steps is None:
        known = {name for one in FRAMEWORKS.values() for name in one.strategies}
        return known.isdisjoint(settings.asked.strategies)
    try:
        return not _of_training(settings, steps)
    except GridError:
        # Reported when the grid is made.
        return False


def problem(collected: Collected, specs: Sequence[Spec]) -> str:
    """Why the selected `specs` cannot be measured as the options ask, or ""."""
    settings = collected.settings
    if collected.nothing_asked and not collected.grid:
        # Strategies can be those of collectives or of training, and of one framework alone.
        return (
            f"nothing to measure: {', '.join(settings.frameworks)} with the strategies "
            f"{', '.join(settings.asked.strategies)}; those of tf.distribute for training want "
            "-m training"
        )
    if specs and settings.injection is not None:
        return _injection_problem(settings.injection, specs)
    return ""


def _injection_problem(injection: Injection, specs: Sequence[Spec]) -> str:
    # With an injection, training in groups of processes is skipped with a reason.
    able = [spec for spec in specs if not isinstance(spec.workload, OwnProcesses)]
    sizes = sorted({spec.payload_bytes for spec in able})
    for size in injection.payloads:
        if size not in sizes:
            there = ", ".join(map(payload_text, sizes)) or "none"
            return (
                f"--inject: {payload_text(size)} is no payload of the selected tests; "
                f"they have {there}"
            )
    for spec in able if injection.extra is Extra.DELAY else ():
        is_meant = spec.payload_bytes in (injection.payloads or sizes)
        if not is_meant or FRAMEWORKS[spec.framework].scripted:
            continue
        if not FRAMEWORKS[spec.framework].injects:
            return (
                "--inject: TensorFlow's program cannot do a delay; it takes memory, or leave it "
                "out: --frameworks=jax"
            )
        if spec.clock == Clock.DISPATCH.value:
            return "--inject: a delay is for chains, not for the single calls of --clock=dispatch"
    return ""
