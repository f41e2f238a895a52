"""Find chips that compute or copy more slowly than others, and slow links between chips.

In each round every chip is compared with the median of all chips, as a host is compared with
control pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from busbw.extensions.stragglers.statistics import SequentialTest, SlowComponent, detectable_loss
from busbw.extensions.stragglers.worker import ChipTimes

# The seconds of each round, by the name of a chip or link and the name of its host.
TimesByChip = Mapping[tuple[str, str], Sequence[float]]
# Among fewer chips, a slow chip moves the median.
_MIN_CHIPS = 3


def find_slow_chips(
    process_times: Sequence[ChipTimes],
    hosts: Sequence[str],
    min_loss: float,
    false_alarm_probability: float,
) -> tuple[list[SlowComponent], dict[str, float]]:
    """Return the slow chips and links, the slowest first, and the detectable loss of each quantity.

    If no chip is slower than the others by more than `min_loss`, this function returns a chip with
    a probability of at most `false_alarm_probability`.

    Args:
        process_times: The times of each process. The processes are in the order of `hosts`, and
            each host has the same number of processes.
        hosts: The names of the hosts.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.
        false_alarm_probability: The largest acceptable probability that a healthy chip is returned.

    """
    quantities = {
        quantity: rows
        for quantity, rows in _times_by_quantity(process_times, hosts)
        if len(rows) >= _MIN_CHIPS
    }
    risk_per_test = false_alarm_probability / max(1, sum(map(len, quantities.values())))
    slow, losses = [], {}
    for quantity, rows in quantities.items():
        medians = [statistics.median(row) for row in zip(*rows.values())]
        for (name, host), row in rows.items():
            test = SequentialTest(min_loss=min_loss, false_alarm_probability=risk_per_test)
            for time_s, median_s in zip(row, medians):
                test.add_round(math.log(time_s / median_s))
            if test.is_slow:
                slow.append(test.describe_slow(name, (host,), quantity))
        logs = [list(map(math.log, times_s)) for times_s in zip(*rows.values())]
        losses[quantity] = detectable_loss(logs, min_loss)
    return sorted(slow, key=lambda chip: -chip.ratio), losses


def _times_by_quantity(
    measured: Sequence[ChipTimes], hosts: Sequence[str]
) -> Iterator[tuple[str, TimesByChip]]:
    """Yield each quantity, such as ``the link x+``, and its times by chip or link."""
    # For each rank: its process, the index of the rank in the times of the process, and its chip.
    places = {}
    for index, process in enumerate(measured):
        host = hosts[index * len(hosts) // len(measured)]
        for row, rank in enumerate(process.ranks):
            places[rank] = process, row, (f"chip {rank} of host {host}", host)
    yield "computing", {chip: process.compute_s[row] for process, row, chip in places.values()}
    yield "copying", {chip: process.copy_s[row] for process, row, chip in places.values()}
    # Each process lists the links of all processes.
    for direction in measured[0].links_s if measured else ():
        links = {}
        for source, target in sorted(measured[0].pairs[direction]):
            process, row, (name, host) = places[target]
            links[f"{places[source][2][0]} to {name}", host] = process.links_s[direction][row]
        yield f"the link {direction}", links
