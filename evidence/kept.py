"""Sessions of unchanged code that the product kept in its history, judged against one another.

Each session in turn is accepted, and each later one is judged against it alone, as on the first day
after a baseline was made. The files are what `--history` appends: sessions of six launches or more,
of which a baseline gets three, and tonight three and for a suspicion three fresh ones: the next
three at once, or later ones. These are the launches of a session of three that began within some
minutes, or else the last three, of more than six.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from busbw.history.files import read_all
from busbw.history.lines import Line
from busbw.judge.levels import history_of
from busbw.judge.policy import POLICIES
from busbw.judge.rule import CaseTimes
from busbw.model.case import Case
from busbw.model.words import Device

from .night import LAUNCHES, Night, Times, night
from .shares import clopper_pearson, percent, row

FOLDER = Path(__file__).parent / "history"
_SOON = timedelta(minutes=4)
# As many sizes are drawn for sessions of few, as often for each pair.
_FEW, _DRAWS = 3, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One session: when it began, on what, its launches by case, and those a while later."""

    began: datetime
    device: Device
    times_s: Times
    later_s: Times

    def only(self, cases: Sequence[Case]) -> Kept:
        times_s, later_s = ({c: of[c] for c in cases} for of in (self.times_s, self.later_s))
        return replace(self, times_s=times_s, later_s=later_s)


def read(folder: Path = FOLDER) -> list[Kept]:
    """The sessions in `folder` with as many launches of every case as are needed, oldest first."""
    found: dict[str, list[Line]] = {}
    for history in read_all(folder).values():
        for line in history:
            found.setdefault(line.session, []).append(line)
    sessions: list[Kept] = []
    for lines in sorted(found.values(), key=lambda those: those[0].began):
        began = lines[0].began
        times_s = {line.case: tuple(us / 1e6 for us in line.times_us) for line in lines}
        fewest = min(map(len, times_s.values()))
        if fewest >= 2 * LAUNCHES:
            more = fewest > 2 * LAUNCHES
            later_s = {case: of[-LAUNCHES:] for case, of in times_s.items()} if more else {}
            one = Kept(began=began, device=lines[0].device, times_s=times_s, later_s=later_s)
            sessions.append(one)
        elif sessions and began - sessions[-1].began < _SOON:
            sessions[-1] = replace(sessions[-1], later_s=times_s)
    return [one for one in sessions if one.later_s]


def judged(
    accepted: Kept, tonight: Kept, slower: Mapping[Case, float], *, later: bool = False
) -> Night:
    """`tonight` against one accepted session; `slower` are factors of cases' times.

    With `later` the fresh launches are the later ones.
    """
    times_s = {
        case: tuple(slower.get(case, 1.0) * one for one in _taken(tonight, case, later))
        for case in tonight.times_s
        if case in accepted.times_s
    }
    policy = POLICIES[tonight.device]
    before = {c: CaseTimes.of(one[:LAUNCHES], policy.rule) for c, one in accepted.times_s.items()}
    return night(history_of([before], policy, measured=times_s), times_s, policy)


def _taken(tonight: Kept, case: Case, later: bool) -> Sequence[float]:
    times_s = tonight.times_s[case]
    return (*times_s[:LAUNCHES], *tonight.later_s[case]) if later else times_s


def rows(sessions: Sequence[Kept]) -> Iterator[str]:
    yield row("sizes", "fresh launches", "question", "answers", "share (95 %)")
    yield row(*["---"] * 5)
    whole = list(itertools.combinations(sessions, 2))
    for few, pairs in ((False, whole), (True, list(_few(whole)))):
        for later in (False, True):
            for text, found, among in _answers(pairs, later=later, few=few):
                lower, upper = map(percent, clopper_pearson(found, among))
                yield row(
                    str(len(pairs[0][0].times_s)),
                    "later" if later else "at once",
                    text,
                    f"{found} of {among}",
                    f"{percent(found / among)} ({lower} to {upper})",
                )


def _few(pairs: Sequence[tuple[Kept, Kept]]) -> Iterator[tuple[Kept, Kept]]:
    """Of each pair some with a few sizes only, drawn from all."""
    chance = random.Random(1)
    for accepted, tonight in pairs:
        for _ in range(_DRAWS):
            cases = chance.sample(list(accepted.times_s), _FEW)
            yield accepted.only(cases), tonight.only(cases)


def _answers(
    pairs: Sequence[tuple[Kept, Kept]], *, later: bool, few: bool
) -> Iterator[tuple[str, int, int]]:
    red = sum(judged(*pair, {}, later=later).is_red for pair in pairs)
    yield "unchanged: red for any reason", red, len(pairs)
    for factor in (1.5, 2.0, 3.0):
        seen = [
            case in judged(*pair, {case: factor}, later=later).red
            for pair in pairs
            for case in list(pair[1].times_s)[: 1 if few else None]
        ]
        yield f"one case at {factor:g} times its time: flagged", sum(seen), len(seen)
    if not few:
        slow = [dict.fromkeys(list(tonight.times_s)[::2], 3.0) for _, tonight in pairs]
        red = sum(judged(*pair, of, later=later).is_red for pair, of in zip(pairs, slow))
        yield "every other size at 3 times its time: red", red, len(pairs)
