"""What a session hands on to baselines, by its own verdict and by each case's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from busbw import baselines, grid
from busbw.model import Device, Outcome, SessionOutcome, SessionVerdict
from busbw.plugin.accepting import accepted, takes_slower
from busbw.plugin.session import Collected, Judged, Machine, Measured, Resolved, TimedJob, Written
from busbw.plugin.settings import Settings
from tests import build


def settings(root: Path, **changes: Any) -> Settings:
    """Those that decide what is written."""
    usual: dict[str, Any] = {
        "baselines": root,
        "writes_baselines": True,
        "update_baselines": "all",
        "accept_regression": "",
        "rebase": "",
        "prune_baselines": False,
        "memory_limit_bytes": None,
    }
    return cast(Settings, SimpleNamespace(**{**usual, **changes}))


def judged(
    root: Path,
    *,
    outcome: Outcome = Outcome.NO_BASELINE,
    session: SessionOutcome = SessionOutcome.FINE,
) -> Judged:
    """A session that measured one case, at its end."""
    spec, asked, key = build.spec(), settings(root), build.key()
    target = grid.choose_target(
        device=Device.CPU, ranks=4, probes=[build.probe(build.device_set())], named=[]
    )
    resolved = Resolved(
        collected=Collected(settings=asked, grid=(spec,)),
        machine=Machine(target=target, probes=()),
        specs=(spec,),
        jobs={spec: TimedJob(case=build.case(), key=key, slice_key=key)},
        skipped={},
        environment=build.environment(commit="abc"),
        plan=build.plan(),
    )
    measurements = {spec: build.measurement(1e-3, 1.1e-3)}
    return Judged(
        settings=asked,
        session=SessionVerdict(outcome=session, text="because"),
        verdicts={spec: build.verdict(outcome)},
        observed=Measured(resolved=resolved, measurements=measurements),
    )


def write(found: Judged) -> Written:
    """What was written; the exit code stays as it was."""
    written, exit_code = accepted(found)
    assert exit_code is None
    return written


def test_a_fine_session_is_written_with_its_commit(tmp_path: Path) -> None:
    (change,) = write(judged(tmp_path)).changes
    assert change.after is not None
    assert change.after.times_s == (1e-3, 1.1e-3)
    assert change.after.sessions[0].commit == "abc"


@pytest.mark.parametrize(
    "session", [one for one in SessionOutcome if one is not SessionOutcome.FINE]
)
def test_no_other_session_writes_anything_and_it_says_why(
    tmp_path: Path, session: SessionOutcome
) -> None:
    written = write(judged(tmp_path, session=session))
    assert written.notes == (f"no baseline was written: {session.value}: because",)
    assert not list(tmp_path.iterdir())


def test_a_noisy_case_is_not_written_and_it_says_why(tmp_path: Path) -> None:
    written = write(judged(tmp_path, outcome=Outcome.NOISY))
    assert written.notes == ("jax.all_reduce.psum.float32.4K: the baseline was not written: NOISY",)
    assert written.changes == ()


@pytest.mark.parametrize(
    ("outcome", "sessions"),
    [(Outcome.PASS, 2), (Outcome.IMPROVED, 1), (Outcome.REGRESSED, 1)],
)
def test_only_what_passed_joins_what_is_stored(
    tmp_path: Path, outcome: Outcome, sessions: int
) -> None:
    write(judged(tmp_path))
    write(judged(tmp_path, outcome=outcome))
    found = baselines.find(tmp_path, build.key(), build.case()).baseline
    assert found is not None
    assert len(found.sessions) == sessions


@pytest.mark.parametrize(
    ("time_s", "changes", "taken"),
    [
        (1.09e-3, {}, True),
        (1.11e-3, {}, False),
        (1.11e-3, {"accept_regression": "why"}, True),
        (1.09e-3, {"update_baselines": "new"}, False),
        (1.09e-3, {"update_baselines": "improved"}, False),
    ],
)
def test_slower_times_are_taken_within_the_budget_or_with_a_reason(
    tmp_path: Path, time_s: float, changes: dict[str, str], taken: bool
) -> None:
    asked = settings(tmp_path, **changes)
    found = takes_slower(asked, build.baseline(1e-3), build.measurement(time_s), 0.10)
    assert found is taken


def test_whatever_has_no_pin_or_another_protocol_is_taken(tmp_path: Path) -> None:
    asked, slow = settings(tmp_path), build.measurement(9.0)
    for stored in (None, build.baseline(), build.baseline(1e-3, protocol="host/another")):
        assert takes_slower(asked, stored, slow, 0.10)
