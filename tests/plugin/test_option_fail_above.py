"""--fail-above: the user's own limit in place of the computed one."""

from __future__ import annotations

import pytest

from . import nightly
from .folder import SLOW, Folder

TPU = {**SLOW, "device": "tpu", "device_kind": "TPU v2", "ranks": 8}


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
    assert "--fail-above=25%: what it costs is unknown" in ran.text.splitlines()[-2]


def test_a_case_within_it_passes_whatever_the_rule_says(folder: Folder) -> None:
    _slower(folder, 1.9)
    assert folder.run(exit_code=1).outcomes == {"1M": "REGRESSED"}
    assert folder.run("--fail-above=4x", exit_code=0).outcomes == {"1M": "PASS"}


@pytest.mark.parametrize("limit", ["", "25", "0%", "1x", "x", "%", "-5%", "nan%", "inf%", "1,5x"])
def test_what_is_no_limit_is_a_usage_error(folder: Folder, limit: str) -> None:
    ran = folder.run(f"--fail-above={limit}", exit_code=4)
    assert f"--fail-above: '{limit}'; accepted is a loss such as 25%" in ran.text


def test_a_limit_of_one_s_own_is_never_too_wide_to_judge_by(folder: Folder) -> None:
    folder.script(**TPU)
    folder.with_baselines()
    folder.script(**TPU, cases=[{"slower": 1.5}])
    assert folder.run("--fail-above=60%", exit_code=0).outcomes == {"1M": "NOISY"}
    assert folder.run("--fail-above=2.5x", exit_code=0).outcomes == {"1M": "PASS"}
    assert folder.run("--fail-above=40%", exit_code=1).outcomes == {"1M": "REGRESSED"}


def test_the_setting_of_a_repository_is_the_limit_too(folder: Folder) -> None:
    _slower(folder, 1.3)
    ran = folder.run("-o", "busbw_fail_above=25%", exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    ran = folder.run("-o", "busbw_fail_above=25%", "--against=python", exit_code=4)
    assert "--fail-above: not with --against" in ran.text


def test_the_last_line_says_how_often_it_would_have_failed_for_nothing(folder: Folder) -> None:
    folder.script(**TPU)
    folder.with_baselines()
    nightly.stored_before(folder, {20: 1.0})
    nightly.nights(folder, [1.0, 1.0, 1.6, 1.0, 1.0, 1.0, 1.7, 1.0, 1.0, 1.0])
    ran = folder.run("--fail-above=25%", "--history=history", exit_code=0)
    said = "--fail-above=25%: of the last 10 sessions without a change 2 had a case above it"
    assert said in ran.text.splitlines()[-2]


def test_two_stacks_in_turn_have_limits_of_their_own(folder: Folder) -> None:
    ran = folder.run("--fail-above=25%", "--against=python", exit_code=4)
    assert "--fail-above: not with --against: it is a limit against stored times" in ran.text
