"""`python -m busbw estimate`: what gradient synchronisation should cost a training step.

Each method at each layout is a row, best first. Ts is a step's computing alone (forward and
backward), Tt its communication, P the efficiency. MB is 10^6 bytes in the table, as the rates of
links are stated; the document has bytes and seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from busbw.commands import UsageError, add_options, usage_error
from busbw.model.words import plural, seconds_text
from busbw.report.renderers import rendered
from busbw.report.table import Column, Table, attributes, rows_of
from busbw.studies import Study
from busbw.studies.curve import MeasuredCurve

from . import methods
from .methods import Cost, Layout, Level, Link
from .question import GRADIENTS, OPTIONS, Question, memory_by_optimizer, question_of

ORDER = 3
SCHEMA = 1
# The logarithms of the ends of a search, as factors of a bandwidth.
_LOG_ENDS = (math.log(1e-24), math.log(1e24))
_HALVINGS = 64

_DESCRIPTION = """
Estimate by formula what gradient synchronization costs a training step. For each placement of the
ranks and each method, print the traffic of a rank, the time of communication and of the step, and
the efficiency, best first. docs/studies.md lists formulas, models and links. MB is 10^6 bytes, MiB
2^20; rates are those of one direction. Example: busbw estimate --model=resnet-50 --ranks=8
--bandwidth=10gbe
"""


def _add_gradients(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is exchanged (one of)")
    add_options(group.add_mutually_exclusive_group(required=True), GRADIENTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """One method at one layout; None where something is not known or was not asked for.

    `traffic_bytes` is what the busiest rank sends, and what it takes; `server_bytes` the same of
    a parameter server; `steps` how many messages follow each other. `wanted_bytes_per_s` is the
    bandwidth that the bottleneck needs for the wanted efficiency, None where none suffices.
    `to_hide_bytes_per_s` moves what a rank sends and takes in the computing's time, and
    `rule_of_thumb_s` is what a rule says of the communication. `how` a curve was read.
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
    how: str = ""


# Rows, best first, and notes, also on what could not be answered.
Answer: TypeAlias = tuple[list[Estimated], list[str]]

_CostOf = Callable[[float], Cost]


def estimates(question: Question) -> Answer:
    """Raises UsageError where nothing can be answered."""
    with usage_error(ValueError):
        found = list(_answers(question))
    rows = [one for one in found if isinstance(one, Estimated)]
    notes = [*question.notes, *(one for one in found if isinstance(one, str))]
    if not rows:
        raise UsageError("; ".join(notes))
    return sorted(rows, key=lambda row: row.step_s or row.communication_s), notes


def _answers(question: Question) -> Iterator[Estimated | str]:
    if question.measured is not None:
        yield _measured(question, question.measured)
    for hosts in question.hosts if question.links else ():
        yield from _of_layout(question, Layout(ranks=question.ranks, hosts=hosts))


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


def _measured(question: Question, curve: MeasuredCurve) -> Estimated:
    """The all-reduce itself, read from its curve; its link is the bus bandwidth's."""
    n, step, hows = question.ranks, question.step, dict[str, None]()

    def seconds_of(size: float, factor: float = 1.0) -> float:
        reading = curve.read(size)
        hows[reading.how] = None
        return reading.seconds / factor

    communication_s = step.communication_s(seconds_of)
    traffic_bytes = 2 * (n - 1) / n * step.payload_bytes
    busbw = traffic_bytes / communication_s
    row = Estimated(
        method="measured all-reduce",
        ranks=n,
        hosts=question.hosts[0],
        traffic_bytes=traffic_bytes,
        communication_s=communication_s,
        bottleneck=f"as measured: {busbw / 1e6:.4g} MB/s busbw",
        how=" and ".join(hows),
    )
    return _with_step(row, question, busbw, seconds_of)


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


def _document(question: Question, answer: Answer) -> dict[str, object]:
    """Plain dicts, lists, strings, numbers and None; the unit is in the name."""
    rows, notes = answer
    return {
        "schema": SCHEMA,
        **dataclasses.asdict(question.step),
        "buckets": len(question.step.buckets),
        **attributes(question, "name", "parameters", "dtype", "wanted_efficiency"),
        "links": [
            {"level": level.value, **dataclasses.asdict(link)} for level, link in _used(question)
        ],
        "memory_bytes_per_parameter": memory_by_optimizer(question.dtype),
        "notes": notes,
        "estimates": [dataclasses.asdict(row) for row in rows],
    }


def _page(question: Question, answer: Answer) -> list[str]:
    """The head, a table with a line for each row, and the notes."""
    (rows, notes), wanted = answer, question.wanted_efficiency
    last = "bottleneck" if wanted is None else f"bottleneck, and what it needs for {wanted:g}"
    table = Table(
        columns=(
            Column("method", "method", width=34, left=True),
            Column("hosts", "hosts", width=7),
            Column("traffic_bytes", "MB a rank", text=_mb, width=11),
            Column("communication_s", "communication", text=seconds_text, width=13),
            Column("step_s", "step", text=seconds_text, width=10),
            Column("efficiency", "efficiency", text="{:.4f}".format, width=10),
            Column("last", last, left=True, gap=2),
        ),
        rows=rows_of({**dataclasses.asdict(row), "last": _last(row, wanted)} for row in rows),
    )
    below = ["", *(f"note: {note}" for note in notes)] if notes else []
    return [*_head(question), "", *rendered("text", table), *below]


def _last(row: Estimated, wanted: float | None) -> str:
    needs = ""
    if wanted is not None:
        rate = row.wanted_bytes_per_s
        needs = "no bandwidth suffices" if rate is None else f"{rate / 1e6:.0f} MB/s"
    return "; ".join(filter(None, (row.bottleneck, row.how, needs)))


def _mb(count: float) -> str:
    """Two decimals, or three digits where there is less than one MB."""
    return f"{count / 1e6:.2f}" if count >= 1e6 else f"{count / 1e6:.3g}"


def _head(question: Question) -> Iterator[str]:
    asked, parameters = question.step, question.parameters
    what = f"{question.name}: {_mb(asked.payload_bytes)} MB of gradients"
    if parameters is not None:
        what += f", {parameters} parameters in {question.dtype}"
    if asked.buckets:
        what += f", in {plural(len(asked.buckets), 'bucket')}"
    yield what + "; MB is 10^6 bytes, a rank sends and takes as much"
    if asked.compute_s is not None:
        shared = f", {100 * asked.overlap:g} % of it beside communication" if asked.overlap else ""
        yield f"computing: {seconds_text(asked.compute_s)} a step{shared}"
    kept = memory_by_optimizer(question.dtype)
    if parameters is not None and kept:
        each = (f"{name} {size} ({size * parameters / 1e9:.2f} GB)" for name, size in kept.items())
        yield f"memory, bytes a parameter for weights, gradients and state: {', '.join(each)}"
    for level, link in _used(question):
        where = {Level.INTRA: "inside a host", Level.INTER: "between hosts"}[level]
        duplex = "each direction" if link.full_duplex else "both directions together"
        rate = f"{link.bytes_per_s / 1e6:.6g} MB/s {duplex}"
        yield f"{where}: {link.name}, {rate}, {seconds_text(link.latency_s)} a step"


def _used(question: Question) -> list[tuple[Level, Link]]:
    """The links of the levels that the layouts have."""
    inside = any(question.ranks > hosts for hosts in question.hosts)
    used = {Level.INTRA: inside, Level.INTER: any(hosts > 1 for hosts in question.hosts)}
    return [(level, link) for level, link in question.links.items() if used[level]]


add_to = Study(
    name="estimate",
    help="Estimate what gradient synchronization costs a training step",
    description=_DESCRIPTION,
    options=OPTIONS,
    add_arguments=_add_gradients,
    question=question_of,
    sums=estimates,
    page=_page,
    document=_document,
    documented=False,
).add_to
