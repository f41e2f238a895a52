"""Known models and links, and parsers for the sizes, rates and times of options.

docs/studies.md has the sources of the numbers.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

from busbw.extensions.estimate.costs import Link

# The bytes of the gradient of one parameter.
DTYPE_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

# The number of trained parameters of each model. Each trained parameter has a gradient.
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

# Rates in MB/s between machines and inside a machine, measured by the source for the first eight
# models in the order of MODELS.
_INTER_MB_PER_S = (91.875, 233.0, 59.5, 145.875, 120.125, 60.75, 92.125, 10.375)
_INTRA_MB_PER_S = (306.5, 427.75, 63.0, 1082.125, 181.125, 159.625, 65.625, 22.875)

# Bytes per second in one direction. Vendors state the sum of both directions for NVLink, so half of
# it is used.
LINKS: Mapping[str, float] = {
    "nvlink-1": 4 * 40e9 / 2,
    "nvlink-2": 6 * 50e9 / 2,
    "nvlink-3": 12 * 50e9 / 2,
    "nvlink-2-cpu": 63 * 2.0**30,
    "pcie-3": 16e9,
    "upi": 31 * 2.0**30,
    "x-bus": 31 * 2.0**30,
    "10gbe": 1.25e9,
    "1gbe": 125e6,
    **{f"measured-intra-{i}": rate * 1e6 for i, rate in enumerate(_INTRA_MB_PER_S, 1)},
    **{f"measured-inter-{i}": rate * 1e6 for i, rate in enumerate(_INTER_MB_PER_S, 1)},
}

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)([A-Za-z/]*)", re.ASCII)
_DECIMAL_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY_FACTORS = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BYTES_OF_UNIT = {
    f"{prefix}B": factor for prefix, factor in (_DECIMAL_FACTORS | _BINARY_FACTORS).items()
}
_BYTES_PER_S_OF_UNIT = {f"{unit}/s": factor for unit, factor in _BYTES_OF_UNIT.items()}
_BYTES_PER_S_OF_UNIT |= {
    f"{prefix}bit/s": factor / 8 for prefix, factor in _DECIMAL_FACTORS.items()
}
_SECONDS_OF_UNIT = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
# A larger number is a mistake, and products of such numbers would overflow.
_GREATEST_NUMBER = 1e18
_MOST_RANKS = 1_000_000


def _parse_quantity(
    text: str, factors_by_unit: Mapping[str, float], description: str, minimum: float = 1e-12
) -> float:
    """Parse a number with a unit, and return it in the base unit.

    `factors_by_unit` maps each unit to its factor. Raises ArgumentTypeError for a text of another
    form, an unknown unit, and a number below `minimum` or above 10^18. The message says that
    `description` was expected.
    """
    match = _NUMBER.fullmatch(text)
    value = float(match[1]) * factors_by_unit.get(match[2], -1.0) if match else -1.0
    if not minimum <= value <= _GREATEST_NUMBER:
        raise argparse.ArgumentTypeError(f"expected {description}, got {text[:60]!r}")
    return value


def parse_parameters(text: str) -> int:
    """Parse a number of parameters, such as ``138.36M``."""
    return round(
        _parse_quantity(text, _DECIMAL_FACTORS, "a number such as 25583592 or 138M", minimum=1)
    )


def parse_size(text: str) -> float:
    """Parse a size, such as ``553.36MB`` or ``25MiB``, as a number of bytes."""
    return _parse_quantity(
        text, _BYTES_OF_UNIT, "a size such as 553.36MB (10^6) or 25MiB (2^20)", minimum=1
    )


def parse_time(text: str) -> float:
    """Parse a time, such as ``12ms``, as a number of seconds."""
    return _parse_quantity(text, _SECONDS_OF_UNIT, "a time such as 0.55s, 12ms or 5us")


def parse_link(text: str) -> Link:
    """Parse a link: a name or a rate and, optionally, a latency (else 0), as in ``125MB/s,5us``."""
    name, comma, latency = text.partition(",")
    expected = f"a rate such as 125MB/s or 10Gbit/s, or a link of {', '.join(LINKS)}"
    return Link(
        name=name,
        bytes_per_s=LINKS.get(name.lower())
        or _parse_quantity(name, _BYTES_PER_S_OF_UNIT, expected),
        latency_s=_parse_quantity(latency, _SECONDS_OF_UNIT, "a latency such as 5us", minimum=0.0)
        if comma
        else 0.0,
    )


def parse_efficiency(text: str) -> float:
    """Parse a parallel efficiency above 0 and below 1, such as ``0.9``.

    An efficiency of 1 is refused: only a step without communication has it.
    """
    share = _parse_quantity(text, {"": 1.0}, "an efficiency such as 0.9", minimum=1e-6)
    if share >= 1:
        raise argparse.ArgumentTypeError(f"expected an efficiency below 1, got {text!r}")
    return share


def parse_counts(text: str) -> list[int]:
    """Parse a comma list of whole numbers above 0, such as ``2,4``, and drop repeated numbers."""
    numbers = [int(part) if re.fullmatch("[0-9]{1,7}", part) else 0 for part in text.split(",")]
    if not all(1 <= number <= _MOST_RANKS for number in numbers):
        expected = f"whole numbers from 1 to {_MOST_RANKS}, such as 2,4"
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text[:60]!r}")
    return list(dict.fromkeys(numbers))
