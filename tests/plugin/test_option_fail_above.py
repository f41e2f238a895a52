"""--fail-above: the user's own limit in place of the computed one."""

from __future__ import annotations

import pytest

from .folder import SLOW, Folder


def _slower(folder: Folder, factor: float) -> None:
    folder.script(**SLOW)
    folder.with_baselines()
    folder.script(**SLOW, cases=[{"slower": factor}])


@pytest.mark.parametrize("limit", ["25%", "1.25x"])
def test_a_case_beyond_it_has_regressed(folder: Folder, limit: str) -> None:
    _slower(folder, 1.3)
    assert folder.run(exit_code=0).outcomes == {"1M": "PASS"}
    ran = folder.run(f"--fail-above={limit}", exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert "(limit 1.250 x by --fail-above, provisional" in ran.case()["text"]


def test_a_case_within_it_passes_whatever_the_rule_says(folder: Folder) -> None:
    _slower(folder, 1.9)
    assert folder.run(exit_code=1).outcomes == {"1M": "REGRESSED"}
    assert folder.run("--fail-above=4x", exit_code=0).outcomes == {"1M": "PASS"}


@pytest.mark.parametrize("limit", ["25", "0%", "1x", "x", "%", "-5%", "nan%", "inf%", "1,5x"])
def test_what_is_no_limit_is_a_usage_error(folder: Folder, limit: str) -> None:
    ran = folder.run(f"--fail-above={limit}", exit_code=4)
    assert f"--fail-above: '{limit}'; accepted is a loss such as 25%" in ran.text


def test_two_stacks_in_turn_have_limits_of_their_own(folder: Folder) -> None:
    ran = folder.run("--fail-above=25%", "--against=python", exit_code=4)
    assert "--fail-above: not with --against: it is a limit against stored times" in ran.text
