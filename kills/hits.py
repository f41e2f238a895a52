"""What is hit in each session, with which signal and when: drawn by a seed."""

from __future__ import annotations

import enum
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass

SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT)


class Target(str, enum.Enum):
    """Which process, and in which part of its life."""

    PROBE = "probe"
    STARTING = "worker, starting"
    MEASURING = "worker, measuring"
    LEAVING = "worker, leaving"
    AGENT = "agent"
    SESSION = "session"


WITHOUT_AGENTS = tuple(one for one in Target if one is not Target.AGENT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One signal. `launch` is the worker's, 1 or 2; `fraction` of that part of its life is over.

    Of a group it is the process with the index `member`, or that process's agent.
    """

    number: int
    target: Target
    signal: signal.Signals
    launch: int
    fraction: float
    member: int = 0

    @property
    def what(self) -> str:
        """In the page's first column."""
        return self.target.value

    @property
    def how(self) -> str:
        """In its second."""
        return signal.Signals(self.signal).name

    @property
    def ends_session(self) -> bool:
        """Whether it is the session itself that is hit."""
        return self.target is Target.SESSION


def hits(
    count: int,
    seed: int,
    *,
    targets: Sequence[Target] = WITHOUT_AGENTS,
    signals: Sequence[signal.Signals] = SIGNALS,
    processes: int = 1,
) -> tuple[Hit, ...]:
    """`count` hits: every signal to every target as often as it can be, in random order."""
    drawing = random.Random(seed)
    pairs = [(target, number) for target in targets for number in signals]
    drawn: list[tuple[Target, signal.Signals]] = []
    while len(drawn) < count:
        drawing.shuffle(pairs)
        drawn += pairs
    return tuple(
        Hit(
            number=number,
            target=target,
            signal=sent,
            # The first worker leaves while the second one starts.
            launch=1 if target is Target.LEAVING else drawing.choice((1, 2)),
            fraction=drawing.uniform(0.1, 0.9),
            member=drawing.randrange(processes) if processes > 1 else 0,
        )
        for number, (target, sent) in enumerate(drawn[:count], start=1)
    )
