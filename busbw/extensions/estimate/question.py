"""The question: what a step exchanges and computes, on which ranks, over which links.

Sizes, rates, times and counts are parsed strictly: units are written out, and impossible values are
refused. Models and links are known by name; docs/studies.md has their sources.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw.baselines.document import read_json
from busbw.hardware.chips import CHIPS
from busbw.model.limits import MOST_BYTES
from busbw.model.words import listed, refusal

from .methods import Level, Link, Links, TrainingStep, buckets_of
from .quantities import RATE, TIME


class QuestionError(ValueError):
    """Options that ask nothing that can be answered; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What to estimate. No `servers`: one, and one for each rank.

    `parameters` and `dtype` are absent where only bytes are known.
    """

    name: str
    step: TrainingStep
    ranks: int
    hosts: tuple[int, ...]
    links: Links
    parameters: int | None = None
    dtype: str = ""
    servers: tuple[int, ...] = ()
    wanted_efficiency: float | None = None


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


def question_of(options: argparse.Namespace) -> Question:
    """The question that options ask. Raises QuestionError."""
    for option in ("overlap", "want_efficiency") if options.compute is None else ():
        if getattr(options, option) is not None:
            raise QuestionError(f"--{option.replace('_', '-')} needs --compute")
    name, tensors, parameters, dtype = _gradients(options)
    links = _links(options)
    if not links:
        raise QuestionError("say a link: --bandwidth, or --intra and --inter")
    if options.ranks is None:
        raise QuestionError("say how many --ranks")
    step = TrainingStep(
        payload_bytes=sum(tensors),
        buckets=buckets_of(tensors, options.bucket) if options.bucket else (),
        compute_s=options.compute,
        overlap=options.overlap or 0.0,
    )
    return Question(
        name=name,
        step=step,
        ranks=options.ranks,
        hosts=tuple(dict.fromkeys((1, *(options.hosts or ())))),
        links=links,
        parameters=parameters,
        dtype=dtype,
        servers=options.servers or (),
        wanted_efficiency=options.want_efficiency,
    )


def _links(options: argparse.Namespace) -> Links:
    """The links that were named, one or both levels. Raises QuestionError."""
    named = {level: (f"--{level.value}", getattr(options, level.value)) for level in Level}
    if options.bandwidth is not None:
        if options.intra is not None or options.inter is not None:
            raise QuestionError("--bandwidth is one link for everything: without --intra, --inter")
        named = dict.fromkeys(Level, ("--bandwidth", options.bandwidth))
    return {
        level: _link_from(option, text, full_duplex=not options.half_duplex)
        for level, (option, text) in named.items()
        if text is not None
    }


def _link_from(option: str, text: str, *, full_duplex: bool) -> Link:
    """A name or a rate, and perhaps a comma and a latency. Raises QuestionError naming `option`."""
    what, _, latency = (part.strip() for part in text.partition(","))
    known = known_links()
    try:
        name, bytes_per_s = known.get(what.lower()) or (what, RATE(what))
        latency_s = TIME(latency) if latency else 0.0
    except ValueError as error:
        names = [one for one, _ in known.values()]
        known_names = listed(names, where="docs/studies.md")
        raise QuestionError(f"{option}: {error}; the names are {known_names}") from error
    return Link(name=name, bytes_per_s=bytes_per_s, latency_s=latency_s, full_duplex=full_duplex)


def _gradients(options: argparse.Namespace) -> tuple[str, list[int], int | None, str]:
    """Return the name, the bytes of each tensor, the number of parameters, and their dtype.

    Of gradients that are given in bytes there is no number of parameters and no dtype. Raises
    QuestionError.
    """
    dtype = options.dtype or "float32"
    if options.gradient_bytes is not None:
        if options.dtype is not None:
            raise QuestionError("--dtype says nothing of --gradient-bytes, which are bytes")
        name, values, dtype = "gradients", [round(options.gradient_bytes)], ""
    elif options.model is not None:
        name = options.model.lower()
        if name not in MODELS:
            raise QuestionError(f"--model: {refusal(options.model, list(MODELS))}")
        values = [MODELS[name]]
    elif options.shapes is not None:
        name, values = options.shapes.name, _counted(options.shapes)
    else:
        name, values = "parameters", [round(options.parameters)]
    tensors = [value * DTYPE_BYTES.get(dtype, 1) for value in values]
    if options.bucket and sum(tensors) / options.bucket > _MOST_BUCKETS:
        raise QuestionError(f"--bucket: more than {_MOST_BUCKETS} buckets are absurd")
    return name, tensors, sum(values) if dtype else None, dtype


def _counted(path: Path) -> list[int]:
    """How many values each tensor has: the product of its extents, 1 for a scalar."""
    shapes = read_json(path)
    if not isinstance(shapes, dict) or not shapes:
        raise QuestionError(f'{path}: expected an object of shapes such as {{"w": [512, 512]}}')
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(type(one) is int and one > 0 for one in shape):
            raise QuestionError(f"{path}: {name}: expected a list of whole numbers above 0")
    counts = [math.prod(shape) for shape in shapes.values()]
    if sum(counts) > MOST_BYTES:
        raise QuestionError(f"{path}: more than {MOST_BYTES:g} parameters are absurd")
    return counts
