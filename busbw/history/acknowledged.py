"""Changes that somebody looked at and accepts: a file that is written by hand and reviewed.

    [[change]]
    since = 2026-11-03
    case = "jax.all_reduce.*"
    machine = "tpu-v5-lite/4r"
    reason = "libtpu 0.0.31 waits for all hosts; accepted in #123"

From that day on the level is what has been measured since. Reads one file and writes none.
"""

from __future__ import annotations

import datetime
import fnmatch
from dataclasses import dataclass
from pathlib import Path

import tomllib

from busbw import files, wire
from busbw.model.stored import check_date

from .files import HistoryError

FILE = "acknowledged.toml"

# A change begins with a session; whoever writes the day may mean the one before or after it.
_NEAR = datetime.timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Acknowledged:
    """A change `since` a day, of the cases and machines whose names match the patterns."""

    since: str
    reason: str
    case: str = "*"
    machine: str = "*"

    @property
    def began(self) -> datetime.datetime:
        """The begin of that day, UTC."""
        return datetime.datetime.fromisoformat(self.since).replace(tzinfo=datetime.timezone.utc)

    def is_of(self, case: str, machine: str) -> bool:
        """Whether it is a change of this case on this machine, by their names."""
        return fnmatch.fnmatchcase(case, self.case) and fnmatch.fnmatchcase(machine, self.machine)

    def explains(self, began: datetime.datetime) -> bool:
        """Whether a change that began then is this one."""
        return self.began - _NEAR <= began < self.began + 2 * _NEAR


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """The whole file."""

    change: tuple[Acknowledged, ...] = ()


def acknowledged(root: Path) -> tuple[Acknowledged, ...]:
    """What is acknowledged in `root`, the folder of the baselines; nothing without a file.

    Raises HistoryError, which says where and why.
    """
    path = root / FILE
    if not path.exists():
        return ()
    try:
        raw = tomllib.loads(files.content(path).decode())
    except files.InputError as error:
        raise HistoryError(f"{path} {error}") from error
    except ValueError as error:
        raise HistoryError(f"{path}: not TOML: {error}") from error
    for one in raw["change"] if isinstance(raw.get("change"), list) else ():
        if isinstance(one, dict) and isinstance(one.get("since"), datetime.date):
            one["since"] = one["since"].isoformat()
    try:
        found = wire.from_json(_File, raw, "file").change
        for index, one in enumerate(found):
            _check(one, f"file.change[{index}]")
    except wire.WireError as error:
        raise HistoryError(f"{path}: {error}") from error
    return found


def _check(one: Acknowledged, location: str) -> None:
    try:
        check_date("since", one.since)
    except ValueError as error:
        raise wire.WireError(f"{location}.{error}") from error
    if not one.reason.strip():
        raise wire.WireError(f"{location}.reason: expected why it is accepted, got nothing")
