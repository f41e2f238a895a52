"""The question: what a step exchanges and computes, on which ranks, over which links.

Sizes, rates, times and counts are parsed strictly: units are written out, and impossible values are
refused. Each parser raises ValueError with the sentence that the user reads.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import baselines
from busbw.commands.command import UsageError, usage_error
from busbw.commands.curve import NamedCurve, curve_in
from busbw.model import MOST_BYTES, MOST_S, listed, nearest, refusal

from . import catalog, cost
from .catalog import link_of
from .cost import Level, Link

# More would take longer to count than to send.
_MOST_BUCKETS = 10_000

_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_FACTORS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SIZE = re.compile(_NUMBER + r" ?(?:([kKMGT]|[KMGT]i)?B)?")
_RATE = re.compile(_NUMBER + r" ?([kKMGT]|[KMGT]i)?(B|bit|b)/?p?s")
_TIME = re.compile(_NUMBER + r" ?(s|ms|us)?")
_COUNT = re.compile(_NUMBER + r"([kKMG])?")

_MOST_RATE = 1e15
_MOST_RANKS = 1_000_000

SIZE_GRAMMAR = "bytes with a unit such as 553.36MB (10^6), 25MiB (2^20) or 4096B"
RATE_GRAMMAR = "a rate with a unit such as 125MB/s, 16GB/s, 63GiB/s or 10Gbit/s"
TIME_GRAMMAR = "a time such as 0.55s, 12ms or 5us"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingStep:
    """One step: `buckets` are bytes in the order of sending, none where all go at once.

    `parameters` is None where only bytes are known, `compute_s` where it was not said.
    """

    name: str
    payload_bytes: float
    buckets: tuple[float, ...] = ()
    parameters: int | None = None
    dtype: str = ""
    compute_s: float | None = None
    overlap: float = 0.0

    def communication_s(self, seconds_of: Callable[[float], float]) -> float:
        """All that is sent, one after another."""
        return sum(map(seconds_of, self.buckets)) or seconds_of(self.payload_bytes)

    def step_s(self, seconds_of: Callable[[float], float]) -> float:
        """The step; there must be a `compute_s`."""
        assert self.compute_s is not None
        # Most buckets are alike.
        seconds_of = functools.cache(seconds_of)
        if self.buckets:
            return cost.bucketed_step_s(self.buckets, seconds_of, self.compute_s, self.overlap)
        return cost.step_s(seconds_of(self.payload_bytes), self.compute_s, self.overlap)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What to estimate, and `notes` on it. No `servers`: one, and one for each rank."""

    step: TrainingStep
    ranks: int
    hosts: tuple[int, ...]
    links: Mapping[Level, Link]
    servers: tuple[int, ...] = ()
    wanted_efficiency: float | None = None
    measured: NamedCurve | None = None
    notes: tuple[str, ...] = ()

    @property
    def used_links(self) -> dict[Level, Link]:
        """The links of the levels that the layouts have."""
        inside = any(self.ranks > hosts for hosts in self.hosts)
        between = any(hosts > 1 for hosts in self.hosts)
        is_used = {Level.INTRA: inside, Level.INTER: between}
        return {level: link for level, link in self.links.items() if is_used[level]}


def parse_size(text: str) -> int:
    """Bytes, whole ones and at least one. MB is 10^6, MiB 2^20; without a unit, bytes."""
    match = _matched(_SIZE, text, f"is no size; accepted are {SIZE_GRAMMAR}")
    value = float(match[1]) * _FACTORS[match[2] or ""]
    return round(_within(value, 1, MOST_BYTES, text, "bytes"))


def parse_rate(text: str) -> float:
    """Bytes per second, above 0; an eighth of bits."""
    match = _matched(_RATE, text, f"is no rate; accepted is {RATE_GRAMMAR}")
    value = float(match[1]) * _FACTORS[match[2] or ""]
    return _within(value if match[3] == "B" else value / 8, 1, _MOST_RATE, text, "bytes/s")


def parse_duration(text: str) -> float:
    """Seconds, 0 or more; without a unit, seconds."""
    match = _matched(_TIME, text, f"is no time; accepted is {TIME_GRAMMAR}")
    value = float(match[1]) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[match[2] or "s"]
    return _within(value, 0, MOST_S, text, "seconds")


def parse_positive_duration(text: str) -> float:
    """Seconds, above 0."""
    value = parse_duration(text)
    if value == 0:
        raise ValueError(f"{text!r}; accepted is a time above 0")
    return value


def parse_count(text: str) -> int:
    """How many parameters: a whole number, or one such as 138.36M (M is 10^6)."""
    match = _COUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}; accepted is a number of parameters such as 25583592 or 138M")
    value = float(match[1]) * _FACTORS[match[2] or ""]
    return round(_within(value, 1, MOST_BYTES, text, "parameters"))


def parse_ranks(text: str) -> int:
    """A whole number from 2 on."""
    return _whole(text, least=2)


def parse_whole_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 on in a comma list, without repeats."""
    return tuple(dict.fromkeys(_whole(part, least=1) for part in text.split(",")))


def parse_share(text: str) -> float:
    """0 to 1, both included."""
    match = re.fullmatch(_NUMBER, text)
    if match is None or not 0 <= float(match[1]) <= 1:
        raise ValueError(f"{text!r}; accepted is a share from 0 to 1")
    return float(match[1])


def parse_efficiency(text: str) -> float:
    """Between 0 and 1: nothing reaches 1 but a step that communicates nothing."""
    value = parse_share(text)
    if not 0 < value < 1:
        raise ValueError(f"{text!r}; accepted is an efficiency above 0 and below 1")
    return value


def question_of(options: argparse.Namespace) -> Question:
    """The question that options ask. Raises UsageError."""
    asked = functools.partial(
        Question,
        step=_training_step(options),
        servers=options.servers or (),
        wanted_efficiency=options.want_efficiency,
    )
    if options.curve is not None:
        return _of_curve(options, asked)
    if options.curve_case is not None:
        raise UsageError("--curve-case belongs to --curve")
    links = _links(options)
    if not links:
        raise UsageError("say a link: --bandwidth, or --intra and --inter, or --curve")
    if options.ranks is None:
        raise UsageError("say how many --ranks")
    hosts = tuple(dict.fromkeys((1, *(options.hosts or ()))))
    return asked(ranks=options.ranks, hosts=hosts, links=links)


def _of_curve(options: argparse.Namespace, asked: Callable[..., Question]) -> Question:
    """Other methods over the link with which a ring has the curve's line, if it has one."""
    for name in ("bandwidth", "latency", "intra", "inter", "hosts", "half_duplex"):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise UsageError(f"--curve says where it was measured: without --{option}")
    measured = curve_in(options.curve, options.curve_case)
    if options.ranks not in (None, measured.ranks):
        raise UsageError(
            f"--ranks={options.ranks}: {options.curve} was measured on {measured.ranks}"
        )
    sizes = [size for size, _ in measured.curve.points]
    note = f"curve: {measured.name}, {len(sizes)} payloads from {sizes[0]} to {sizes[-1]} bytes"
    links: dict[Level, Link] = {}
    others = "left out, no latency and bandwidth fit the curve"
    line = measured.curve.line
    if line is not None and math.isfinite(line.bytes_per_s):
        links = dict.fromkeys(Level, link_of(line, measured.ranks))
        others = "over the link with which a ring has the curve's latency and bandwidth"
    return asked(
        ranks=measured.ranks,
        hosts=(measured.hosts,) if links else (),
        links=links,
        measured=measured,
        notes=(note, f"other methods: {others}"),
    )


def _links(options: argparse.Namespace) -> dict[Level, Link]:
    """The links that were named, one or both levels. Raises UsageError."""
    full_duplex = not options.half_duplex
    if options.latency is not None and options.bandwidth is None:
        raise UsageError("--latency belongs to --bandwidth; --intra and --inter have their own")
    if options.bandwidth is not None:
        if options.intra is not None or options.inter is not None:
            raise UsageError("--bandwidth is one link for everything: without --intra, --inter")
        one = _link_from("--bandwidth", options.bandwidth, full_duplex=full_duplex)
        return dict.fromkeys(Level, replace(one, latency_s=options.latency or one.latency_s))
    asked = {Level.INTRA: options.intra, Level.INTER: options.inter}
    return {
        level: _link_from(f"--{level.value}", text, full_duplex=full_duplex)
        for level, text in asked.items()
        if text is not None
    }


def _link_from(option: str, text: str, *, full_duplex: bool) -> Link:
    """A name or a rate, and perhaps a comma and a latency. Raises UsageError naming `option`."""
    what, _, latency = text.partition(",")
    named = catalog.known().get(what.strip().lower())
    try:
        bytes_per_s = named.bytes_per_s if named else parse_rate(what.strip())
        latency_s = parse_duration(latency.strip()) if latency else 0.0
    except ValueError as error:
        names = [one.name for one in catalog.known().values()]
        near = nearest(what.strip(), names)
        known = f"names are {listed(names, where='docs/costmodel.md')}"
        meant = f"did you mean {near!r}?" if near else known
        raise UsageError(f"{option}: {error}; {meant}") from error
    return Link(
        name=named.name if named else what.strip(),
        bytes_per_s=bytes_per_s,
        latency_s=latency_s,
        full_duplex=full_duplex,
    )


def _training_step(options: argparse.Namespace) -> TrainingStep:
    if options.compute is None:
        for option in ("overlap", "want_efficiency"):
            if getattr(options, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} needs --compute")
    name, tensors, dtype = _gradients(options)
    element_bytes = catalog.DTYPE_BYTES[dtype] if dtype else 1
    values = sum(tensors)
    return TrainingStep(
        name=name,
        payload_bytes=values * element_bytes,
        buckets=_buckets(options.bucket, [one * element_bytes for one in tensors]),
        parameters=int(values) if dtype else None,
        dtype=dtype,
        compute_s=options.compute,
        overlap=options.overlap or 0.0,
    )


def _gradients(options: argparse.Namespace) -> tuple[str, list[float], str]:
    """A name, how many values each tensor has (bytes where no dtype is known), the dtype."""
    if options.gradient_bytes is not None:
        if options.dtype is not None:
            raise UsageError("--dtype says nothing of --gradient-bytes, which are bytes")
        return "gradients", [options.gradient_bytes], ""
    dtype = options.dtype or "float32"
    if options.model is not None:
        return *_of_model(options.model), dtype
    if options.shapes is not None:
        return options.shapes.name, _counted(options.shapes), dtype
    return "parameters", [float(options.parameters)], dtype


def _of_model(name: str) -> tuple[str, list[float]]:
    model = catalog.model_of(name)
    if model is None:
        raise UsageError(f"--model: {refusal(name, [one.name for one in catalog.MODELS])}")
    if model.parameters is None:
        raise UsageError(
            f"--model={name}: its number of parameters is unknown ({model.source}); "
            "say --parameters or --shapes"
        )
    return model.name, [float(model.parameters)]


def _counted(path: Path) -> list[float]:
    with usage_error(baselines.BaselineError):
        shapes = baselines.read_json(path)
    if not isinstance(shapes, dict) or not shapes:
        raise UsageError(f'{path}: expected an object of shapes such as {{"w": [512, 512]}}')
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(type(one) is int and one > 0 for one in shape):
            raise UsageError(f"{path}: {name}: expected a list of whole numbers above 0")
    counts = catalog.parameters_of(shapes).values()
    if sum(counts) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES:g} parameters are absurd")
    return [float(count) for count in counts]


def _buckets(bucket_bytes: float | None, tensors: list[float]) -> tuple[float, ...]:
    if bucket_bytes is None:
        return ()
    if sum(tensors) / bucket_bytes > _MOST_BUCKETS:
        raise UsageError(f"--bucket: more than {_MOST_BUCKETS} buckets are absurd")
    if len(tensors) == 1:
        return cost.even_buckets(tensors[0], bucket_bytes)
    return cost.buckets_of(tensors, bucket_bytes)


def _whole(text: str, *, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= _MOST_RANKS:
        raise ValueError(f"{text!r}; accepted is a whole number from {least} to {_MOST_RANKS}")
    return int(text)


def _matched(pattern: re.Pattern[str], text: str, refusal: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} {refusal}")
    return match


def _within(value: float, least: float, most: float, text: str, unit: str) -> float:
    if not least <= value <= most:
        raise ValueError(f"{text!r} is absurd; accepted are {least:g} to {most:g} {unit}")
    return value
