"""Options → Specs: the grid of one test, and what no session could measure of those selected.

No hardware is asked and nothing is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw import grid
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import GridError, GridOptions, Spec
from busbw.model.launch import Injection
from busbw.model.words import Clock, Extra, payload_text

from .settings import Settings, how_to_get
from .state import Collected


def with_specs(collected: Collected) -> tuple[Collected, tuple[Spec, ...]]:
    """Return `collected` with the Specs of one test, and these Specs. Raises GridError."""
    specs = grid.specs(asked(collected.settings))
    return replace(collected, grid=tuple(dict.fromkeys((*collected.grid, *specs)))), specs


def asked(settings: Settings) -> GridOptions:
    """Return the grid of the options. Raises GridError where no framework is installed."""
    if not settings.frameworks:
        raise GridError(f"neither jax nor tensorflow is installed here; {how_to_get('jax')}")
    return settings.asked


def problem(collected: Collected, specs: Sequence[Spec]) -> str:
    """Why the selected `specs` cannot be measured as the options ask, or ""."""
    settings = collected.settings
    if specs and settings.injection is not None:
        return _injection_problem(settings.injection, specs)
    return ""


def _injection_problem(injection: Injection, specs: Sequence[Spec]) -> str:
    sizes = sorted({spec.payload_bytes for spec in specs})
    for size in injection.payloads:
        if size not in sizes:
            there = ", ".join(map(payload_text, sizes)) or "none"
            return (
                f"--inject: {payload_text(size)} is no payload of the selected tests; "
                f"they have {there}"
            )
    for spec in specs if injection.extra is Extra.DELAY else ():
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
