"""Earlier nights of a folder: baselines that were stored then, and a history since."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from busbw import wire
from busbw.baselines.document import read_baselines
from busbw.history.files import HistoryLine, append_lines
from busbw.model.case import Case
from busbw.model.field_types import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline
from busbw.model.words import Clock, DeviceClass, Outcome, SessionOutcome
from tests.helpers.session_folder import Folder

Factor = float | Callable[[Case], float]


def days_ago(days: float) -> str:
    """Return the moment some days ago, as files have it."""
    return moment_text(datetime.now(UTC) - timedelta(days=days))


def stored_before(folder: Folder, factors: Mapping[int, float]) -> None:
    """Let every baseline have a session for each of these days ago, its times by that factor."""
    for path in folder.baseline_files:
        document = json.loads(path.read_text())
        (shared,) = document["sessions"].values()
        nights = {days_ago(days): factor for days, factor in factors.items()}
        document["sessions"] = dict.fromkeys(nights, shared)
        for row in document["entries"]:
            (first,) = row["times_us"].values()
            row["times_us"] = {
                moment: [factor * time_us for time_us in first] for moment, factor in nights.items()
            }
            row["pinned_date"] = min(nights)[:10]
        document["history"] = [{"date": min(nights)[:10], "entries": len(document["entries"])}]
        path.write_text(json.dumps(document))


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
        stored = read_baselines(path).baselines
        for number, factor in enumerate(factors):
            of_night = {k: v[number] if isinstance(v, list) else v for k, v in changes.items()}
            began = days_ago(len(factors) - 1 - number + until)
            common = {"session": os.urandom(8).hex(), "moment": began, **of_night}
            lines = [_line(baseline, factor, noise, common) for baseline in stored]
            append_lines(folder.path / "history", key, lines)


def _line(
    baseline: Baseline, factor: Factor, noise: random.Random, common: dict[str, Any]
) -> HistoryLine:
    by = factor if isinstance(factor, float) else factor(baseline.case)
    by *= 1 + noise.gauss(0, 1e-3)
    ordinary = {"outcome": Outcome.PASS, "session_outcome": SessionOutcome.PASS}
    times_us = tuple(float(f"{1e6 * time_s * by:.6g}") for time_s in baseline.times_s)
    device = DeviceClass.CPU if baseline.case.clock is Clock.HOST else DeviceClass.TPU
    return HistoryLine(device=device, case=baseline.case, times_us=times_us, **(ordinary | common))
