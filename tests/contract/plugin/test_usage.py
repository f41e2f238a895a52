"""Options as they are declared and documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

NAMES = (
    "device",
    "ranks",
    "frameworks",
    "strategies",
    "collectives",
    "reduce_ops",
    "placement",
    "mesh",
    "axes",
    "clock",
    "payloads",
    "dtypes",
    "launches",
    "time_budget",
    "inject",
    "case_timeout",
    "device_wait",
    "baselines",
    "memory_limit",
    "results",
    "python",
    "against",
    "against_env",
    "try_env",
    "require_baselines",
)


# What is written to baselines is asked for each time.
WITHOUT_SETTING = ("update_baselines", "accept_regression", "prune_baselines")


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def test_every_option_stands_in_help_in_one_of_four_groups(folder: Folder) -> None:
    ran = folder.pytest("--help", "perf", exit_code=0)
    groups = [text.split("\n\n")[0] for text in ran.text.split("\nbusbw: ")[1:]]
    measured, compared, hosts, compiled = groups
    for name in (*NAMES, *WITHOUT_SETTING):
        lines = [re.findall(rf"^  {flag_of(name)}\b(?!-)", text, re.M) for text in groups]
        assert sum(map(len, lines)) == 1, name
    assert "--payloads=" in measured and "--against=" in compared
    assert "--hosts=" in hosts and "--topology=" in compiled
    for name in NAMES:
        assert f"busbw_{name}" in ran.text
    for name in WITHOUT_SETTING:
        assert f"busbw_{name}" not in ran.text


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    sweep(
        [
            ("device", "tpu", "--device=tpu: no TPU to measure on"),
            ("device", "quantum", "expected one of auto, cpu, gpu, tpu"),
            ("ranks", "1", "--ranks: 1"),
            (
                "frameworks",
                "keras",
                "--frameworks: expected one of jax, tensorflow, fake, got 'keras'",
            ),
            ("strategies", "magic", "--strategies: expected one of "),
            ("collectives", "broadcast", "--collectives: expected one of "),
            ("reduce_ops", "product", "--reduce-ops: expected one of "),
            ("placement", "beside", "--placement: expected one of "),
            ("mesh", "2by4", "--mesh: '2by4'"),
            ("axes", "y", "--axes: there is no --mesh"),
            (
                "clock",
                "sundial",
                "--clock: expected one of default, host, dispatch, device, got 'sundial'",
            ),
            ("payloads", "1K:2K:3K", "--payloads: '1K:2K:3K'"),
            ("dtypes", "float33", "--dtypes: expected one of "),
            ("launches", "0", "--launches: '0'"),
            ("time_budget", "soon", "--time-budget: 'soon'"),
            ("inject", "chaos", "--inject: expected one of delay, memory, got 'chaos'"),
            (
                "against",
                "/nowhere/python",
                "--against: '/nowhere/python' is not an executable program",
            ),
            ("against_env", "FLAGS", "--against-env: 'FLAGS'; accepted is NAME=VALUE"),
            ("case_timeout", "soon", "--case-timeout: 'soon'"),
            ("device_wait", "soon", "--device-wait: 'soon'"),
            ("memory_limit", "much", "--memory-limit: 'much'"),
            ("results", "nowhere/results.json", "--results: there is no folder"),
            ("python", "fake=/nowhere/python", "--python: '/nowhere/python'"),
            ("require_baselines", "perhaps", "accepted are true, false and auto"),
        ],
        in_gate=2,
    ),
)
def test_nonsense_in_an_ini_setting_is_a_usage_error(
    folder: Folder, name: str, setting: str, message: str
) -> None:
    folder.ini({"busbw_frameworks": "fake", "busbw_payloads": "1K", f"busbw_{name}": setting})
    ran = folder.pytest("perf", exit_code=4, reports=False)
    assert message in ran.sentence


def test_settings_have_the_effect_of_their_options(folder: Folder) -> None:
    settings = {
        "device": "cpu",
        "ranks": "8",
        "frameworks": "fake",
        "strategies": "fake",
        "collectives": "all_reduce",
        "reduce_ops": "max",
        "placement": "out_of_place",
        "mesh": "2x4",
        "axes": "y",
        "clock": "host",
        "payloads": "2K",
        "dtypes": "bfloat16",
        "launches": "2",
        "case_timeout": "7",
        "device_wait": "5",
        "baselines": "elsewhere",
        "memory_limit": "3G",
        "require_baselines": "true",
    }
    folder.ini({f"busbw_{name}": text for name, text in settings.items()})
    (folder.path / "elsewhere").mkdir()
    ran = folder.pytest("perf", "-p", "no:cacheprovider", exit_code=1)
    (case,) = ran.cases
    assert case["id"] == "fake-max-out_of_place-host-2x4-y-fake-bfloat16-2K"
    assert case["case"]["ranks"] == 8
    assert case["outcome"] == "NO_BASELINE"
    plan = ran.document["plan"]
    assert (plan["launches"], plan["timeout_s"]) == (2, 7)
    assert plan["memory_limit_bytes"] == 3 * 2**30
    assert "busbw baselines: elsewhere/" in ran.text


def test_an_option_wins_over_its_setting(folder: Folder) -> None:
    folder.ini({"busbw_payloads": "4K", "busbw_launches": "nonsense"})
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}


def test_the_reference_has_every_option_and_setting_of_a_session(
    pytester: pytest.Pytester,
) -> None:
    parser = pytester.parseconfig("-p", "busbw.plugin")._parser
    groups = [group for group in parser._groups if group.name.startswith("busbw")]
    options = {option.names()[0] for group in groups for option in group.options}
    settings = {name for name in parser._inidict if name.startswith("busbw_")}
    page = (Path(__file__).parents[3] / "docs" / "reference.md").read_text("utf-8")
    assert set(re.findall(r"^  (--[a-z-]+)", page.partition("## Commands")[0], re.M)) == options
    assert set(re.findall(r"^- `(busbw_\w+)`$", page, re.M)) == settings


def test_a_path_taken_for_the_value_of_update_baselines_runs_no_other_tests(
    folder: Folder,
) -> None:
    folder.ini({"testpaths": "theirs"})
    (folder.path / "theirs").mkdir()
    (folder.path / "theirs" / "test_own.py").write_text("def test_own(): pass\n")
    ran = folder.pytest("--update-baselines", "perf", exit_code=4, reports=False)
    assert "argument --update-baselines: invalid choice: 'perf' (choose from " in ran.text
    assert "passed" not in ran.text


@pytest.mark.parametrize(
    "name",
    sweep(
        [
            *("hosts", "cluster", "processes", "ranks", "mesh", "axes", "results", "page"),
            *("history", "topology", "libtpu", "memory-limit", "inject"),
            *("stack-cache", "host-env", "host-python"),
        ],
        in_gate=3,
    ),
)
def test_an_option_that_is_given_empty_is_a_usage_error(folder: Folder, name: str) -> None:
    """As ``--hosts=$UNSET`` is, which would measure no network."""
    ran = folder.run(f"--{name}=", exit_code=4, reports=False)
    assert f"busbw: --{name}: expected a value, got an empty text" in ran.sentence
