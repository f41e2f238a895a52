"""What fails in a session over several hosts, on which of them, and when: drawn by a seed."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass
from itertools import product

from .hosts import MEASURING
from .moments import Moment, When

LONGEST_CUT_S = 20.0


class Kind(str, enum.Enum):
    """What fails."""

    AGENT = "agent, SIGKILL"
    SSH = "ssh, SIGKILL"
    HOST = "host, SIGSTOP"
    CUT = "link, cut"
    CUT_FOR_A_WHILE = "link, cut for a while"
    SESSION = "session, SIGKILL"


# After these a host is never reached again.
FOR_GOOD = (Kind.HOST, Kind.CUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One fault of the host with rank `when.member`; a link is cut for `cut_s` at most."""

    number: int
    kind: Kind
    when: When
    cut_s: float

    @property
    def what(self) -> str:
        """In the page's first column."""
        return self.kind.value

    @property
    def how(self) -> str:
        """In its second: the host, and the part of the session."""
        place = "" if self.kind is Kind.SESSION else f"{self.host}, "
        text = f"{place}{self.when.moment.value}"
        return f"{text}, for {self.cut_s:.0f} s" if self.kind is Kind.CUT_FOR_A_WHILE else text

    @property
    def host(self) -> str:
        """The host that fails."""
        return MEASURING[self.when.member]

    @property
    def ends_session(self) -> bool:
        """Whether it is the session itself that fails."""
        return self.kind is Kind.SESSION


def faults(count: int, seed: int) -> tuple[Fault, ...]:
    """`count` faults: every kind in every part as often as it can be, in random order."""
    drawing = random.Random(seed)
    pairs = list(product(Kind, Moment))
    drawn: list[tuple[Kind, Moment]] = []
    while len(drawn) < count:
        drawing.shuffle(pairs)
        drawn += pairs
    return tuple(
        Fault(
            number=number,
            kind=kind,
            when=When(
                moment=moment,
                launch=1 if moment is Moment.LEAVING else drawing.choice((1, 2)),
                fraction=drawing.uniform(0.1, 0.9),
                member=drawing.randrange(len(MEASURING)),
            ),
            cut_s=drawing.uniform(1.0, LONGEST_CUT_S),
        )
        for number, (kind, moment) in enumerate(drawn[:count], start=1)
    )
