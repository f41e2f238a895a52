"""Sessions of unchanged code that the product kept in its history, judged against one another.

Each session in turn is accepted, and each later one is judged against it alone, as on the first day
after a baseline was made. The files are what `--history` appends: sessions of eight launches, of
which a baseline gets three, and tonight three and for a suspicion three fresh ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from busbw import history, judge
from busbw.model import Case, Device

from .intervals import clopper_pearson
from .night import LAUNCHES, Night, Times, night, past
from .words import percent, row

FOLDER = Path(__file__).parent / "history"
FRESH = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One session: when it began, on what, and its launches by case."""

    began: datetime
    device: Device
    times_s: Times


def read(folder: Path = FOLDER) -> list[Kept]:
    """The sessions in `folder` with as many launches of every case as are needed, oldest first."""
    found: dict[str, list[history.Line]] = {}
    for machine in history.read_all(folder).values():
        for line in machine.lines:
            found.setdefault(line.session, []).append(line)
    return [
        Kept(
            began=lines[0].began,
            device=lines[0].device,
            times_s={line.case.case: tuple(one / 1e6 for one in line.times_us) for line in lines},
        )
        for lines in found.values()
        if all(len(line.times_us) >= LAUNCHES + FRESH for line in lines)
    ]


def judged(accepted: Kept, tonight: Kept, slower: Mapping[Case, float] | None = None) -> Night:
    """`tonight` against one accepted session; `slower` are factors of cases' times."""
    factors = slower or {}
    times_s = {
        case: tuple(factors.get(case, 1.0) * one for one in times)
        for case, times in tonight.times_s.items()
        if case in accepted.times_s
    }
    before = past({case: one[:LAUNCHES] for case, one in accepted.times_s.items()})
    return night([before], times_s, judge.POLICIES[tonight.device])


def rows(sessions: Sequence[Kept]) -> Iterator[str]:
    """The table of what is red for nothing, and of what is seen."""
    yield row("question", "answers", "share (95 %)")
    yield row(*["---"] * 3)
    following = list(itertools.pairwise(sessions))
    later = list(itertools.combinations(sessions, 2))
    for text, pairs in (("the session before", following), ("each earlier session", later)):
        red = sum(judged(*pair).is_red for pair in pairs)
        yield _row(f"unchanged, against {text}: red for any reason", red, len(pairs))
    for factor in (1.5, 2.0, 3.0):
        hits = among = 0
        for accepted, tonight in following:
            for case in tonight.times_s:
                hits += case in judged(accepted, tonight, {case: factor}).regressed
                among += 1
        yield _row(f"one case at {factor:g} times its time: flagged", hits, among)


def _row(text: str, found: int, among: int) -> str:
    interval = clopper_pearson(found, among)
    share = f"{percent(interval.lower)} to {percent(interval.upper)}"
    return row(text, f"{found} of {among}", f"{percent(found / among)} ({share})")
