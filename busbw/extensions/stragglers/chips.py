"""Find chips that compute or copy more slowly than the others, and slow links between two chips.

Each round compares every chip with the median of all, as a host is compared with control pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from busbw.extensions.stragglers.sequential import SequentialTest, Slow, detectable_loss
from busbw.extensions.stragglers.worker import ChipTimes

# Seconds by round, by the name of a chip or link and its host.
Rows = Mapping[tuple[str, str], Sequence[float]]
# Of fewer chips, one is the median.
_LEAST_CHIPS = 3


def slow_chips(
    measured: Sequence[ChipTimes], hosts: Sequence[str], least: float, risk: float
) -> tuple[list[Slow], dict[str, float]]:
    """Return slow chips and links, the slowest first, and the detectable loss by quantity.

    `measured` has as many processes of each of the hosts, in the order of `hosts`. If no chip is
    slower by more than `least`, the chance that any is returned is at most `risk`.
    """
    quantities = {
        quantity: rows
        for quantity, rows in _quantities(measured, hosts)
        if len(rows) >= _LEAST_CHIPS
    }
    share = risk / max(1, sum(map(len, quantities.values())))
    slow, losses = [], {}
    for quantity, rows in quantities.items():
        medians = [statistics.median(row) for row in zip(*rows.values())]
        for (name, host), row in rows.items():
            test = SequentialTest(least=least, risk=share)
            for time_s, median_s in zip(row, medians):
                test.add(math.log(time_s / median_s))
            if test.is_slow:
                slow.append(test.finding(name, (host,), quantity))
        logs = [list(map(math.log, times_s)) for times_s in zip(*rows.values())]
        losses[quantity] = detectable_loss(logs, least)
    return sorted(slow, key=lambda chip: -chip.ratio), losses


def _quantities(measured: Sequence[ChipTimes], hosts: Sequence[str]) -> Iterator[tuple[str, Rows]]:
    # By rank: the process, the row of the rank in its times, and the host.
    places = {
        rank: (process, row, hosts[index * len(hosts) // len(measured)])
        for index, process in enumerate(measured)
        for row, rank in enumerate(process.ranks)
    }
    names = {rank: f"chip {rank} of host {host}" for rank, (_, _, host) in places.items()}
    keys = {rank: (names[rank], host) for rank, (_, _, host) in places.items()}
    yield "computing", {keys[r]: process.compute_s[row] for r, (process, row, _) in places.items()}
    yield "copying", {keys[r]: process.copy_s[row] for r, (process, row, _) in places.items()}
    for way in dict.fromkeys(way for process in measured for way in process.links_s):
        links = {}
        for source, target in sorted({p for process in measured for p in process.pairs[way]}):
            process, row, host = places[target]
            links[f"{names[source]} to {names[target]}", host] = process.links_s[way][row]
        yield f"the link {way}", links
