"""The rates of busbw's own rules as numbers in a file, so that a change of a rule is held to them.

Read and written here; whether a change is for the worse is asked by a test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw import writing
from busbw.model import payload_text

from .corpus import RecordedSession
from .replay import GroupReplay, replay
from .resample import Scheme
from .rules import OWN

NAME = "figures.json"
PATH = Path(__file__).parent / NAME

# Few enough replays for every run of the tests; the page has more.
SCHEME = Scheme(replays=200, seed=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Shares of replays: `false_alarms`, and by injection those `seen`."""

    false_alarms: float
    seen: Mapping[str, float]

    def worse_than(self, before: Figures) -> list[str]:
        """In words, each share that is worse than it was."""
        found = []
        if self.false_alarms > before.false_alarms:
            found.append(f"false alarms {before.false_alarms:.3f} -> {self.false_alarms:.3f}")
        for name, share in before.seen.items():
            if self.seen.get(name, 0.0) < share:
                found.append(f"seen at {name} {share:.3f} -> {self.seen.get(name, 0.0):.3f}")
        return found


def figures(sessions: Sequence[RecordedSession], scheme: Scheme = SCHEME) -> dict[str, Figures]:
    """The figures of every rule of ours on `sessions`."""
    return {
        one.rule: Figures(
            false_alarms=one.unchanged.alarm_share,
            seen={_name(group): group.alarm_share for group in one.injected},
        )
        for one in replay(sessions, OWN, scheme=scheme)
    }


def _name(group: GroupReplay) -> str:
    injection = group.injection
    assert injection is not None
    at = injection.payload_bytes
    return f"{injection.kind} {injection.share:g}{f'@{payload_text(at)}' if at else ''}"


def write(found: Mapping[str, Figures], path: Path = PATH) -> None:
    """Write them."""
    document = {
        rule: {"false_alarms": one.false_alarms, "seen": dict(one.seen)}
        for rule, one in found.items()
    }
    writing.write(path, json.dumps(document, indent=1) + "\n")


def read(path: Path = PATH) -> dict[str, Figures]:
    """What was written."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {
        rule: Figures(false_alarms=one["false_alarms"], seen=one["seen"])
        for rule, one in document.items()
    }
