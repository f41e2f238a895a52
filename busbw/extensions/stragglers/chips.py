"""Which chip computes or copies slower than the others, and which link between two carries less.

Each round is a test of every chip against the median of all, as of hosts against their controls.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model.launch import Chips

from .sequential import SequentialTest, least_named

Rows = Mapping[tuple[str, str], Sequence[float]]
# Of fewer the median is one of them.
_LEAST = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowChip:
    """`what`, such as ``chip 3 of host a``, takes `ratio` times as long for the `quantity`."""

    what: str
    host: str
    quantity: str
    ratio: float
    p: float


def slow_chips(
    found: Sequence[Chips], hosts: Sequence[str], least: float, risk: float
) -> list[SlowChip]:
    """Of processes, as many on each of the hosts, in their order; the slowest first.

    Somebody is named with a chance of `risk` if none is slower by more than `least`.
    """
    quantities = list(_quantities(found, hosts))
    each = risk / max(1, sum(len(rows) for _, rows in quantities))
    slow = [one for name, rows in quantities for one in _slow(name, rows, least, each)]
    return sorted(slow, key=lambda one: -one.ratio)


def losses_named(found: Sequence[Chips], hosts: Sequence[str], least: float) -> dict[str, float]:
    """The smallest loss of one of them that would have been named, by quantity."""
    return {
        name: least_named([[math.log(one) for one in row] for row in zip(*rows.values())], least)
        for name, rows in _quantities(found, hosts)
        if len(rows) >= _LEAST
    }


def _quantities(found: Sequence[Chips], hosts: Sequence[str]) -> Iterator[tuple[str, Rows]]:
    """Seconds by round of everything of a kind, by what it is, and the host it is of."""
    of = {
        rank: hosts[process * len(hosts) // len(found)]
        for process, one in enumerate(found)
        for rank in one.ranks
    }
    chips = {rank: f"chip {rank} of host {host}" for rank, host in of.items()}
    rows = {rank: at for one in found for at, rank in enumerate(one.ranks)}
    owner = {rank: one for one in found for rank in one.ranks}
    yield "computing", {(chips[r], of[r]): owner[r].compute_s[rows[r]] for r in of}
    yield "copying", {(chips[r], of[r]): owner[r].copy_s[rows[r]] for r in of}
    for way in dict.fromkeys(way for one in found for way in one.links_s):
        pairs = {pair for one in found for pair in one.pairs.get(way, ())}
        yield (
            f"the link {way}",
            {
                (f"{chips[source]} to {chips[to]}", of[to]): owner[to].links_s[way][rows[to]]
                for source, to in sorted(pairs)
                if to in owner and way in owner[to].links_s and source in chips
            },
        )


def _slow(quantity: str, rows: Rows, least: float, risk: float) -> Iterator[SlowChip]:
    if len(rows) < _LEAST:
        return
    levels = [statistics.median(row) for row in zip(*rows.values())]
    for (what, host), row in rows.items():
        test = SequentialTest(least=least, risk=risk)
        for time_s, level in zip(row, levels):
            test.add(math.log(time_s / level))
        if test.is_guilty:
            yield SlowChip(what=what, host=host, quantity=quantity, ratio=test.ratio, p=test.p)
