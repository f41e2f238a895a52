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

from busbw import history, judge
from busbw.judge import rule
from busbw.model import Case, Device

from .intervals import clopper_pearson
from .night import LAUNCHES, Night, Times, night, past
from .words import percent, row

FOLDER = Path(__file__).parent / "history"
FRESH = 3
_SOON = timedelta(minutes=4)
# As many sizes are drawn for sessions of few, as often for each pair.
_FEW, _DRAWS = 3, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One session: when it began, on what, its launches by case, and later ones if there are."""

    began: datetime
    device: Device
    times_s: Times
    later_s: Times | None = None

    def only(self, cases: Sequence[Case]) -> Kept:
        """With these cases alone."""
        later_s = {c: self.later_s[c] for c in cases} if self.later_s else None
        return replace(self, times_s={c: self.times_s[c] for c in cases}, later_s=later_s)


def read(folder: Path = FOLDER) -> list[Kept]:
    """The sessions in `folder` with as many launches of every case as are needed, oldest first."""
    found: dict[str, list[history.Line]] = {}
    for machine in history.read_all(folder).values():
        for line in machine.lines:
            found.setdefault(line.session, []).append(line)
    sessions: list[Kept] = []
    for lines in sorted(found.values(), key=lambda those: those[0].began):
        one = Kept(
            began=lines[0].began,
            device=lines[0].device,
            times_s={line.case.case: tuple(us / 1e6 for us in line.times_us) for line in lines},
        )
        fewest = min(map(len, one.times_s.values()))
        if fewest > LAUNCHES + FRESH:
            one = replace(one, later_s={case: of[-FRESH:] for case, of in one.times_s.items()})
        if fewest >= LAUNCHES + FRESH:
            sessions.append(one)
        elif sessions and one.began - sessions[-1].began < _SOON:
            sessions[-1] = replace(sessions[-1], later_s=one.times_s)
    return sessions


def judged(
    accepted: Kept,
    tonight: Kept,
    slower: Mapping[Case, float] | None = None,
    *,
    later: bool = False,
) -> Night:
    """`tonight` against one accepted session; `slower` are factors of cases' times.

    With `later` the fresh launches are the later ones.
    """
    factors = slower or {}
    times_s = {
        case: tuple(factors.get(case, 1.0) * one for one in _taken(tonight, case, later))
        for case in tonight.times_s
        if case in accepted.times_s
    }
    before = past({case: one[:LAUNCHES] for case, one in accepted.times_s.items()})
    policy = judge.POLICIES[tonight.device]
    return night(rule.learn([before], times_s, policy.rule), times_s, policy)


def _taken(tonight: Kept, case: Case, later: bool) -> Sequence[float]:
    if not later or tonight.later_s is None:
        return tonight.times_s[case]
    return (*tonight.times_s[case][:LAUNCHES], *tonight.later_s[case])


def rows(sessions: Sequence[Kept]) -> Iterator[str]:
    """The table of what is red for nothing, and of what is seen, of every pair of sessions."""
    yield row("sizes", "fresh launches", "question", "answers", "share (95 %)")
    yield row(*["---"] * 5)
    whole = list(itertools.combinations(sessions, 2))
    looks = [False, *([True] if all(one.later_s for one in sessions) else [])]
    for few in (False, True):
        pairs = list(_few(whole)) if few else whole
        for later in looks:
            for text, found, among in _answers(pairs, later=later, few=few):
                interval = clopper_pearson(found, among)
                share = f"{percent(interval.lower)} to {percent(interval.upper)}"
                sizes = str(len(pairs[0][0].times_s))
                when = "later" if later else "at once"
                counts = f"{found} of {among}", f"{percent(found / among)} ({share})"
                yield row(sizes, when, text, *counts)


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
    red = sum(judged(*pair, later=later).is_red for pair in pairs)
    yield "unchanged: red for any reason", red, len(pairs)
    for factor in (1.5, 2.0, 3.0):
        hits = among = 0
        for accepted, tonight in pairs:
            for case in list(tonight.times_s)[: 1 if few else None]:
                found = judged(accepted, tonight, {case: factor}, later=later)
                hits += case in found.regressed
                among += 1
        yield f"one case at {factor:g} times its time: flagged", hits, among
    if not few:
        hits = 0
        for accepted, tonight in pairs:
            slow = dict.fromkeys(list(tonight.times_s)[::2], 3.0)
            hits += judged(accepted, tonight, slow, later=later).is_red
        yield "every other size at 3 times its time: red", hits, len(pairs)
