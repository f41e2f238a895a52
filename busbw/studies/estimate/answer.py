"""Each method at each layout for one step: rows, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.commands.command import UsageError, usage_error
from busbw.commands.curve import NamedCurve
from busbw.model import plural

from . import methods
from .cost import (
    Cost,
    Layout,
    Level,
    bandwidth_to_hide,
    communication_for_s,
    efficiency,
    least_bandwidth,
)
from .question import Question


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """One method at one layout.

    `traffic_bytes` is what the busiest rank sends, and what it takes; `server_bytes` the same of
    a parameter server; `steps` how many messages follow each other. `step_s` and what follows from
    it are None where the computing's time is not known. `wanted_bytes_per_s` is the bandwidth that
    the bottleneck needs for the wanted efficiency; None where none suffices or none was asked for.
    `to_hide_bytes_per_s` moves what a rank sends and takes in the computing's time.
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

    @property
    def whole_s(self) -> float:
        """The step, or its communication where nothing else is known."""
        return self.communication_s if self.step_s is None else self.step_s


@dataclass(slots=True)
class Estimates:
    """Rows, best first, and what could not be answered."""

    rows: list[Estimated] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# The rule of thumb that goes with a method: payload, ranks and bandwidth to seconds.
_RULES: Mapping[str, Callable[[float, int, float], float]] = {
    "ring all-reduce": lambda payload, ranks, rate: methods.ring_rule_s(payload, rate),
    "naive ring all-reduce": methods.naive_ring_rule_s,
}
_CostOf = Callable[[float], Cost]


def estimates(question: Question) -> Estimates:
    """Raises UsageError where nothing can be answered."""
    found = Estimates(notes=list(question.notes))
    with usage_error(ValueError):
        if question.measured is not None:
            found.rows.append(_of_curve(question, question.measured))
        for hosts in question.hosts:
            _add(question, Layout(ranks=question.ranks, hosts=hosts), found)
    if not found.rows:
        raise UsageError("; ".join(found.notes))
    found.rows.sort(key=lambda row: row.whole_s)
    return found


def _add(question: Question, layout: Layout, found: Estimates) -> None:
    """The rows of one layout; a note where a link is missing or a method not defined."""
    left_out = f"left out in {plural(layout.hosts, 'host')}: "
    missing: set[Level] = set()
    for name, cost_of in _methods(question.servers, layout, found.notes, left_out):
        needed = cost_of(question.step.payload_bytes).levels - set(question.links)
        if not needed:
            found.rows.append(_row(question, layout, name, cost_of))
        missing |= needed
    if missing and question.measured is None:
        words = " and ".join(f"--{level.value}" for level in sorted(missing))
        found.notes.append(f"{left_out}what needs {words} (or --bandwidth)")


def _methods(
    asked_servers: Sequence[int], layout: Layout, notes: list[str], left_out: str
) -> Iterator[tuple[str, _CostOf]]:
    for name, method in methods.METHODS.items():
        try:
            method(1.0, layout)
        except methods.UnsupportedLayoutError as error:
            notes.append(f"{left_out}{name} all-reduce: {error}")
            continue
        yield f"{name} all-reduce", _bound(method, layout)
    for servers in asked_servers or sorted({1, layout.ranks}):
        name = f"parameter server, {servers}"
        if asked_servers or servers == 1:
            yield f"{name} dedicated", _bound(methods.dedicated, layout, servers)
        if servers <= layout.ranks:
            yield f"{name} beside workers", _bound(methods.colocated, layout, servers)
        else:
            notes.append(f"{left_out}{servers} servers beside fewer workers")


def _bound(method: Callable[..., Cost], *arguments: object) -> _CostOf:
    return lambda payload_bytes: method(payload_bytes, *arguments)


def _row(question: Question, layout: Layout, name: str, cost_of: _CostOf) -> Estimated:
    asked, links = question.step, question.links
    cost = cost_of(asked.payload_bytes)
    bottleneck = cost.bottleneck(links)
    link = links[bottleneck]

    def seconds_of(payload_bytes: float) -> float:
        return cost_of(payload_bytes).seconds(links)

    def step_of(bytes_per_s: float) -> float:
        faster = {**links, bottleneck: replace(link, bytes_per_s=bytes_per_s)}
        return asked.step_s(lambda payload_bytes: cost_of(payload_bytes).seconds(faster))

    rule_s = _RULES.get(name)
    rate = link.bytes_per_s
    row = Estimated(
        method=name,
        ranks=layout.ranks,
        hosts=layout.hosts,
        traffic_bytes=cost.sent_bytes,
        server_bytes=cost.server_bytes,
        steps=cost.steps * max(1, len(asked.buckets)),
        communication_s=asked.communication_s(seconds_of),
        bottleneck=f"{bottleneck.value}: {link.name}",
        rule_of_thumb_s=rule_s(asked.payload_bytes, layout.ranks, rate) if rule_s else None,
    )
    return _with_step(row, question, seconds_of, step_of)


def _of_curve(question: Question, measured: NamedCurve) -> Estimated:
    """The measured all-reduce itself, read from its curve; its link is the bus bandwidth's."""
    asked, n = question.step, measured.ranks
    hows: dict[str, None] = {}

    def seconds_of(payload_bytes: float) -> float:
        reading = measured.curve.read(payload_bytes)
        hows[reading.how] = None
        return reading.seconds

    def step_of(bytes_per_s: float) -> float:
        return asked.step_s(lambda payload: seconds_of(payload) * busbw / bytes_per_s)

    communication_s = asked.communication_s(seconds_of)
    traffic_bytes = 2 * (n - 1) / n * asked.payload_bytes
    busbw = traffic_bytes / communication_s
    row = Estimated(
        method="measured all-reduce",
        ranks=n,
        hosts=measured.hosts,
        traffic_bytes=traffic_bytes,
        communication_s=communication_s,
        bottleneck=f"as measured: {busbw / 1e6:.4g} MB/s busbw",
        how=" and ".join(hows),
    )
    return _with_step(row, question, seconds_of, step_of)


def _with_step(
    row: Estimated,
    question: Question,
    seconds_of: Callable[[float], float],
    step_of_bandwidth: Callable[[float], float],
) -> Estimated:
    """The row with what follows from the computing's time, if that is known."""
    compute_s, wanted = question.step.compute_s, question.wanted_efficiency
    if compute_s is None:
        return row
    step_s = question.step.step_s(seconds_of)
    wanted_bytes_per_s = None
    if wanted is not None:
        limit_s = compute_s + communication_for_s(wanted, compute_s)
        wanted_bytes_per_s = least_bandwidth(step_of_bandwidth, limit_s)
    return replace(
        row,
        step_s=step_s,
        efficiency=efficiency(step_s - compute_s, compute_s),
        to_hide_bytes_per_s=bandwidth_to_hide(2 * row.traffic_bytes, compute_s),
        wanted_bytes_per_s=wanted_bytes_per_s,
    )
