"""The question: what a step exchanges and computes, on which ranks, over which links.

Sizes, rates, times and counts are parsed strictly: units are written out, and impossible values are
refused. Models and links are known by name; docs/studies.md has their sources.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw.baselines.document import BaselineError, read_json
from busbw.commands import UsageError, usage_error
from busbw.hardware.chips import CHIPS
from busbw.model.limits import MOST_BYTES, MOST_S
from busbw.model.verdict import Curve
from busbw.model.words import listed, refusal
from busbw.session import forms
from busbw.session.option import Option, file_option
from busbw.studies.curve import MeasuredCurve, timed_in

from .methods import Level, Link, Links, TrainingStep, buckets_of


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


# Bytes of one gradient.
DTYPE_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

# Trained parameters, whose gradients are exchanged.
MODELS: Mapping[str, int] = {
    "resnet-50": 25_583_592,
    "vgg-16": 138_357_544,
    "resnext-110": 1_730_000,
    "inception-bn": 10_525_000,
    "seq2seq": 9_125_000,
    "cnn-text-classification": 6_000_000,
    "dssm": 1_500_000,
    "wlm": 4_800_000,
    "gpt-2": 1_557_611_200,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "mixtral-8x7b": 46_702_792_704,
}

# Bytes per parameter for weights and gradients, and for the float32 copy of 16-bit weights.
_PARAMETER_BYTES = {"float32": 4 + 4, "bfloat16": 2 + 2 + 4, "float16": 2 + 2 + 4}
# Values that an optimizer keeps of each parameter, in float32; Adam momentum and variance.
_STATE_VALUES = {"sgd": 0, "momentum": 1, "adam": 2}


def memory_by_optimizer(dtype: str) -> dict[str, int]:
    """Bytes per parameter for weights, gradients and state by optimizer; none for other types.

    "placement的估计" (parameters 4, gradients 4, momentum and variance 8, in all 16); S.
    Rajbhandari et al., "ZeRO", SC 2020, section 3.1, for mixed precision.
    """
    if dtype not in _PARAMETER_BYTES:
        return {}
    return {name: _PARAMETER_BYTES[dtype] + 4 * values for name, values in _STATE_VALUES.items()}


# GB/s of one link in both directions, and how many there are.
_NVLINKS = {"nvlink-1": (4, 40), "nvlink-2": (6, 50), "nvlink-3": (12, 50)}
# MB/s between and inside machines, of the first eight models in their order.
_INTER_MB_PER_S = (91.875, 233.0, 59.5, 145.875, 120.125, 60.75, 92.125, 10.375)
_INTRA_MB_PER_S = (306.5, 427.75, 63.0, 1082.125, 181.125, 159.625, 65.625, 22.875)

# Bytes per second of one end in one direction.
LINKS: Mapping[str, float] = {
    **{name: links * gb_per_s / 2 * 1e9 for name, (links, gb_per_s) in _NVLINKS.items()},
    "nvlink-2-cpu": 63 * 2.0**30,
    "pcie-3": 16e9,
    "upi": 31 * 2.0**30,
    "x-bus": 31 * 2.0**30,
    "10gbe": 1.25e9,
    "1gbe": 125e6,
    **{f"measured-intra-{i}": rate * 1e6 for i, rate in enumerate(_INTRA_MB_PER_S, 1)},
    **{f"measured-inter-{i}": rate * 1e6 for i, rate in enumerate(_INTER_MB_PER_S, 1)},
}


def known_links() -> dict[str, tuple[str, float]]:
    """Name and bytes per second of all links, by name in lower case; chips are links too."""
    chips = {one.device_kind: one.link_bytes_per_s or 0.0 for one in CHIPS}
    return {name.lower(): (name, rate) for name, rate in {**LINKS, **chips}.items() if rate}


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


_LINK = f"a link's name or {RATE.words}, one direction, and perhaps its latency: 150GB/s,5us"
_SERVERS = "Numbers of parameter servers, as a comma list (default: 1, and as many as ranks)"
_OVERLAP = (
    "Share of --compute, at its end, during which gradients can be exchanged already (default: 0)"
)
GRADIENTS = (
    Option(name="model", metavar="NAME", help=f"Gradients of a known model: {', '.join(MODELS)}"),
    Option(name="parameters", parse=COUNT, metavar="N", help=f"Gradients of {COUNT.words} (10^6)"),
    file_option(
        "shapes",
        'Gradients of these shapes, as JSON in the order of the forward pass: {"w": [512, 2]}',
    ),
    Option(
        name="gradient_bytes",
        parse=SIZE,
        metavar="SIZE",
        help=f"Gradients of this size: {SIZE.words}",
    ),
)
OPTIONS = (
    Option(
        name="dtype",
        parse=forms.word(tuple(DTYPE_BYTES)),
        choices=tuple(DTYPE_BYTES),
        help="Type of a gradient (default: float32)",
    ),
    Option(
        name="bucket",
        parse=SIZE,
        metavar="SIZE",
        help="Send the gradients in buckets of this size, such as 25MiB (default: all at once)",
    ),
    Option(name="servers", parse=whole_numbers, metavar="K", help=_SERVERS),
    Option(
        name="ranks",
        parse=ranks,
        metavar="N",
        help="Number of ranks; with --curve the number in the file",
    ),
    Option(
        name="hosts",
        parse=whole_numbers,
        metavar="H",
        help="Also estimate for these numbers of hosts, as a comma list, besides one host",
    ),
    Option(name="bandwidth", metavar="LINK", help=f"Use this link everywhere: {_LINK}"),
    Option(
        name="intra",
        metavar="LINK",
        help="Use this link inside a host, for each rank; written as for --bandwidth",
    ),
    Option(
        name="inter",
        metavar="LINK",
        help="Use this link between hosts, for each host; written as for --bandwidth",
    ),
    file_option("curve", "Use measured times instead of links: a file of --results, or a baseline"),
    Option(
        name="curve_case",
        metavar="WORDS",
        help='Use this curve of the file, named by words such as "jax float16"',
    ),
    Option(
        name="compute",
        parse=COMPUTE,
        metavar="TIME",
        help="Time of the forward and backward pass of one rank, such as 0.55s",
    ),
    Option(name="overlap", parse=SHARE, metavar="SHARE", help=_OVERLAP),
    Option(
        name="want_efficiency",
        parse=EFFICIENCY,
        metavar="P",
        help="Also compute the bandwidth that this efficiency needs, such as 0.9",
    ),
    Option(name="half_duplex", flag=True, help="Both directions of a link share its rate"),
)


def question_of(options: argparse.Namespace) -> Question:
    """The question that options ask. Raises UsageError."""
    for option in ("overlap", "want_efficiency") if options.compute is None else ():
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
    first, last = curve.points[0][0], curve.points[-1][0]
    links: Links = {}
    others = "left out, no latency and bandwidth fit the curve"
    if curve.line is not None and math.isfinite(curve.line.bandwidth_bytes_per_s):
        links = dict.fromkeys(Level, link_of(curve.line, n))
        others = "over the link with which a ring has the curve's latency and bandwidth"
    return replace(
        asked,
        ranks=n,
        hosts=(file.key.hosts,),
        links=links,
        measured=curve,
        notes=(
            f"curve: {name}, {len(curve.points)} payloads from {first} to {last} bytes",
            f"other methods: {others}",
        ),
    )


def link_of(line: Curve, ranks: int) -> Link:
    """The link over which a ring of `ranks` has the measured curve `line`.

    A ring takes 2(n-1) a + 2(n-1)/n S/b, so a = latency / (2(n-1)) and b = 2(n-1)/n x bandwidth:
    the bus bandwidth of large payloads.
    """
    return Link(
        name="of the curve",
        latency_s=line.latency_s / (2 * (ranks - 1)),
        bytes_per_s=2 * (ranks - 1) / ranks * line.bandwidth_bytes_per_s,
    )


def _links(options: argparse.Namespace) -> Links:
    """The links that were named, one or both levels. Raises UsageError."""
    named = {level: (f"--{level.value}", getattr(options, level.value)) for level in Level}
    if options.bandwidth is not None:
        if options.intra is not None or options.inter is not None:
            raise UsageError("--bandwidth is one link for everything: without --intra, --inter")
        named = dict.fromkeys(Level, ("--bandwidth", options.bandwidth))
    return {
        level: _link_from(option, text, full_duplex=not options.half_duplex)
        for level, (option, text) in named.items()
        if text is not None
    }


def _link_from(option: str, text: str, *, full_duplex: bool) -> Link:
    """A name or a rate, and perhaps a comma and a latency. Raises UsageError naming `option`."""
    what, _, latency = (part.strip() for part in text.partition(","))
    known = known_links()
    try:
        name, bytes_per_s = known.get(what.lower()) or (what, RATE(what))
        latency_s = TIME(latency) if latency else 0.0
    except ValueError as error:
        names = [one for one, _ in known.values()]
        known_names = listed(names, where="docs/studies.md")
        raise UsageError(f"{option}: {error}; the names are {known_names}") from error
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
        if name not in MODELS:
            raise UsageError(f"--model: {refusal(options.model, list(MODELS))}")
        values = [MODELS[name]]
    elif options.shapes is not None:
        name, values = options.shapes.name, _counted(options.shapes)
    else:
        name, values = "parameters", [round(options.parameters)]
    tensors = [value * DTYPE_BYTES.get(dtype, 1) for value in values]
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
