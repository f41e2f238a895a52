"""The levels with which a session compares its cases, read from baselines and history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from busbw import grid
from busbw.baselines.store import find_baseline, open_draft
from busbw.baselines.updates import put_accepted_baselines
from busbw.history.files import (
    HistoryError,
    SeriesKey,
    append_lines,
    comparable_sessions,
    read_machine_lines,
)
from busbw.judge.levels import EarlierSessions
from busbw.judge.policy import POLICIES
from busbw.model.case import Case
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import HOST_SETUP_NAME, OWN_CODE_SETUP_NAME, Record
from busbw.model.verdict import SessionVerdict
from busbw.model.words import DeviceClass, SessionOutcome
from busbw.session.command_line import make_options
from busbw.session.judge import judge_cases, judge_measured_session, todays_session_by_key
from busbw.session.options import Options
from busbw.session.record import append_to_history
from busbw.session.resolve import read_earlier_sessions
from busbw.session.state import CollectedSession, JudgedSession, Machine, MeasuredSession, TimedJob
from tests.helpers import build
from tests.helpers.history_lines import line

KEY, OTHER_KEY = build.key(), build.key(ranks=2)
BEGAN = datetime(2026, 3, 4, 3, 5, 7, tzinfo=UTC)


def _stored(
    root: Path, *cases: Case, key: EnvironmentKey = KEY, moment: str = "2026-01-02T03:00:00Z"
) -> None:
    """Store a baseline of a millisecond for each of `cases`."""
    session = Record(moment=moment)
    measured = [Measurement(case=case, runs=(build.run(1e-3),)) for case in cases]
    with open_draft(root) as draft:
        accepted = [build.accepted(measurement, session, key=key) for measurement in measured]
        put_accepted_baselines(draft, accepted, session=session, budget=0.1)


def _options(root: Path, **changes: Any) -> Options:
    usual = {"baselines": root / "baselines", "history": root / "history"}
    return replace(make_options({"frameworks": ("fake",)}, root), **{**usual, **changes})


def _levels(
    options: Options,
    keys: Sequence[EnvironmentKey] = (KEY,),
) -> dict[EnvironmentKey, EarlierSessions]:
    collected = CollectedSession(options=options, began=BEGAN)
    return read_earlier_sessions(collected, keys, POLICIES[DeviceClass.CPU])


def _measured(root: Path, measurements: list[Measurement], **environment: Any) -> MeasuredSession:
    """Return a session with these measurements."""
    options = _options(root)
    jobs = {
        build.spec(framework=m.case.framework, payload_bytes=m.case.payload_bytes): TimedJob(
            case=m.case,
            key=KEY,
            baseline_search=find_baseline(options.baselines, KEY, m.case),
        )
        for m in measurements
    }
    return MeasuredSession(
        options=options,
        began=BEGAN,
        machine=Machine(
            target=grid.choose_devices(
                device=DeviceClass.CPU,
                ranks=4,
                probes=[build.probe(build.device_set())],
                named_frameworks=[],
            ),
            probes=(),
        ),
        specs=tuple(jobs),
        jobs=jobs,
        skipped_verdicts={},
        environment=build.environment(**environment),
        plan=build.plan(),
        levels=_levels(options),
        measurements=dict(zip(jobs, measurements)),
    )


def _judged(measured: MeasuredSession) -> JudgedSession:
    return JudgedSession(
        session_verdict=SessionVerdict(outcomes=(SessionOutcome.PASS,), text=""),
        verdicts={spec: interim.verdict for spec, interim in judge_cases(measured).items()},
        observations=measured,
    )


def test_all_cases_with_baselines_on_the_machine_have_levels(tmp_path: Path) -> None:
    root = tmp_path / "baselines"
    _stored(root, build.case(), build.case(framework="tensorflow"))
    _stored(root, build.case(strategy="ring"), build.case(payload_bytes=8192))
    _stored(root, build.case(ranks=2), key=OTHER_KEY)
    levels = _levels(_options(tmp_path), [KEY, KEY])
    assert {key: len(level.cases) for key, level in levels.items()} == {KEY: 4}


AT = "2026-01-02T03:00:00Z"


@pytest.mark.parametrize(
    "edit",
    [
        {AT: "2027-01-02T03:00:00Z"},
        # Also where it is not the last session of the file.
        {
            f'"{AT}": {{': f'"2027-01-02T03:00:00Z": {{}}, "{AT}": {{',
            f'"{AT}": [': f'"2027-01-02T03:00:00Z": [1000.0], "{AT}": [',
        },
    ],
)
def test_a_baseline_with_a_session_in_the_future_is_refused(
    tmp_path: Path, edit: Mapping[str, str]
) -> None:
    _stored(tmp_path / "baselines", build.case(), moment=AT)
    assert _levels(_options(tmp_path))
    (path,) = (tmp_path / "baselines").rglob("*.json")
    text = path.read_text()
    for before, after in edit.items():
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    error = f"{path}: the session of 2027-01-02T03:00:00Z is in the future"
    with pytest.raises(HistoryError, match=error):
        _levels(_options(tmp_path))


def test_a_session_of_the_history_with_a_date_in_the_future_is_refused(tmp_path: Path) -> None:
    _stored(tmp_path / "baselines", build.case(), moment=AT)
    append_lines(
        tmp_path / "history", KEY, [line(case=build.case(), moment="2027-01-02T03:00:00Z")]
    )
    with pytest.raises(HistoryError, match=r"the session of 2027-01-02T03:00:00Z is in the future"):
        _levels(_options(tmp_path))


def test_a_session_in_the_history_is_read_back_with_its_times_and_versions_and_flags(
    tmp_path: Path,
) -> None:
    """Otherwise every session would seem to have changed a version or a flag."""
    _stored(tmp_path / "baselines", build.case(), moment="2026-01-02T03:00:00Z")
    run = build.run(1.2345678e-3, 1.4e-3, versions={"jax": "0.10.0", "jaxlib": "0.10.0"})
    measured = _measured(
        tmp_path,
        [Measurement(case=build.case(), runs=(run,) * 3)],
        versions={"jax": dict(run.versions)},
        flags={"XLA_FLAGS": "--a"},
    )
    assert not append_to_history(_judged(measured)).errors
    lines = read_machine_lines(tmp_path / "history" / KEY.folder)
    (later,) = comparable_sessions(lines, SeriesKey(framework="jax"))
    ((key, session),) = todays_session_by_key(measured, measured.measurements).items()
    assert key == KEY
    assert later.began == session.began == BEGAN
    assert later.times_s == session.times_s
    ((before,), (now,)) = (*later.records.values(), *session.records.values())
    assert before.setup == now.setup
    assert now.setup["jaxlib"] == "0.10.0" and now.setup["XLA_FLAGS"] == "--a"
    assert {HOST_SETUP_NAME, OWN_CODE_SETUP_NAME} <= now.setup.keys()


def test_an_update_replaces_only_the_case_that_is_slower_over_several_sessions(
    tmp_path: Path,
) -> None:
    cases = [build.case(payload_bytes=1024 << power) for power in range(8)]
    _stored(tmp_path / "baselines", *cases)
    for day in range(10, 20):
        lines = [
            line(
                session=f"{day:016x}",
                moment=f"2026-02-{day}T03:00:00Z",
                device=DeviceClass.CPU,
                case=case,
                times_us=(1500.0 if case == cases[0] and day > 15 else 1000.0,) * 3,
            )
            for case in cases
        ]
        append_lines(tmp_path / "history", KEY, lines)
    today = [
        build.measurement(*(time_s,) * 3, payload_bytes=case.payload_bytes)
        for case, time_s in zip(cases, (1.5e-3, *(1e-3,) * 7))
    ]
    assert judge_measured_session(_measured(tmp_path, today)).cases_to_replace == {cases[0]}


def test_a_session_that_lost_a_host_has_no_verdict_although_its_launches_passed(
    tmp_path: Path,
) -> None:
    whole = _measured(tmp_path, [build.measurement(1e-3, 1e-3, 1e-3)])
    assert SessionOutcome.NO_VERDICT not in judge_measured_session(whole).session_verdict.outcomes
    verdict = judge_measured_session(replace(whole, lost_host_text="b is gone")).session_verdict
    assert SessionOutcome.NO_VERDICT in verdict.outcomes
    assert "b is gone" in verdict.text
