"""Options and ini settings as the help and the reference page list them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

SETTINGS = (
    *("baselines", "history", "frameworks", "payloads", "launches", "require_baselines"),
    *("fail_above", "python", "device_wait"),
)
WITHOUT_SETTING = (
    *("device", "ranks", "strategies", "collectives", "reduce_ops", "placement", "mesh", "axes"),
    *("clock", "dtypes", "time_budget", "inject", "case_timeout", "memory_limit", "results"),
    *("against", "against_env", "try_env", "update_baselines", "accept_regression"),
    "prune_baselines",
)


@pytest.mark.extension("cluster")
@pytest.mark.extension("compiled")
def test_the_help_lists_every_option_in_exactly_one_of_four_groups(folder: Folder) -> None:
    ran = folder.pytest("--help", "perf", exit_code=0)
    groups = [text.split("\n\n")[0] for text in ran.text.split("\nbusbw: ")[1:]]
    measured, hosts, compared, compiled = groups
    for name in (*SETTINGS, *WITHOUT_SETTING):
        flag = "--" + name.replace("_", "-")
        lines = [re.findall(rf"^  {flag}\b(?!-)", text, re.M) for text in groups]
        assert sum(map(len, lines)) == 1, name
    assert "--payloads=" in measured and "--against=" in compared
    assert "--hosts=" in hosts and "--topology=" in compiled
    assert set(re.findall(r"^  busbw_(\w+) \(", ran.text, re.M)) == set(SETTINGS)


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    sweep(
        [
            ("python", "fake=/nowhere/python", "--python: '/nowhere/python'"),
            ("require_baselines", "perhaps", "expected true, false or auto, got 'perhaps'"),
            (
                "frameworks",
                "keras",
                "--frameworks: expected one of jax, tensorflow, fake, got 'keras'",
            ),
            ("payloads", "1K:2K:3K", "--payloads: '1K:2K:3K'"),
            ("launches", "0", "--launches: expected a number from 1 to 10000000, got '0'"),
            ("fail_above", "25", "--fail-above: expected a percentage such as 25%"),
            ("device_wait", "0", "--device-wait: expected a number from 1e-09"),
            ("baselines", "nowhere", "--baselines: there is no folder"),
            ("history", "pytest.ini", "--history: "),
        ],
        in_gate=2,
    ),
)
def test_an_invalid_value_of_an_ini_setting_is_a_usage_error(
    folder: Folder, name: str, setting: str, message: str
) -> None:
    folder.ini({"busbw_frameworks": "fake", "busbw_payloads": "1K", f"busbw_{name}": setting})
    assert message in folder.pytest("perf", exit_code=4, reports=False).sentence


def test_an_ini_setting_has_the_same_effect_as_the_option_of_the_same_name(folder: Folder) -> None:
    settings = {
        "frameworks": "fake",
        "payloads": "2K",
        "launches": "2",
        "device_wait": "5",
        "baselines": "elsewhere",
        "history": "sessions",
        "require_baselines": "true",
    }
    folder.ini({f"busbw_{name}": text for name, text in settings.items()})
    (folder.path / "elsewhere").mkdir()
    ran = folder.pytest("perf", "-p", "no:cacheprovider", exit_code=1)
    (case,) = ran.cases
    assert case["id"] == "fake-default-float32-2K"
    assert case["outcome"] == "NO_BASELINE"
    assert ran.document["plan"]["launches"] == 2
    assert "busbw baselines: elsewhere/" in ran.text
    assert list((folder.path / "sessions").rglob("*.jsonl"))


def test_an_option_overrides_the_ini_setting_of_the_same_name(folder: Folder) -> None:
    folder.ini({"busbw_payloads": "4K", "busbw_launches": "nonsense"})
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}


@pytest.mark.extension("compiled")
def test_the_reference_page_lists_every_option_and_setting_of_a_session(
    pytester: pytest.Pytester,
) -> None:
    parser = pytester.parseconfig("-p", "busbw.plugin")._parser
    groups = [group for group in parser._groups if group.name.startswith("busbw")]
    options = {option.names()[0] for group in groups for option in group.options}
    settings = {name for name in parser._inidict if name.startswith("busbw_")}
    page = (Path(__file__).parents[3] / "docs" / "reference.md").read_text("utf-8")
    assert set(re.findall(r"^  (--[a-z-]+)", page.partition("## Commands")[0], re.M)) == options
    assert set(re.findall(r"^- `(busbw_\w+)`$", page, re.M)) == settings


def test_a_path_after_the_option_update_baselines_is_a_usage_error_and_runs_no_tests(
    folder: Folder,
) -> None:
    folder.ini({"testpaths": "theirs"})
    (folder.path / "theirs").mkdir()
    (folder.path / "theirs" / "test_own.py").write_text("def test_own(): pass\n")
    ran = folder.pytest("--update-baselines", "perf", exit_code=4, reports=False)
    assert "argument --update-baselines: invalid choice: 'perf' (choose from " in ran.text
    assert "passed" not in ran.text


def _load(extension: str, name: str) -> Any:
    """Return the option `name` of an extension as a parameter."""
    return pytest.param(name, marks=pytest.mark.extension(extension))


@pytest.mark.parametrize(
    "name",
    sweep(
        [
            *("processes", "ranks", "mesh", "axes", "results"),
            *("history", "memory-limit", "inject"),
            *(_load("cluster", name) for name in ("hosts", "cluster", "host-python")),
            *(_load("compiled", name) for name in ("topology", "libtpu")),
            _load("page", "page"),
        ],
        in_gate=3,
    ),
)
def test_an_option_with_an_empty_value_is_a_usage_error(folder: Folder, name: str) -> None:
    """Refuse options such as ``--hosts=$UNSET``, with which a session would measure no network."""
    ran = folder.run(f"--{name}=", exit_code=4, reports=False)
    assert f"argument --{name}: expected a value, got an empty text" in ran.sentence
