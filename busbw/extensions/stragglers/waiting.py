"""Who comes last to a collective of all hosts, and what of its time is waiting, what transfer.

Each process notes when it comes and when it leaves by its own host's clock. A collective ends for
all when the last one has come and its values have been passed on: leaving together is what sets the
clocks. What they are off is the median difference of leaving, which is as exact as that is alike.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model.launch import Arrivals


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Of `rounds` collectives: seconds of transfer, from the last arrival to leaving, the median.

    The host `last` came last in `times` rounds, `late_s` after the median of all; `p` is how likely
    that is if any is as likely to come last. `waited_s` is what each process waited, the median.
    The clocks were off by up to `offset_s`, which is known to `error_s`.
    """

    rounds: int
    transfer_s: float
    last: int
    times: int
    late_s: float
    p: float
    waited_s: tuple[float, ...]
    offset_s: float
    error_s: float

    def is_late(self, risk: float, least: float) -> bool:
        """Whether one is last too often for chance, and by more than `least` of the transfer."""
        return self.p < risk and self.late_s > max(least * self.transfer_s, self.error_s)


def waiting(found: Sequence[Arrivals], hosts: Sequence[int]) -> Waiting:
    """Of processes, as many on each of the hosts, in their order.

    Raises ValueError where they noted unlike numbers of rounds.
    """
    if len({len(one.came_s) for one in found}) != 1:
        raise ValueError("the processes noted unlike numbers of rounds")
    apart = [[own - first for own, first in zip(one.left_s, found[0].left_s)] for one in found]
    offsets = [statistics.median(some) for some in apart]
    error_s = max(
        statistics.median(abs(one - middle) for one in some) for some, middle in zip(apart, offsets)
    )
    came = [[at - off for at in one.came_s] for one, off in zip(found, offsets)]
    left = [[at - off for at in one.left_s] for one, off in zip(found, offsets)]
    rounds = list(zip(*came))
    latest = [max(row) for row in rounds]
    lasts = Counter(row.index(max(row)) for row in rounds)
    last, times = lasts.most_common(1)[0]
    ends = [statistics.median(row) for row in zip(*left)]
    return Waiting(
        rounds=len(rounds),
        transfer_s=statistics.median(end - late for end, late in zip(ends, latest)),
        last=hosts[last * len(hosts) // len(found)],
        times=times,
        late_s=statistics.median(row[last] - statistics.median(row) for row in rounds),
        p=min(1.0, len(found) * _tail(len(rounds), times, 1 / len(found))),
        waited_s=tuple(statistics.median(map(float.__sub__, latest, own)) for own in came),
        offset_s=max(map(abs, offsets)),
        error_s=error_s,
    )


def _tail(count: int, least: int, share: float) -> float:
    """The binomial chance of at least so many."""
    each = (
        math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(least, count + 1)
    )
    return math.fsum(each)
