"""Lines as a session of two cases appends them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.history.files import HistoryLine
from busbw.model.machine import EnvironmentKey
from busbw.model.words import DeviceClass, Outcome, SessionOutcome
from tests.helpers import build

KEY = EnvironmentKey(device_kind="TPU v5 lite", ranks=4)
SESSION = "0123456789abcdef"


def line(**changes: Any) -> HistoryLine:
    """Build the line of a case that passed in three launches."""
    ordinary = HistoryLine(
        session=SESSION,
        moment="2026-01-31T03:00:00Z",
        device=DeviceClass.TPU,
        case=build.case(),
        outcome=Outcome.PASS,
        session_outcome=SessionOutcome.PASS,
        times_us=(11.25, 11.5, 11.375),
        ratio=1.01,
        baseline_date="2026-01-02",
        versions={"jax": "0.10.0"},
        surroundings={"XLA_FLAGS": "--xla_one=1"},
        host="tpu-vm-7",
        commit="0123456789ab",
        worker="fedcba9876543210",
    )
    return replace(ordinary, **changes)


def session(name: str, cases: int = 2) -> list[HistoryLine]:
    """Build the lines of a session."""
    sizes = [1024 << power for power in range(cases)]
    return [line(session=name, case=build.case(payload_bytes=size)) for size in sizes]


def documents(name: str, cases: int = 2, **changes: Any) -> list[dict[str, Any]]:
    """Return the lines of a session as JSON documents, with other values for some keys."""
    return [{**json.loads(row.text), **changes} for row in session(name, cases)]


def write(root: Path, machine: str, lines: Iterable[Mapping[str, Any]]) -> None:
    """Append documents to the file of a machine, as a session does."""
    path = root / machine / "2026.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
