"""Options to Specs: the grid of what was asked for, as far as each framework knows it.

Known at collection, with no hardware.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from busbw.collectives import COLLECTIVES, DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model import Asked, GridError, Spec, Workload
from busbw.workloads import WORKLOADS, Collective


def specs(asked: Asked) -> tuple[Spec, ...]:
    """Every Spec of the grid, in a stable order, payloads running fastest.

    A framework takes those collectives and strategies that it knows. Raises GridError if a named
    one knows none, if a collective is left without a placement or reduce op, if a payload is not
    a whole number of elements, or if nothing is left at all.
    """
    for name in asked.collectives:
        _placements(name, asked)
        _reduce_ops(name, asked)
    grid: list[Spec] = []
    reasons = []
    for framework in asked.frameworks:
        reason = _unknown(framework, asked)
        if reason and asked.named:
            raise GridError(reason)
        reasons += [reason] if reason else []
        grid += [] if reason else _of_framework(framework, asked)
    if not grid:
        raise GridError(
            "; ".join(reasons) or "nothing to measure: no framework, dtype or payload is selected"
        )
    _check_elements(asked)
    return tuple(dict.fromkeys(grid))


def step_specs(kind: str, asked: Asked) -> tuple[Spec, ...]:
    """The training steps of this kind; none where what is asked for is of others alone.

    Frameworks and strategies that it has not drop out. Raises GridError for what no such step has.
    """
    step = WORKLOADS[kind]
    step.check(asked)
    frameworks = tuple(name for name in asked.frameworks if kind in FRAMEWORKS[name].steps)
    if step.own_strategies:
        return tuple(_own_specs(step, frameworks, asked))
    # Those strategies of collectives that the frameworks have together.
    known = {name for framework in frameworks for name in FRAMEWORKS[framework].strategies}
    strategies = tuple(name for name in asked.strategies if name in known)
    if not strategies:
        return ()
    found = specs(replace(asked, frameworks=frameworks, strategies=strategies))
    return tuple(replace(spec, workload=step.around(spec.workload)) for spec in found)


def _own_specs(step: type[Workload], frameworks: Sequence[str], asked: Asked) -> Iterator[Spec]:
    """One for each strategy that is asked for, by default all of them; none on a mesh."""
    usual = asked.strategies == ("default",)
    words = step.own_strategies if usual else asked.strategies
    for framework, name in itertools.product(() if asked.mesh else frameworks, words):
        if name in step.own_strategies:
            yield Spec(
                framework=framework,
                payload_bytes=step.own_payload_bytes,
                workload=step(),
                strategy=name,
                ranks=asked.ranks,
            )


def collectives_alone(steps: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """The collectives that these steps hold, by themselves: the same payloads and ranks."""
    return tuple(
        dict.fromkeys(replace(spec, workload=Collective.around(spec.workload)) for spec in steps)
    )


def _unknown(framework: str, asked: Asked) -> str:
    """Why `framework` has nothing of what was asked for; empty if it has something."""
    known = FRAMEWORKS[framework]
    if not set(asked.strategies) & set(known.strategies):
        return (
            f"{framework} has none of the strategies {', '.join(asked.strategies)}; "
            f"it has {', '.join(known.strategies)}"
        )
    if not known.only_sums:
        return ""
    if "all_reduce" not in asked.collectives:
        return f"{framework} has no {', '.join(asked.collectives)}; it has all_reduce"
    if "sum" not in asked.reduce_ops:
        return f"{framework} has no reduce op {', '.join(asked.reduce_ops)}; it has sum"
    if asked.mesh:
        return f"{framework} lays ranks out in no mesh ({asked.mesh})"
    return ""


def _of_framework(framework: str, asked: Asked) -> Iterator[Spec]:
    only_sums = FRAMEWORKS[framework].only_sums
    collectives = [name for name in asked.collectives if name == "all_reduce" or not only_sums]
    for collective in collectives:
        of_all_reduce = FRAMEWORKS[framework].strategies
        known = of_all_reduce if collective == "all_reduce" else ("default",)
        reduce_ops = ("sum",) if only_sums else _reduce_ops(collective, asked)
        for strategy, dtype, reduce_op, placement, size in itertools.product(
            (name for name in asked.strategies if name in known),
            asked.dtypes,
            reduce_ops,
            _placements(collective, asked),
            asked.payloads,
        ):
            yield Spec(
                framework=framework,
                payload_bytes=size,
                workload=Collective(
                    collective=collective,
                    reduce_op=reduce_op,
                    placement=placement,
                    axes=asked.axes,
                ),
                strategy=strategy,
                dtype=dtype,
                ranks=asked.ranks,
                mesh=asked.mesh,
                clock=asked.clock,
            )


def _placements(collective: str, asked: Asked) -> tuple[str, ...]:
    """Those asked for that the collective has; `default` is its first."""
    known = COLLECTIVES[collective].placements
    wanted = [known[0] if name == "default" else name for name in asked.placements]
    return _known(collective, "placement", wanted, known)


def _reduce_ops(collective: str, asked: Asked) -> tuple[str, ...]:
    """Those asked for that the collective has; ``none`` for one that reduces nothing."""
    known = COLLECTIVES[collective].reduce_ops
    return _known(collective, "reduce op", asked.reduce_ops, known) if known else ("none",)


def _known(
    collective: str, what: str, wanted: Sequence[str], known: Sequence[str]
) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name for name in wanted if name in known))
    if not found:
        raise GridError(
            f"{collective} has no {what} {', '.join(wanted)}; it has {', '.join(known)}"
        )
    return found


def _check_elements(asked: Asked) -> None:
    for dtype, size in itertools.product(asked.dtypes, asked.payloads):
        if size % DTYPES[dtype].size_bytes:
            raise GridError(
                f"a payload of {size} bytes is not a whole number of {dtype} "
                f"elements of {DTYPES[dtype].size_bytes} bytes"
            )
