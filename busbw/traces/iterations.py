"""Iterations: the i-th collective of each device in a call is the same one.

Calls are matched by program and occurrence: each device counts its own launches, and one whose
recording began earlier may have begun with other programs.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model.words import payload_text

from .event import RecordedCollective, TraceError


class CutError(TraceError):
    """A recording in which a device lacks collectives that another one has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Iteration:
    """One collective over all devices: the `index`-th of a call, and each rank's own time.

    `call` is the launch's own number where all devices agree on it, else which one of `program` it
    was, from 1 on.
    """

    call: str
    index: int
    durations_s: Mapping[str, float]
    program: str = ""

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
        return statistics.fmean(self.durations_s.values())


def iterations(
    found: Sequence[RecordedCollective], *, drop_first: bool = True, there: Iterable[str] = ()
) -> tuple[Iteration, ...]:
    """The iterations of collectives of one kind and payload, in the order of calls and of time.

    The first of each call is the warm-up, and dropped; where each call holds a single one, the
    first call is; where calls are unknown, the first of all. `there` are all devices that were
    recorded: a program with more ranks than have its collectives ran on these, too. Raises
    CutError where one rank has fewer than another in a call.
    """
    programs = _programs(found)
    ranks = {one.rank for one in found}
    paired = [
        (min(one.start_s for one in of_call[first]), _paired(program, call, of_call))
        for program, of_program in programs.items()
        for call, of_call, first in _calls(of_program, _taking_part(of_program, ranks, there))
    ]
    in_time = [of_call for _, of_call in sorted(paired, key=lambda one: one[0])]
    if not drop_first:
        return tuple(one for of_call in in_time for one in of_call)
    if all(len(of_call) == 1 for of_call in in_time):
        return tuple(of_call[0] for of_call in in_time[1:])
    return tuple(one for of_call in in_time for one in of_call[1:])


def _programs(found: Sequence[RecordedCollective]) -> dict[str, list[RecordedCollective]]:
    """By program; by its name alone, where hosts gave it other numbers."""
    by_host: dict[str, set[str]] = defaultdict(set)
    for one in found:
        by_host[one.host].add(one.program)
    named_alike = len({frozenset(programs) for programs in by_host.values()}) == 1
    programs: dict[str, list[RecordedCollective]] = defaultdict(list)
    for one in sorted(found, key=lambda one: one.start_s):
        programs[one.program if named_alike else one.program.partition("(")[0]].append(one)
    return programs


def _taking_part(
    of_program: Sequence[RecordedCollective], ranks: Iterable[str], there: Iterable[str]
) -> list[str]:
    """Where as many have it as its groups say there were, the others ran something else."""
    having = {one.rank for one in of_program}
    said = max((one.groups.ranks for one in of_program if one.groups), default=None)
    if said is not None and len(having) >= said:
        return sorted(having)
    return sorted(having.union(ranks, () if said is None else there))


def _calls(
    of_program: Sequence[RecordedCollective], ranks: Sequence[str]
) -> Iterator[tuple[str, dict[str, list[RecordedCollective]], str]]:
    """Matched by number where the ranks number the calls alike, else by order."""
    by_rank: dict[str, dict[str, list[RecordedCollective]]] = {rank: {} for rank in ranks}
    for one in of_program:
        by_rank[one.rank].setdefault(one.call, []).append(one)
    first = max(ranks, key=lambda rank: len(by_rank[rank]))
    if all(calls.keys() <= by_rank[first].keys() for calls in by_rank.values()):
        for call in by_rank[first]:
            yield call, {rank: calls.get(call, []) for rank, calls in by_rank.items()}, first
        return
    ordered = {rank: list(calls.values()) for rank, calls in by_rank.items()}
    for index in range(len(ordered[first])):
        of_call = {rank: (calls[index : index + 1] or [[]])[0] for rank, calls in ordered.items()}
        yield str(index + 1), of_call, first


def _paired(
    program: str, call: str, of_call: Mapping[str, Sequence[RecordedCollective]]
) -> list[Iteration]:
    counts = {rank: len(ones) for rank, ones in of_call.items()}
    most, least = max(counts, key=lambda rank: counts[rank]), min(counts, key=lambda r: counts[r])
    if counts[most] != counts[least]:
        raise CutError(
            f"{_where(of_call[most][0], program, call)}: rank {most} has {counts[most]} "
            f"collectives, rank {least} {counts[least]}: the recording is cut"
        )
    return [
        Iteration(
            call=call,
            index=index,
            durations_s={rank: ones[index].duration_s for rank, ones in of_call.items()},
            program=program,
        )
        for index in range(counts[most])
    ]


def _where(one: RecordedCollective, program: str, call: str) -> str:
    size = f" of {payload_text(one.payload_bytes)}" if one.payload_bytes else ""
    parts = (f"call {call}" if call else "", program.partition("(")[0])
    launch = " of ".join(filter(None, parts))
    return ", ".join(filter(None, (f"{one.kind}{size}", launch)))
