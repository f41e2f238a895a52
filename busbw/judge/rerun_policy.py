"""Which cases are to be measured in further launches, and in how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from busbw.model import Spec

from .case import Ruling


@dataclass(frozen=True, kw_only=True, slots=True)
class Rerun:
    """Rerun passes over the cases of `specs`; none when everything is decided."""

    specs: tuple[Spec, ...]
    passes: int


def rerun(judged: Mapping[Spec, Ruling], launches: Mapping[Spec, int]) -> Rerun:
    """The undecided cases, and of suspects the neighbours in size too, which says where it sits.

    `launches` is how many there are by now. Enough passes that the first case has what it wants.
    """
    lacking = {
        spec: one.wanted - launches[spec]
        for spec, one in judged.items()
        if one.wanted is not None and one.wanted > launches[spec]
    }
    if not lacking:
        return Rerun(specs=(), passes=0)
    wanted = set(lacking)
    for spec in lacking:
        if judged[spec].suspected:
            wanted.update(_neighbours(spec, judged))
    ordered = tuple(spec for spec in judged if spec in wanted)
    return Rerun(specs=ordered, passes=min(lacking.values()))


def _neighbours(spec: Spec, judged: Mapping[Spec, Ruling]) -> Iterator[Spec]:
    """The next smaller and the next larger payload of the same kind that were measured."""
    alike = sorted(
        other.payload_bytes
        for other, one in judged.items()
        if replace(other, payload_bytes=spec.payload_bytes) == spec and one.verdict.now is not None
    )
    place = alike.index(spec.payload_bytes)
    for size in alike[max(0, place - 1) : place] + alike[place + 1 : place + 2]:
        yield replace(spec, payload_bytes=size)
