"""How a session runs: one process for each launch, groups of them, agents, or agents on hosts.

It says where that is, what can be hit or fail in it, and on which page that stands.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .faults import Fault, faults
from .ground import Ground
from .hits import WITHOUT_AGENTS, Hit, Target, hits
from .hosts import MEASURING, hosts
from .place import Place, here

_PROCESSES = 2
# Those that nothing in a group can do anything about.
_OF_GROUPS = (signal.SIGKILL, signal.SIGSTOP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The options of a session, what there is to hit in it, and how many times that is done."""

    name: str
    page: str
    draw: Callable[[int, int], tuple[Hit | Fault, ...]]
    many: int = 60
    processes: int = 1
    options: tuple[str, ...] = ()
    place: Callable[[Path], AbstractContextManager[Place]] = here

    @contextlib.contextmanager
    def ground(self, folder: Path, framework: str) -> Iterator[Ground]:
        """Where its sessions run, with all that they read and write in `folder`."""
        own, beside = folder / "ground", folder / "place"
        for path in (own, beside):
            path.mkdir()
        with self.place(beside) as place:
            yield Ground(own, framework, self.options, self.processes, place)


def _hits(
    count: int, seed: int, *, targets: tuple[Target, ...], processes: int
) -> tuple[Hit | Fault, ...]:
    return hits(count, seed, targets=targets, signals=_OF_GROUPS, processes=processes)


_GROUP = ("--ranks-per-process=2", f"--processes={_PROCESSES}")

LAYOUTS = {
    one.name: one
    for one in (
        Layout(name="single", page="kills.md", draw=hits),
        Layout(
            name="processes",
            page="kills-processes.md",
            draw=partial(_hits, targets=WITHOUT_AGENTS, processes=_PROCESSES),
            processes=_PROCESSES,
            options=_GROUP,
        ),
        Layout(
            name="agents",
            page="kills-agents.md",
            draw=partial(_hits, targets=tuple(Target), processes=_PROCESSES),
            processes=_PROCESSES,
            options=(*_GROUP, "--agents=local"),
        ),
        Layout(
            name="hosts",
            page="kills-hosts.md",
            draw=faults,
            many=30,
            processes=len(MEASURING),
            # To lock the stack it would need a network that leads further.
            options=(
                f"--hosts={','.join(MEASURING)}",
                "--agents-wait=30",
                "--no-reference-lock",
            ),
            place=hosts,
        ),
    )
}
SINGLE = LAYOUTS["single"]
