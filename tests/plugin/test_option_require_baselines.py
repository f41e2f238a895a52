"""--require-baselines: a case without a baseline fails; the default where CI is set."""

from __future__ import annotations

import pytest

from tests.sweep import sweep

from .folder import Folder


def test_with_the_flag_a_case_without_a_baseline_fails_and_one_with_it_passes(
    folder: Folder,
) -> None:
    ran = folder.run("--require-baselines", exit_code=1)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert "a baseline is required" in ran.text
    assert "2 failed" in ran.last_line
    folder.with_baselines()
    folder.run("--require-baselines", exit_code=0)


@pytest.mark.parametrize(("value", "exit_code"), sweep([("1", 1), ("", 0), ("true", 1)], in_gate=2))
def test_ci_set_and_not_empty_requires_them(folder: Folder, value: str, exit_code: int) -> None:
    folder.environment.setenv("CI", value)
    assert folder.run(exit_code=exit_code).outcomes == {"1M": "NO_BASELINE"}


@pytest.mark.parametrize(
    ("setting", "ci", "exit_code"),
    sweep([("true", "", 1), ("false", "1", 0), ("auto", "1", 1), ("auto", "", 0)]),
)
def test_the_ini_setting_decides_over_ci(
    folder: Folder, setting: str, ci: str, exit_code: int
) -> None:
    folder.ini({"busbw_require_baselines": setting})
    folder.environment.setenv("CI", ci)
    folder.run(exit_code=exit_code)


def test_the_flag_decides_over_the_ini_setting(folder: Folder) -> None:
    folder.ini({"busbw_require_baselines": "false"})
    folder.run("--require-baselines", exit_code=1)


@pytest.mark.exhaustive
def test_another_protocol_is_no_baseline_where_one_is_required(folder: Folder) -> None:
    folder.with_baselines()
    folder.script(protocol="another")
    ran = folder.run("--require-baselines", exit_code=1)
    assert ran.outcomes == {"1M": "INCOMPARABLE"}


def test_out_of_memory_without_a_baseline_fails_where_one_is_required(folder: Folder) -> None:
    folder.script(cases=[{"then": "out_of_memory"}])
    ran = folder.run("--require-baselines", exit_code=1)
    assert ran.outcomes == {"1M": "OUT_OF_MEMORY"}
