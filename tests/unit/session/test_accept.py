"""The times that a session stores as baselines, by its outcome and by the outcome of each case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw import extensions, grid
from busbw.baselines.store import find_baseline
from busbw.judge.case import summarize_times
from busbw.model.verdict import SessionVerdict
from busbw.model.words import DeviceClass, Outcome, SessionOutcome
from busbw.session.accept import accept_times, write_requested_baselines
from busbw.session.command_line import make_options
from busbw.session.options import Options
from busbw.session.state import JudgedSession, Machine, MeasuredSession, TimedJob
from tests.helpers import build


@pytest.fixture(autouse=True)
def without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock no stack, for which uv would ask an index."""
    monkeypatch.setattr(extensions, "load_declared_functions", lambda name: [])


def options(root: Path, **changes: Any) -> Options:
    """Return the options of a session that writes below `root`."""
    usual = {"update_baselines": "all"}
    read = make_options({"frameworks": ("fake",)}, root)
    return replace(read, baselines=root, **{**usual, **changes})


def judged(
    root: Path,
    *,
    outcome: Outcome = Outcome.NO_BASELINE,
    session: SessionOutcome = SessionOutcome.PASS,
    times_s: tuple[float, ...] = (1e-3, 1.1e-3),
    **changes: Any,
) -> JudgedSession:
    """Return a judged session that measured one case."""
    spec, key = build.spec(), build.key()
    stored = find_baseline(root, key, build.case())
    measured = MeasuredSession(
        options=options(root, **changes),
        grid=(spec,),
        machine=Machine(
            target=grid.choose_devices(
                device=DeviceClass.CPU,
                ranks=4,
                probes=[build.probe(build.device_set())],
                named_frameworks=[],
            ),
            probes=(),
        ),
        specs=(spec,),
        jobs={spec: TimedJob(case=build.case(), key=key, baseline_search=stored)},
        skipped_verdicts={},
        environment=build.environment(commit="abc"),
        plan=build.plan(),
        measurements={spec: build.measurement(*times_s)},
    )
    return JudgedSession(
        session_verdict=SessionVerdict(outcomes=(session,), text="because"),
        verdicts={spec: build.verdict(outcome, now=summarize_times(build.case(), times_s))},
        observations=measured,
    )


def write(session: JudgedSession) -> JudgedSession:
    """Accept the times of a session, without an error."""
    written = write_requested_baselines(session, accept_times)
    assert not written.errors
    return written


WHY: dict[str, Any] = {"accept_regression": "why"}
NEW, BETTER = {"update_baselines": "new"}, {"update_baselines": "improved"}

# By outcome and time over the pinned one, what becomes of a stored session of 1 ms: another joins
# it, replaces it, is refused, or is left; plainly, with a reason, =new and =improved.
TABLE = {
    (Outcome.PASS, 1.05): ("joins", "joins", "left", "left"),
    (Outcome.PASS, 1.6): ("refused", "replaces", "left", "left"),
    (Outcome.IMPROVED, 0.9): ("replaces", "replaces", "left", "replaces"),
    (Outcome.IMPROVED, 0.5): ("replaces", "replaces", "left", "replaces"),
    (Outcome.REGRESSED, 1.2): ("joins", "replaces", "left", "left"),
    (Outcome.REGRESSED, 3.0): ("refused", "replaces", "left", "left"),
    (Outcome.NOISY, 1.1): ("left", "left", "left", "left"),
    (Outcome.NOISY, 1.4): ("left", "left", "left", "left"),
    (Outcome.FAILED, 1.0): ("left", "left", "left", "left"),
    (Outcome.SKIPPED, 1.0): ("left", "left", "left", "left"),
}


@pytest.mark.parametrize(
    ("outcome", "ratio", "options", "becomes"),
    [
        (outcome, ratio, options, becomes)
        for (outcome, ratio), row in TABLE.items()
        for options, becomes in zip(({}, WHY, NEW, BETTER), row, strict=True)
    ],
)
def test_outcome_and_option_decide_whether_a_session_joins_or_replaces_the_stored_session(
    tmp_path: Path, outcome: Outcome, ratio: float, options: dict[str, Any], becomes: str
) -> None:
    write(judged(tmp_path, times_s=(1e-3,)))
    now_s = round(1e-3 * ratio, 9)
    written = write_requested_baselines(
        judged(tmp_path, outcome=outcome, times_s=(now_s,), **options), accept_times
    )
    sessions = {"joins": [(1e-3,), (now_s,)], "replaces": [(now_s,)]}
    assert _sessions(tmp_path) == sessions.get(becomes, [(1e-3,)])
    assert bool(written.errors) == (becomes == "refused")
    assert (written.session_verdict.outcome is SessionOutcome.NO_VERDICT) == bool(written.errors)
    assert all(row.values["reason"] for table in written.baseline_tables for row in table.rows)


@pytest.mark.parametrize(
    ("outcome", "moved", "changes", "cause", "lost"),
    [
        (Outcome.REGRESSED, False, WHY, "REGRESSED", True),
        (Outcome.PASS, True, WHY, "PASS, moved with others", True),
        (Outcome.REGRESSED, True, WHY, "REGRESSED, moved with others", True),
        (Outcome.PASS, False, WHY, "PASS", True),
        (Outcome.NO_BASELINE, False, {}, "NO_BASELINE", False),
    ],
)
def test_a_changed_baseline_has_the_reason_of_the_change(
    tmp_path: Path, outcome: Outcome, moved: bool, changes: dict[str, Any], cause: str, lost: bool
) -> None:
    if lost:
        write(judged(tmp_path, times_s=(1e-3,)))
    now = judged(tmp_path, outcome=outcome, times_s=(2e-3,), **changes)
    now = replace(now, cases_to_replace=frozenset({build.case()} if moved else ()))
    ((row,),) = (table.rows for table in write(now).baseline_tables)
    assert row.values["reason"] == (f"{cause}, loss accepted" if lost else cause)
    stored = find_baseline(tmp_path, build.key(), build.case()).baseline
    assert stored is not None and stored.sessions[-1].commit == "abc"


def _sessions(root: Path) -> list[tuple[float, ...]]:
    stored: Any = find_baseline(root, build.key(), build.case()).baseline
    return [session.times_s for session in stored.sessions]
