"""The value that every launcher gives, and how its variables are read. Knows no launcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from busbw.model.words import plural


class LauncherError(ValueError):
    """Variables that cannot be what a launcher sets; the message is what the user reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """What `launcher`, such as ``Slurm``, says of this process.

    `count` is None where it does not say how many processes there are. Rank 0 is on `host`; where
    that is empty, `unnamed` says why. `job` is the same for all processes of one start, and another
    for the next where the launcher can tell them apart. `one_host`: all processes are on this one.
    """

    launcher: str
    rank: int
    count: int | None
    job: str
    host: str = ""
    unnamed: str = ""
    one_host: bool = False

    @property
    def started(self) -> str:
        count = "an unknown number of processes"
        if self.count is not None:
            count = plural(self.count, "process")
        return f"{self.launcher} started {count}"


def whole(environment: Mapping[str, str], name: str, least: int = 0) -> int:
    """The number in a variable. Raises LauncherError for anything else, also for none."""
    text = environment.get(name, "").strip()
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise LauncherError(f"{name}={text[:60]!r}; accepted is a whole number from {least} on")
    return int(text)


def rank_of(environment: Mapping[str, str], name: str, count: int) -> int:
    """The rank in a variable. Raises LauncherError unless it is below `count`."""
    rank = whole(environment, name)
    if rank >= count:
        raise LauncherError(f"{name}={rank}; of {plural(count, 'process')} ranks are below {count}")
    return rank
