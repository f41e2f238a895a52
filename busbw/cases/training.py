"""The grid of training steps: what is asked of collectives, as the all-reduce inside of a step.

A step is a Spec of its collective that names the step. So bytes, ranks, the kind of collective
and its strategy stay what they are everywhere, only what is timed is another thing. It is no
collective of its own: it has no HLO instruction, no factor of the bus, no exact values.
"""

from __future__ import annotations

from dataclasses import replace

from busbw.frameworks import FRAMEWORKS
from busbw.model import CNN, MIB, Spec, payload_text, row_bytes

from .grid import Asked, GridError, specs
from .strategies import strategy_specs

# Gradients where nobody asked for payloads: computing takes long where they are large.
STEP_PAYLOADS = (1 * MIB, 4 * MIB, 16 * MIB)


def step_specs(step: str, asked: Asked) -> tuple[Spec, ...]:
    """The steps of the grid; none where what is asked for is of other steps alone.

    Frameworks and strategies that this step has not drop out. Raises GridError for what no step
    has: another collective than the all-reduce of sums in place of float32, another clock than the
    host's, axes, for the dense step other payloads than whole inputs.
    """
    _check(step, asked)
    frameworks = tuple(name for name in asked.frameworks if step in FRAMEWORKS[name].steps)
    if step == CNN:
        return strategy_specs(frameworks, asked)
    _check_rows(asked)
    # Those strategies of collectives that the frameworks have together.
    known = {name for framework in frameworks for name in FRAMEWORKS[framework].strategies}
    strategies = tuple(name for name in asked.strategies if name in known)
    if not strategies:
        return ()
    found = specs(replace(asked, frameworks=frameworks, strategies=strategies))
    return tuple(replace(spec, step=step) for spec in found)


def collectives_alone(steps: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """The collectives that these steps hold, by themselves: the same payloads and ranks."""
    return tuple(dict.fromkeys(replace(spec, step="") for spec in steps))


def _check(step: str, asked: Asked) -> None:
    for what, given, accepted in (
        ("collective", asked.collectives, ("all_reduce",)),
        ("reduce op", asked.reduce_ops, ("sum",)),
        ("placement", asked.placements, ("default", "in_place")),
        ("dtype", asked.dtypes, ("float32",)),
        ("clock", (asked.clock,), ("default", "host")),
        ("axes", (asked.axes,), ("",)),
    ):
        for word in given:
            if word not in accepted:
                known = " or ".join(accepted) if any(accepted) else "none"
                raise GridError(f"a {step} training step has no {what} {word}; it has {known}")


def _check_rows(asked: Asked) -> None:
    for size in asked.payloads:
        if size % row_bytes("float32"):
            raise GridError(
                f"a gradient of {payload_text(size)} is no multiple of "
                f"{payload_text(row_bytes('float32'))}, the weights of one input"
            )
