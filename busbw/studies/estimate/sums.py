"""What communication leaves of a training step, and each method at each layout: rows, best first.

Ts is a step's computing alone (forward and backward), Tt its communication, P the efficiency.
Seconds, bytes and bytes per second.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from busbw.commands import UsageError, usage_error
from busbw.model.words import plural
from busbw.studies.curve import MeasuredCurve

from . import methods
from .methods import Cost, Layout, Level, Links

# The logarithms of the ends of a search, as factors of a bandwidth.
_LOG_ENDS = (math.log(1e-24), math.log(1e24))
_HALVINGS = 64

Seconds = Callable[[float], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingStep:
    """One step: `buckets` are bytes in the order of sending, none where all go at once.

    `compute_s` is None where it was not said. `overlap` is the share of the computing, 0 to 1, at
    the end of which gradients are ready to be sent while the rest is computed: the backward pass.
    """

    payload_bytes: float
    buckets: tuple[float, ...] = ()
    compute_s: float | None = None
    overlap: float = 0.0

    def communication_s(self, seconds_of: Seconds) -> float:
        return sum(map(seconds_of, self.buckets)) or seconds_of(self.payload_bytes)

    def step_s(self, seconds_of: Seconds) -> float:
        """Tp = Ts + max(0, Tt - overlap x Ts): what could not be done meanwhile comes on top.

        A bucket is sent when it is full and the one before has gone (S. Li et al., "PyTorch
        distributed", VLDB 2020, section 3.2.3). There must be a `compute_s`.
        """
        assert self.compute_s is not None
        if not self.buckets:
            hidden_s = self.overlap * self.compute_s
            return self.compute_s + max(0.0, seconds_of(self.payload_bytes) - hidden_s)
        # Most buckets are alike.
        seconds_of = functools.cache(seconds_of)
        whole_bytes = math.fsum(self.buckets)
        made_bytes = free_s = 0.0
        for bucket in self.buckets:
            made_bytes += bucket
            ready_s = self.compute_s * (1 - self.overlap * (1 - made_bytes / whole_bytes))
            free_s = max(free_s, ready_s) + seconds_of(bucket)
        return free_s


def buckets_of(gradients: Sequence[float], bucket_bytes: float) -> tuple[float, ...]:
    """Bytes of each bucket that is reduced at once, in the order in which they are full.

    `gradients` are tensors in the order of the forward pass, and made from the last to the first.
    A tensor is not cut, as in PyTorch; one alone stands for tensors that are not known, and is.
    """
    if len(gradients) == 1:
        count, rest_bytes = divmod(gradients[0], bucket_bytes)
        return (bucket_bytes,) * int(count) + ((rest_bytes,) if rest_bytes else ())
    full, held_bytes = [], 0.0
    for gradient in reversed(gradients):
        held_bytes += gradient
        if held_bytes >= bucket_bytes:
            full.append(held_bytes)
            held_bytes = 0.0
    return (*full, held_bytes) if held_bytes else tuple(full)


def efficiency(communication_s: float, compute_s: float) -> float:
    """P = Ts / (Ts + Tt) = 1 / (1 + Tt/Ts): "tensorflow分布式", formula (1)."""
    return 1 / (1 + communication_s / compute_s)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What to estimate, and `notes` on it. No `servers`: one, and one for each rank.

    `parameters` and `dtype` are absent where only bytes are known. The ranks and hosts are those of
    the `measured` curve, if there is one.
    """

    name: str
    step: TrainingStep
    ranks: int = 0
    hosts: tuple[int, ...] = ()
    links: Links = field(default_factory=dict)
    parameters: int | None = None
    dtype: str = ""
    servers: tuple[int, ...] = ()
    wanted_efficiency: float | None = None
    measured: MeasuredCurve | None = None
    notes: tuple[str, ...] = ()


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


@dataclass(slots=True)
class Estimates:
    """Rows, best first, and what could not be answered."""

    rows: list[Estimated] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


_CostOf = Callable[[float], Cost]


def estimates(question: Question) -> Estimates:
    """Raises UsageError where nothing can be answered."""
    found = Estimates(notes=list(question.notes))
    with usage_error(ValueError):
        if question.measured is not None:
            found.rows.append(_of_curve(question, question.measured))
        for hosts in question.hosts if question.links else ():
            _add(question, Layout(ranks=question.ranks, hosts=hosts), found)
    if not found.rows:
        raise UsageError("; ".join(found.notes))
    found.rows.sort(key=lambda row: row.step_s or row.communication_s)
    return found


def _add(question: Question, layout: Layout, found: Estimates) -> None:
    """The rows of one layout; a note where a link is missing or a method not defined."""
    left_out = f"left out in {plural(layout.hosts, 'host')}: "
    missing: set[Level] = set()
    for name, cost_of in _methods(question.servers, layout):
        try:
            needed = cost_of(question.step.payload_bytes).levels - set(question.links)
        except methods.UnsupportedLayoutError as error:
            found.notes.append(f"{left_out}{error}")
            continue
        if not needed:
            found.rows.append(_row(question, layout, name, cost_of))
        missing |= needed
    if missing:
        words = " and ".join(f"--{level.value}" for level in sorted(missing))
        found.notes.append(f"{left_out}what needs {words} (or --bandwidth)")


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
    payload_bytes, links = question.step.payload_bytes, question.links
    cost = cost_of(payload_bytes)
    bottleneck = cost.bottleneck(links)
    link = links[bottleneck]

    def seconds_of(size: float, factor: float = 1.0) -> float:
        faster = replace(link, bytes_per_s=link.bytes_per_s * factor)
        return cost_of(size).seconds({**links, bottleneck: faster})

    row = Estimated(
        method=name,
        ranks=layout.ranks,
        hosts=layout.hosts,
        traffic_bytes=cost.sent_bytes,
        server_bytes=cost.server_bytes,
        steps=cost.steps * max(1, len(question.step.buckets)),
        communication_s=question.step.communication_s(seconds_of),
        bottleneck=f"{bottleneck.value}: {link.name}",
    )
    # "Tensorflow Strategies on parallel computing": d/b and m d/b, without one of two passes.
    passes = {"ring all-reduce": 1, "naive ring all-reduce": layout.ranks}.get(name)
    if passes is not None:
        row = replace(row, rule_of_thumb_s=passes * payload_bytes / link.bytes_per_s)
    return _with_step(row, question, link.bytes_per_s, seconds_of)


def _of_curve(question: Question, curve: MeasuredCurve) -> Estimated:
    """The measured all-reduce itself, read from its curve; its link is the bus bandwidth's."""
    n, hows = question.ranks, dict[str, None]()

    def seconds_of(size: float, factor: float = 1.0) -> float:
        reading = curve.read(size)
        hows[reading.how] = None
        return reading.seconds / factor

    communication_s = question.step.communication_s(seconds_of)
    traffic_bytes = 2 * (n - 1) / n * question.step.payload_bytes
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
        efficiency=efficiency(step_s - step.compute_s, step.compute_s),
        # "placement的估计": (received + sent) / time of an iteration.
        to_hide_bytes_per_s=2 * row.traffic_bytes / step.compute_s,
        wanted_bytes_per_s=None if factor is None else factor * bytes_per_s,
    )
