"""The answer: a row for each method at each layout, with what follows from the computing's time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from busbw.model.words import plural

from . import methods
from .methods import Cost, Layout, Level
from .question import Question, QuestionError

# The logarithms of the ends of a search, as factors of a bandwidth.
_LOG_ENDS = (math.log(1e-24), math.log(1e24))
_HALVINGS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """One method at one layout; None where something is not known or was not asked for.

    `traffic_bytes` is what the busiest rank sends, and what it takes; `server_bytes` the same of
    a parameter server; `steps` how many messages follow each other. `wanted_bytes_per_s` is the
    bandwidth that the bottleneck needs for the wanted efficiency, None where none suffices.
    `to_hide_bytes_per_s` moves what a rank sends and takes in the computing's time, and
    `rule_of_thumb_s` is what a rule says of the communication.
    """

    method: str
    ranks: int
    hosts: int
    traffic_bytes: float
    communication_s: float
    bottleneck: str
    server_bytes: float | None = None
    steps: int | None = None
    step_s: float | None = None
    efficiency: float | None = None
    wanted_bytes_per_s: float | None = None
    to_hide_bytes_per_s: float | None = None
    rule_of_thumb_s: float | None = None


# Rows, best first, and notes, also on what could not be answered.
Answer: TypeAlias = tuple[list[Estimated], list[str]]

_CostOf = Callable[[float], Cost]


def estimates(question: Question) -> Answer:
    """Estimate each method at each layout. Raises QuestionError where there is none."""
    found = [
        line
        for hosts in question.hosts
        for line in _of_layout(question, Layout(ranks=question.ranks, hosts=hosts))
    ]
    rows = [line for line in found if isinstance(line, Estimated)]
    notes = [line for line in found if isinstance(line, str)]
    if not rows:
        raise QuestionError("; ".join(notes))
    return sorted(rows, key=lambda row: row.step_s or row.communication_s), notes


def _of_layout(question: Question, layout: Layout) -> Iterator[Estimated | str]:
    """The rows of a layout; a note where a link is missing or a method not defined."""
    left_out = f"left out in {plural(layout.hosts, 'host')}: "
    missing: set[Level] = set()
    for name, cost_of in _methods(question.servers, layout):
        try:
            needed = cost_of(question.step.payload_bytes).levels - set(question.links)
        except methods.UnsupportedLayoutError as error:
            yield f"{left_out}{error}"
            continue
        if not needed:
            yield _row(question, layout, name, cost_of)
        missing |= needed
    if missing:
        words = " and ".join(f"--{level.value}" for level in sorted(missing))
        yield f"{left_out}what needs {words} (or --bandwidth)"


def _methods(asked_servers: Sequence[int], layout: Layout) -> Iterator[tuple[str, _CostOf]]:
    def laid(method: Callable[..., Cost], *servers: int) -> _CostOf:
        return lambda payload_bytes: method(payload_bytes, layout, *servers)

    for name, method in methods.METHODS.items():
        yield f"{name} all-reduce", laid(method)
    for k in asked_servers or sorted({1, layout.ranks}):
        if asked_servers or k == 1:
            yield f"parameter server, {k} dedicated", laid(methods.dedicated, k)
        yield f"parameter server, {k} beside workers", laid(methods.colocated, k)


def _row(question: Question, layout: Layout, name: str, cost_of: _CostOf) -> Estimated:
    step, links = question.step, question.links
    cost = cost_of(step.payload_bytes)
    bottleneck = cost.bottleneck(links)
    link = links[bottleneck]

    def seconds_of(size: float, factor: float = 1.0) -> float:
        faster = replace(link, bytes_per_s=link.bytes_per_s * factor)
        return cost_of(size).seconds({**links, bottleneck: faster})

    # "Tensorflow Strategies on parallel computing": d/b and m d/b, without one of two passes.
    passes = {"ring all-reduce": 1, "naive ring all-reduce": layout.ranks}.get(name)
    row = Estimated(
        method=name,
        ranks=layout.ranks,
        hosts=layout.hosts,
        traffic_bytes=cost.sent_bytes,
        server_bytes=cost.server_bytes,
        steps=cost.steps * max(1, len(step.buckets)),
        communication_s=step.communication_s(seconds_of),
        bottleneck=f"{bottleneck.value}: {link.name}",
        rule_of_thumb_s=passes and passes * step.payload_bytes / link.bytes_per_s,
    )
    return _with_step(row, question, link.bytes_per_s, seconds_of)


def _with_step(
    row: Estimated, question: Question, bytes_per_s: float, seconds_of: Callable[..., float]
) -> Estimated:
    """The row with what follows from the computing's time, if that is known."""
    step, wanted, factor = question.step, question.wanted_efficiency, None
    if step.compute_s is None:
        return row
    step_s = step.step_s(seconds_of)
    if wanted is not None:
        # Tt = (1-P)/P Ts, formula (2) of "tensorflow分布式".
        factor = least_factor(
            lambda by: step.step_s(lambda size: seconds_of(size, by)), step.compute_s / wanted
        )
    return replace(
        row,
        step_s=step_s,
        # P = Ts / (Ts + Tt) = 1 / (1 + Tt/Ts): "tensorflow分布式", formula (1).
        efficiency=1 / (1 + (step_s - step.compute_s) / step.compute_s),
        # "placement的估计": (received + sent) / time of an iteration.
        to_hide_bytes_per_s=2 * row.traffic_bytes / step.compute_s,
        wanted_bytes_per_s=None if factor is None else factor * bytes_per_s,
    )


def least_factor(step_of: Callable[[float], float], limit_s: float) -> float | None:
    """The least factor of a bandwidth whose step takes `limit_s` or less; None where none does.

    `step_of` gives the step's time for a factor and never rises with it. For one link without
    latency and a ring it gives formula (3) of "tensorflow分布式", 2 D P (n-1) / (n (1-P) Ts).
    """
    low, high = _LOG_ENDS
    if step_of(math.exp(high)) > limit_s:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        suffices = step_of(math.exp(middle)) <= limit_s
        low, high = (low, middle) if suffices else (middle, high)
    return math.exp(high)
