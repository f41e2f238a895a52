"""--time-budget: so much time for launches beyond those asked for, where something is undecided."""

from __future__ import annotations

import pytest

from .folder import SLOW, Folder
from .test_not_green import session_failure
from .test_option_against_env import PAIRS, reference

NONE = "--time-budget=1e-9"
SPENT = (
    "note: --time-budget of 1e-09 s for more launches is spent; "
    "still undecided: fake-default-float32-1M"
)
STANDS = "NO_VERDICT: suspected and not seen again in the time: fake-default-float32-1M"


def regressed(folder: Folder) -> None:
    """A baseline that today's times will not meet."""
    folder.script(**SLOW)
    folder.with_baselines()
    folder.scale_baseline(1 / 3)


def test_while_there_is_time_a_suspicion_is_measured_again(folder: Folder) -> None:
    regressed(folder)
    ran = folder.run("--time-budget=60", exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert len(ran.case()["launches"]) == 4
    assert "busbw: 3 more launches of fake-default-float32-1M" in ran.text
    assert "FAILED: 1 of 1 case failed: 1 REGRESSED; 1 case measured in 4 launches each" in ran.text


def test_a_suspicion_that_fresh_launches_do_not_show_is_dropped(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines()
    folder.script(**SLOW, cases=[{"passes": [1], "slower": 5}])
    ran = folder.run(exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}
    assert len(ran.case()["launches"]) == 4


def test_when_it_is_spent_a_suspicion_is_no_regression_and_not_green(folder: Folder) -> None:
    regressed(folder)
    ran = folder.run(NONE, exit_code=1)
    assert ran.outcomes == {"1M": "NOISY"}
    assert len(ran.case()["launches"]) == 1
    assert SPENT in ran.text
    assert STANDS in session_failure(ran)


def test_in_turn_a_suspicion_that_stands_is_not_green_either(folder: Folder) -> None:
    folder.script(**SLOW, cases=[{"slower": 1.1}])
    ran = folder.run(reference(**SLOW), PAIRS, NONE, exit_code=1)
    assert ran.outcomes == {"1M": "NOISY"}
    assert SPENT in ran.text
    assert "suspected, not yet seen again" in ran.text
    assert STANDS in session_failure(ran)


def test_what_is_decided_at_once_needs_none(folder: Folder) -> None:
    folder.with_baselines()
    ran = folder.run(NONE, exit_code=0)
    assert "--time-budget of" not in ran.text


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf", ""])
def test_nonsense_is_a_usage_error(folder: Folder, text: str) -> None:
    ran = folder.run(f"--time-budget={text}", exit_code=4)
    assert f"--time-budget: {text!r}; accepted is a number of seconds above 0" in ran.sentence
