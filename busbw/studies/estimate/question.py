"""The question: what a step exchanges and computes, on which ranks, over which links.

Sizes, rates, times and counts are parsed strictly: units are written out, and impossible values are
refused.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.baselines.document import BaselineError, read_json
from busbw.commands.command import UsageError, usage_error
from busbw.model.stored import MOST_BYTES, MOST_S
from busbw.model.words import listed, nearest, refusal
from busbw.studies.curve import Line, timed_in

from . import catalog
from .methods import Level, Link
from .sums import Question, TrainingStep, buckets_of

# More would take longer to count than to send.
_MOST_BUCKETS = 10_000
_MOST_RANKS = 1_000_000

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?(.*)")
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PREFIXES |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _prefixed(units: Mapping[str, float]) -> dict[str, float]:
    return {f"{p}{unit}": by * each for p, by in _PREFIXES.items() for unit, each in units.items()}


@dataclass(frozen=True, slots=True)
class Quantity:
    """Numbers with a unit, from `least` to `most`; `words` say how they are written."""

    words: str
    units: Mapping[str, float]
    least: float
    most: float

    def __call__(self, text: str) -> float:
        """The number in the base unit. Raises ValueError with the sentence that the user reads."""
        match = _NUMBER.fullmatch(text)
        if match is not None and match[2] in self.units:
            value = float(match[1]) * self.units[match[2]]
            if self.least <= value <= self.most:
                return value
        accepted = f"accepted is {self.words}, from {self.least:g} to {self.most:g}"
        raise ValueError(f"{text!r}; {accepted}")


_BYTES = _prefixed({"B": 1.0}) | {"": 1.0}
_RATES = _prefixed({"B/s": 1, "Bps": 1, "bit/s": 1 / 8, "b/s": 1 / 8, "bps": 1 / 8})
_TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_COUNTS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
SIZE = Quantity(
    "bytes with a unit such as 553.36MB (10^6), 25MiB (2^20) or 4096B", _BYTES, 1, MOST_BYTES
)
RATE = Quantity("a rate such as 125MB/s, 16GB/s, 63GiB/s or 10Gbit/s", _RATES, 1, 1e15)
TIME = Quantity("a time such as 0.55s, 12ms or 5us", _TIMES, 0, MOST_S)
COMPUTE = Quantity(TIME.words, _TIMES, 1e-9, MOST_S)
COUNT = Quantity("a number of parameters such as 25583592 or 138M", _COUNTS, 1, MOST_BYTES)
SHARE = Quantity("a share", {"": 1.0}, 0, 1)
# Nothing reaches 1 but a step that communicates nothing.
EFFICIENCY = Quantity("an efficiency", {"": 1.0}, 1e-6, 1 - 1e-6)


def whole_numbers(text: str, least: int = 1) -> tuple[int, ...]:
    """Whole numbers in a comma list, without repeats."""
    for part in text.split(","):
        if not re.fullmatch(r"[0-9]{1,7}", part) or not least <= int(part) <= _MOST_RANKS:
            raise ValueError(f"{part!r}; accepted is a whole number from {least} to {_MOST_RANKS}")
    return tuple(dict.fromkeys(map(int, text.split(","))))


def ranks(text: str) -> int:
    """A whole number from 2 on."""
    return whole_numbers(text.replace(",", " "), least=2)[0]


def question_of(options: argparse.Namespace) -> Question:
    """The question that options ask. Raises UsageError."""
    if options.compute is None:
        for option in ("overlap", "want_efficiency"):
            if getattr(options, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} needs --compute")
    asked = replace(
        _gradients(options),
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
    return replace(asked, ranks=options.ranks, hosts=hosts, links=links)


def _of_curve(options: argparse.Namespace, asked: Question) -> Question:
    """Other methods over the link with which a ring has the curve's line, if it has one."""
    for name in ("bandwidth", "intra", "inter", "hosts", "half_duplex"):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise UsageError(f"--curve says where it was measured: without --{option}")
    file = timed_in(options.curve)
    name, case, curve = file.curve(options.curve_case)
    n = case.group_size
    if options.ranks not in (None, n):
        raise UsageError(f"--ranks={options.ranks}: {options.curve} was measured on {n}")
    sizes = [size for size, _ in curve.points]
    note = f"curve: {name}, {len(sizes)} payloads from {sizes[0]} to {sizes[-1]} bytes"
    links: dict[Level, Link] = {}
    others = "left out, no latency and bandwidth fit the curve"
    if curve.line is not None and math.isfinite(curve.line.bytes_per_s):
        links = dict.fromkeys(Level, link_of(curve.line, n))
        others = "over the link with which a ring has the curve's latency and bandwidth"
    return replace(
        asked,
        ranks=n,
        hosts=(file.key.hosts,),
        links=links,
        measured=curve,
        notes=(note, f"other methods: {others}"),
    )


def link_of(line: Line, ranks: int) -> Link:
    """The link over which a ring of `ranks` has the measured curve `line`.

    A ring takes 2(n-1) a + 2(n-1)/n S/b, so a = latency / (2(n-1)) and b = 2(n-1)/n x bandwidth:
    the bus bandwidth of large payloads.
    """
    return Link(
        name="of the curve",
        latency_s=line.latency_s / (2 * (ranks - 1)),
        bytes_per_s=2 * (ranks - 1) / ranks * line.bytes_per_s,
    )


def _links(options: argparse.Namespace) -> dict[Level, Link]:
    """The links that were named, one or both levels. Raises UsageError."""
    if options.bandwidth is not None:
        if options.intra is not None or options.inter is not None:
            raise UsageError("--bandwidth is one link for everything: without --intra, --inter")
        return dict.fromkeys(Level, _link_from("--bandwidth", options.bandwidth, options))
    asked = {Level.INTRA: options.intra, Level.INTER: options.inter}
    return {
        level: _link_from(f"--{level.value}", text, options)
        for level, text in asked.items()
        if text is not None
    }


def _link_from(option: str, text: str, options: argparse.Namespace) -> Link:
    """A name or a rate, and perhaps a comma and a latency. Raises UsageError naming `option`."""
    what, _, latency = (part.strip() for part in text.partition(","))
    known = catalog.known_links()
    try:
        name, bytes_per_s = known.get(what.lower()) or (what, RATE(what))
        latency_s = TIME(latency) if latency else 0.0
    except ValueError as error:
        names = [one for one, _ in known.values()]
        near = nearest(what, names)
        others = f"names are {listed(names, where='docs/studies.md')}"
        meant = f"did you mean {near!r}?" if near else others
        raise UsageError(f"{option}: {error}; {meant}") from error
    full_duplex = not options.half_duplex
    return Link(name=name, bytes_per_s=bytes_per_s, latency_s=latency_s, full_duplex=full_duplex)


def _gradients(options: argparse.Namespace) -> Question:
    """What is exchanged, and not yet where. Raises UsageError."""
    dtype = options.dtype or "float32"
    if options.gradient_bytes is not None:
        if options.dtype is not None:
            raise UsageError("--dtype says nothing of --gradient-bytes, which are bytes")
        name, values, dtype = "gradients", [round(options.gradient_bytes)], ""
    elif options.model is not None:
        name = options.model.lower()
        if name not in catalog.MODELS:
            raise UsageError(f"--model: {refusal(options.model, list(catalog.MODELS))}")
        values = [catalog.MODELS[name]]
    elif options.shapes is not None:
        name, values = options.shapes.name, _counted(options.shapes)
    else:
        name, values = "parameters", [round(options.parameters)]
    tensors = [value * catalog.DTYPE_BYTES.get(dtype, 1) for value in values]
    if options.bucket and sum(tensors) / options.bucket > _MOST_BUCKETS:
        raise UsageError(f"--bucket: more than {_MOST_BUCKETS} buckets are absurd")
    step = TrainingStep(
        payload_bytes=sum(tensors),
        buckets=buckets_of(tensors, options.bucket) if options.bucket else (),
        compute_s=options.compute,
        overlap=options.overlap or 0.0,
    )
    return Question(name=name, step=step, parameters=sum(values) if dtype else None, dtype=dtype)


def _counted(path: Path) -> list[int]:
    """How many values each tensor has: the product of its extents, 1 for a scalar."""
    with usage_error(BaselineError):
        shapes = read_json(path)
    if not isinstance(shapes, dict) or not shapes:
        raise UsageError(f'{path}: expected an object of shapes such as {{"w": [512, 512]}}')
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(type(one) is int and one > 0 for one in shape):
            raise UsageError(f"{path}: {name}: expected a list of whole numbers above 0")
    counts = [math.prod(shape) for shape in shapes.values()]
    if sum(counts) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES:g} parameters are absurd")
    return counts
