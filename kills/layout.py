"""How a session runs: in one process for each launch, or in groups of them, with agents or without.

It says what can be hit, with which signals, and on which page that stands.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from .hits import SIGNALS, WITHOUT_AGENTS, Target

_PROCESSES = 2
# Those that nothing in a group can do anything about.
_OF_GROUPS = (signal.SIGKILL, signal.SIGSTOP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The options of a session, and what there is to hit in it."""

    name: str
    page: str
    processes: int = 1
    options: tuple[str, ...] = ()
    targets: tuple[Target, ...] = WITHOUT_AGENTS
    signals: tuple[signal.Signals, ...] = SIGNALS


_GROUP = ("--ranks-per-process=2", f"--processes={_PROCESSES}")

LAYOUTS = {
    one.name: one
    for one in (
        Layout(name="single", page="kills.md"),
        Layout(
            name="processes",
            page="kills-processes.md",
            processes=_PROCESSES,
            options=_GROUP,
            signals=_OF_GROUPS,
        ),
        Layout(
            name="agents",
            page="kills-agents.md",
            processes=_PROCESSES,
            options=(*_GROUP, "--agents=local"),
            targets=tuple(Target),
            signals=_OF_GROUPS,
        ),
    )
}
SINGLE = LAYOUTS["single"]
