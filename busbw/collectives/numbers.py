"""The dtypes, and which numbers each of them holds exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Dtype:
    """Bytes of an element, significant bits, and the exponents of its powers of two.

    Integers have no negative exponents: their least is 0.
    """

    size_bytes: int
    bits: int
    least_exponent: int
    greatest_exponent: int


DTYPES: Mapping[str, Dtype] = {
    "float32": Dtype(size_bytes=4, bits=24, least_exponent=-126, greatest_exponent=127),
    "bfloat16": Dtype(size_bytes=2, bits=8, least_exponent=-126, greatest_exponent=127),
    "float16": Dtype(size_bytes=2, bits=11, least_exponent=-14, greatest_exponent=15),
    "int32": Dtype(size_bytes=4, bits=31, least_exponent=0, greatest_exponent=30),
}
