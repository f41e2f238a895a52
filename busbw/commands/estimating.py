"""Each method at each placement for one workload: rows for the report, best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw import costmodel
from busbw.costmodel import Cost, Level, Link, Placement
from busbw.report import Estimated

from .measured import Measured
from .workload import AskedWrongly, Workload

_CostOf = Callable[[float], Cost]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is to be estimated. No `servers`: one, and one beside each rank."""

    workload: Workload
    ranks: int
    hosts: tuple[int, ...]
    links: Mapping[Level, Link]
    servers: tuple[int, ...] = ()
    wanted_efficiency: float | None = None
    measured: Measured | None = None

    @property
    def levels(self) -> frozenset[Level]:
        """The levels that the placements have."""
        inside = {Level.INTRA for hosts in self.hosts if self.ranks > hosts}
        return frozenset(inside | {Level.INTER for hosts in self.hosts if hosts > 1})


@dataclass(slots=True)
class Answer:
    """Rows, best first, and what could not be answered."""

    rows: list[Estimated] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def answered(question: Question) -> Answer:
    """Raises AskedWrongly where nothing can be answered."""
    answer = Answer()
    try:
        if question.measured is not None:
            answer.rows.append(_of_curve(question, question.measured))
        for hosts in question.hosts:
            _place(question, Placement(ranks=question.ranks, hosts=hosts), answer)
    except ValueError as error:
        raise AskedWrongly(str(error)) from error
    if not answer.rows:
        raise AskedWrongly("; ".join(answer.notes))
    answer.rows.sort(key=_worth)
    return answer


def _worth(row: Estimated) -> float:
    return row.communication_s if row.step_s is None else row.step_s


def _place(question: Question, placement: Placement, answer: Answer) -> None:
    """The rows of one placement; a note where a link is lacking or a method not defined."""
    where = "1 host" if placement.hosts == 1 else f"{placement.hosts} hosts"
    lacking: set[Level] = set()
    for name, cost_of, rule in _methods(question, placement, answer.notes, where):
        levels = cost_of(question.workload.payload_bytes).levels
        if levels <= set(question.links):
            answer.rows.append(_row(question, placement, name, cost_of, rule))
        lacking |= levels - set(question.links)
    if lacking and question.measured is None:
        words = " and ".join(f"--{level.value}" for level in sorted(lacking))
        answer.notes.append(f"left out in {where}: what needs {words} (or --bandwidth)")


def _methods(
    question: Question, placement: Placement, notes: list[str], where: str
) -> Iterator[tuple[str, _CostOf, Callable[[float, Link], float] | None]]:
    for name, method in costmodel.METHODS.items():
        try:
            method(1.0, placement)
        except costmodel.UnplacedError as error:
            notes.append(f"left out in {where}: {name} all-reduce: {error}")
            continue
        yield f"{name} all-reduce", _placed(method, placement), _rule(name, placement)
    for servers in question.servers or sorted({1, placement.ranks}):
        if question.servers or servers == 1:
            dedicated = _served(costmodel.dedicated, placement, servers)
            yield f"parameter server, {servers} dedicated", dedicated, None
        if servers <= placement.ranks:
            beside = _served(costmodel.beside, placement, servers)
            yield f"parameter server, {servers} beside workers", beside, None
        else:
            notes.append(f"left out in {where}: {servers} servers beside fewer workers")


def _placed(method: costmodel.Method, placement: Placement) -> _CostOf:
    return lambda payload_bytes: method(payload_bytes, placement)


def _served(
    method: Callable[[float, Placement, int], Cost], placement: Placement, servers: int
) -> _CostOf:
    return lambda payload_bytes: method(payload_bytes, placement, servers)


def _rule(name: str, placement: Placement) -> Callable[[float, Link], float] | None:
    """The rule of thumb that goes with a method, over one kind of link."""
    if name == "ring":
        return lambda payload, link: costmodel.ring_rule_s(payload, link.bytes_per_s)
    if name == "naive ring":
        return lambda payload, link: costmodel.naive_ring_rule_s(
            payload, placement.ranks, link.bytes_per_s
        )
    return None


def _row(
    question: Question,
    placement: Placement,
    name: str,
    cost_of: _CostOf,
    rule: Callable[[float, Link], float] | None,
) -> Estimated:
    workload, links = question.workload, question.links
    cost = cost_of(workload.payload_bytes)
    bottleneck = cost.bottleneck(links)

    def seconds_of(payload_bytes: float) -> float:
        return cost_of(payload_bytes).seconds(links)

    def step_of(bytes_per_s: float) -> float:
        faster = {**links, bottleneck: replace(links[bottleneck], bytes_per_s=bytes_per_s)}
        return workload.step_s(lambda payload_bytes: cost_of(payload_bytes).seconds(faster))

    row = Estimated(
        method=name,
        ranks=placement.ranks,
        hosts=placement.hosts,
        traffic_bytes=cost.sent_bytes,
        server_bytes=cost.server_bytes,
        steps=cost.steps * max(1, len(workload.buckets)),
        communication_s=workload.communication_s(seconds_of),
        bottleneck=f"{bottleneck.value}: {links[bottleneck].name}",
        rule_of_thumb_s=rule(workload.payload_bytes, links[bottleneck]) if rule else None,
    )
    return _with_step(row, question, workload.step_s, seconds_of, step_of)


def _with_step(
    row: Estimated,
    question: Question,
    step_of_seconds: Callable[[Callable[[float], float]], float],
    seconds_of: Callable[[float], float],
    step_of_bandwidth: Callable[[float], float],
) -> Estimated:
    """The row with what follows from the computing's time, if that is known."""
    compute_s = question.workload.compute_s
    if compute_s is None:
        return row
    step_s = step_of_seconds(seconds_of)
    wanted = None
    if question.wanted_efficiency is not None:
        limit_s = compute_s + costmodel.communication_for_s(question.wanted_efficiency, compute_s)
        wanted = costmodel.least_bandwidth(step_of_bandwidth, limit_s)
    return replace(
        row,
        step_s=step_s,
        efficiency=costmodel.efficiency(step_s - compute_s, compute_s),
        to_hide_bytes_per_s=costmodel.bandwidth_to_hide(2 * row.traffic_bytes, compute_s),
        wanted_bytes_per_s=wanted,
    )


def _of_curve(question: Question, measured: Measured) -> Estimated:
    """The measured all-reduce itself, read from its curve; its link is the bus bandwidth's."""
    workload, n = question.workload, measured.ranks
    hows: dict[str, None] = {}

    def seconds_of(payload_bytes: float) -> float:
        reading = measured.curve.read(payload_bytes)
        hows[reading.how] = None
        return reading.seconds

    communication_s = workload.communication_s(seconds_of)
    bus_factor = 2 * (n - 1) / n
    busbw = bus_factor * workload.payload_bytes / communication_s

    def step_of(bytes_per_s: float) -> float:
        return workload.step_s(lambda payload: seconds_of(payload) * busbw / bytes_per_s)

    row = Estimated(
        method="measured all-reduce",
        ranks=n,
        hosts=measured.hosts,
        traffic_bytes=bus_factor * workload.payload_bytes,
        communication_s=communication_s,
        bottleneck=f"as measured: {busbw / 1e6:.4g} MB/s busbw",
        how=" and ".join(hows),
    )
    return _with_step(row, question, workload.step_s, seconds_of, step_of)


def implied_links(measured: Measured) -> dict[Level, Link]:
    """The link over which a ring has the measured latency and bandwidth; none where none fits."""
    if measured.curve.line is None or not math.isfinite(measured.curve.line.bytes_per_s):
        return {}
    line = costmodel.link_of(measured.curve.line, measured.ranks)
    link = Link(name="of the curve", bytes_per_s=line.bytes_per_s, latency_s=line.latency_s)
    return {Level.INTRA: link, Level.INTER: link}


def hosts_of(asked: Sequence[int] | None) -> tuple[int, ...]:
    """All ranks in one host, and whatever else was asked for."""
    return tuple(dict.fromkeys((1, *(asked or ()))))
