"""Earlier nights of a folder: baselines that were stored then, and a history since."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from busbw import wire
from busbw.baselines.store import contents_of
from busbw.history.files import append
from busbw.history.lines import Line, new_session
from busbw.model.case import Case
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, moment_text
from busbw.model.words import Clock, Device, Outcome, SessionOutcome

from .folder import Folder

Factor = float | Callable[[Case], float]


def days_ago(days: float) -> str:
    """The moment, as files have it."""
    return moment_text(datetime.now(timezone.utc) - timedelta(days=days))


def stored_before(folder: Folder, factors: Mapping[int, float]) -> None:
    """Let every baseline have a session for each of these days ago, its times by that factor."""
    for path in folder.baseline_files:
        document = json.loads(path.read_text())
        for entry in document["entries"]:
            first = entry["sessions"][0]
            entry["sessions"] = [_session(first, days, by) for days, by in factors.items()]
        path.write_text(json.dumps(document))


def _session(session: Mapping[str, Any], days: int, factor: float) -> dict[str, Any]:
    at = days_ago(days)
    times_us = [factor * time_us for time_us in session["times_us"]]
    return {**session, "at": at, "date": at[:10], "times_us": times_us}


def nights(folder: Folder, factors: Sequence[Factor], *, until: int = 1, **changes: Any) -> None:
    """Append a session a night `until` so many days ago: the baselines' times by its factor.

    By a thousandth more or less, as nights are. `changes` are those of lines; of lists, each night
    has its own.
    """
    noise = random.Random(1)
    for path in folder.baseline_files:
        key = wire.from_json(
            EnvironmentKey, json.loads(path.read_text())["environment"], "environment"
        )
        stored = contents_of(path).baselines
        for at, factor in enumerate(factors):
            own = {k: v[at] if isinstance(v, list) else v for k, v in changes.items()}
            began = days_ago(len(factors) - 1 - at + until)
            common = {"session": new_session(), "at": began, **own}
            lines = [_line(one, factor, noise, common) for one in stored]
            append(folder.path / "history", key, lines)


def _line(one: Baseline, factor: Factor, noise: random.Random, common: dict[str, Any]) -> Line:
    by = factor if isinstance(factor, float) else factor(one.case)
    by *= 1 + noise.gauss(0, 1e-3)
    ordinary = {"outcome": Outcome.PASS, "session_outcome": SessionOutcome.FINE}
    times_us = tuple(float(f"{1e6 * time_s * by:.6g}") for time_s in one.times_s)
    device = Device.CPU if one.case.clock is Clock.HOST else Device.TPU
    return Line(device=device, case=one.case, times_us=times_us, **(ordinary | common))
