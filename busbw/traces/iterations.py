"""Which collectives of different devices are the same one: the i-th of each device in a call."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .event import Collective, TraceError


@dataclass(frozen=True, kw_only=True, slots=True)
class Iteration:
    """One collective over all devices: the `index`-th of a call, and each rank's own time."""

    call: str
    index: int
    durations_s: Mapping[str, float]

    @property
    def slowest_s(self) -> float:
        """The time of the rank that waited longest; the collective took no longer."""
        return max(self.durations_s.values())

    @property
    def fastest_s(self) -> float:
        """The time of the rank that joined last, and waited least."""
        return min(self.durations_s.values())

    @property
    def mean_s(self) -> float:
        """The mean over ranks."""
        return statistics.fmean(self.durations_s.values())


def iterations(found: Sequence[Collective], *, drop_first: bool = True) -> tuple[Iteration, ...]:
    """The iterations of collectives of one kind, in the order of calls and of time.

    The first of each call is the warm-up, and dropped; where each call holds a single one, the
    first call is; where calls are unknown, the first of all. Raises TraceError where one rank has
    fewer than another in a call.
    """
    calls = _calls(found)
    ranks = sorted({one.rank for one in found})
    paired = [_paired(call, of_call, ranks) for call, of_call in calls.items()]
    if not drop_first:
        return tuple(one for of_call in paired for one in of_call)
    if all(len(of_call) == 1 for of_call in paired):
        return tuple(of_call[0] for of_call in paired[1:])
    return tuple(one for of_call in paired for one in of_call[1:])


def _calls(found: Sequence[Collective]) -> dict[str, list[Collective]]:
    """The collectives of each call, over all hosts.

    Where hosts number their launches each for itself, the k-th call of one is the k-th of all.
    """
    order: dict[str, dict[str, int]] = defaultdict(dict)
    for one in sorted(found, key=lambda one: one.start_s):
        order[one.host].setdefault(one.call, len(order[one.host]))
    if len({frozenset(calls) for calls in order.values()}) > 1:
        _check_calls(order)
        names = list(next(iter(order.values())))
    else:
        names = []
    calls: dict[str, list[Collective]] = defaultdict(list)
    for one in sorted(found, key=lambda one: (order[one.host][one.call], one.start_s)):
        calls[names[order[one.host][one.call]] if names else one.call].append(one)
    return calls


def _check_calls(order: Mapping[str, Mapping[str, int]]) -> None:
    counts = {host: len(calls) for host, calls in order.items()}
    most, least = max(counts, key=lambda host: counts[host]), min(counts, key=lambda h: counts[h])
    if counts[most] != counts[least]:
        raise TraceError(
            f"{most} recorded {counts[most]} calls, {least} {counts[least]}: a recording is cut"
        )


def _paired(call: str, found: Sequence[Collective], ranks: Sequence[str]) -> list[Iteration]:
    counts = Counter({rank: 0 for rank in ranks})
    counts.update(one.rank for one in found)
    most, least = max(ranks, key=lambda rank: counts[rank]), min(ranks, key=lambda r: counts[r])
    if counts[most] != counts[least]:
        where = f"call {call}: " if call else ""
        raise TraceError(
            f"{where}rank {most} has {counts[most]} collectives, rank {least} {counts[least]}: "
            "the recording is cut"
        )
    times: dict[str, list[float]] = defaultdict(list)
    for one in sorted(found, key=lambda one: one.start_s):
        times[one.rank].append(one.duration_s)
    return [
        Iteration(call=call, index=index, durations_s={rank: times[rank][index] for rank in ranks})
        for index in range(counts[most])
    ]
