"""Models and links by name: figures, their sources, and what follows from one of them alone.

The number of trained parameters of a model and the memory that each takes, without activations and
communication buffers; None where no source was found: no figure is better than an invented one. The
bandwidth of one end of a link in one direction: sales figures of NVLink count both directions, and
are halved here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import hardware
from busbw.commands.curve import Line

from .cost import Link

# Bytes of one gradient.
DTYPE_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """`parameters` are the trainable ones, whose gradients are exchanged; None: unknown."""

    name: str
    parameters: int | None
    source: str


_NAMED = 'named in "placement的估计" without a number; several networks have this name'

MODELS = (
    Model(
        name="resnet-50",
        parameters=25_583_592,
        source='trainable, as keras.applications.ResNet50 counts them and "placement的估计" says; '
        "25,636,712 with the moving statistics, which are not exchanged",
    ),
    Model(
        name="vgg-16",
        parameters=138_357_544,
        source='as keras.applications.VGG16 counts them; 138.36 M in "tensorflow分布式", after '
        "https://dgschwend.github.io/netscope/#/preset/vgg-16",
    ),
    *(
        Model(name=name, parameters=None, source=_NAMED)
        for name in (
            "resnext-110",
            "inception-bn",
            "seq2seq",
            "cnn-text-classification",
            "dssm",
            "wlm",
        )
    ),
)


def model_of(name: str) -> Model | None:
    """The model of that name, however it is capitalised; None for one that is not known."""
    return next((one for one in MODELS if one.name == name.lower()), None)


def parameters_of(shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """How many values each tensor has: the product of its extents, 1 for a scalar."""
    return {name: math.prod(shape) for name, shape in shapes.items()}


# Bytes per parameter for weights and gradients, and for the float32 copy of 16-bit weights.
_PARAMETER_BYTES = {"float32": 4 + 4, "bfloat16": 2 + 2 + 4, "float16": 2 + 2 + 4}
# Values that an optimizer keeps of each parameter, in float32; Adam momentum and variance.
_STATE_VALUES = {"sgd": 0, "momentum": 1, "adam": 2}


def memory_by_optimizer(dtype: str) -> dict[str, int]:
    """Bytes per parameter for weights, gradients and state by optimizer; none for other types.

    4 + 4 + 8 = 16 for Adam in float32, 2 + 2 + 4 + 8 = 16 in mixed precision. Source:
    "placement的估计" (parameters 4, gradients 4, momentum and variance 8); S. Rajbhandari et al.,
    "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, section 3.1,
    for mixed precision.
    """
    if dtype not in _PARAMETER_BYTES:
        return {}
    return {name: _PARAMETER_BYTES[dtype] + 4 * values for name, values in _STATE_VALUES.items()}


_GB_PER_S = 1e9
_GIB_PER_S = 2.0**30
_MB_PER_S = 1e6

_PLACEMENT = '"placement的估计"'


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedLink:
    """One direction of a link, bytes per second; `stated` is the figure as its source has it."""

    name: str
    bytes_per_s: float
    stated: str
    source: str


def _nvlink(generation: int, chip: str, links: int, gb_per_s: float) -> NamedLink:
    """`gb_per_s` of one link, both directions."""
    both = links * gb_per_s
    return NamedLink(
        name=f"nvlink-{generation}",
        bytes_per_s=both / 2 * _GB_PER_S,
        stated=f"{both:g} GB/s of a {chip}, {links} links of {gb_per_s:g}, both directions",
        source=f"{_PLACEMENT}, after NVIDIA",
    )


def _measured_link(level: str, position: int, mb_per_s: float) -> NamedLink:
    return NamedLink(
        name=f"measured-{level}-{position}",
        bytes_per_s=mb_per_s * _MB_PER_S,
        stated=f"{mb_per_s:g} MB/s, the {position}. of eight",
        source=f"{_PLACEMENT}, measured; which machines or models these are it does not say",
    )


_INTER_MB_PER_S = (91.875, 233.0, 59.5, 145.875, 120.125, 60.75, 92.125, 10.375)
_INTRA_MB_PER_S = (306.5, 427.75, 63.0, 1082.125, 181.125, 159.625, 65.625, 22.875)

_TO_A_PROCESSOR = "63 GiB/s, measured between a POWER9 and a V100"
_TEN_GIGABIT = "10 Gbit/s, from a network card through a switch to another"

LINKS = (
    _nvlink(1, "P100", 4, 40),
    _nvlink(2, "V100", 6, 50),
    _nvlink(3, "A100", 12, 50),
    *(
        NamedLink(name=name, bytes_per_s=bytes_per_s, stated=stated, source=source)
        for name, bytes_per_s, stated, source in (
            ("nvlink-2-cpu", 63 * _GIB_PER_S, _TO_A_PROCESSOR, _PLACEMENT),
            ("pcie-3", 16 * _GB_PER_S, "16 GB/s, 16 lanes, one direction", _PLACEMENT),
            ("upi", 31 * _GIB_PER_S, "about 31 GiB/s, between two Xeons", _PLACEMENT),
            ("x-bus", 31 * _GIB_PER_S, "about 31 GiB/s, between two POWER9", _PLACEMENT),
            ("10gbe", 1.25 * _GB_PER_S, _TEN_GIGABIT, _PLACEMENT),
            ("1gbe", 125 * _MB_PER_S, "1000 Mbit/s", '"tensorflow分布式"'),
        )
    ),
    *(_measured_link("intra", i, rate) for i, rate in enumerate(_INTRA_MB_PER_S, 1)),
    *(_measured_link("inter", i, rate) for i, rate in enumerate(_INTER_MB_PER_S, 1)),
)


def of_chip(name: str, bytes_per_s: float, source: str) -> NamedLink:
    """All links of a chip together, one direction, by the chip's name."""
    stated = f"{bytes_per_s / _GB_PER_S:g} GB/s, all links of the chip, one direction"
    return NamedLink(name=name, bytes_per_s=bytes_per_s, stated=stated, source=source)


def known() -> dict[str, NamedLink]:
    """All links by name, those of chips with a trusted figure too; capitals do not count."""
    chips = [
        of_chip(chip.device_kind, chip.link_bytes_per_s, chip.source)
        for chip in hardware.CHIPS
        if chip.link_bytes_per_s is not None
    ]
    return {link.name.lower(): link for link in (*LINKS, *chips)}


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
