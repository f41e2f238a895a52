"""All options together: in --help under one group, and each also as an ini setting."""

from __future__ import annotations

import re

import pytest

from .folder import Folder

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
WITHOUT_SETTING = ("update_baselines", "accept_regression", "prune_baselines", "rebase")


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def test_every_option_stands_in_help_in_one_of_four_groups(folder: Folder) -> None:
    ran = folder.pytest("--help", "perf", exit_code=0)
    groups = [text.split("\n\n")[0] for text in ran.text.split("\nbusbw: ")[1:]]
    measured, compared, hosts, compiled = groups
    for name in (*NAMES, *WITHOUT_SETTING):
        found = [re.findall(rf"^  {flag_of(name)}\b(?!-)", text, re.M) for text in groups]
        assert sum(map(len, found)) == 1, name
    assert "--payloads=" in measured and "--against=" in compared
    assert "--hosts=" in hosts and "--topology=" in compiled
    for name in NAMES:
        assert f"busbw_{name}" in ran.text
    for name in WITHOUT_SETTING:
        assert f"busbw_{name}" not in ran.text


@pytest.mark.parametrize(
    ("name", "setting", "said"),
    [
        ("device", "tpu", "--device=tpu: no TPU to measure on"),
        ("device", "quantum", "accepted are auto, cpu, gpu, tpu"),
        ("ranks", "1", "--ranks: 1"),
        ("frameworks", "keras", "--frameworks: 'keras'"),
        ("strategies", "magic", "--strategies: 'magic'"),
        ("collectives", "broadcast", "--collectives: 'broadcast'"),
        ("reduce_ops", "product", "--reduce-ops: 'product'"),
        ("placement", "beside", "--placement: 'beside'"),
        ("mesh", "2by4", "--mesh: '2by4'"),
        ("axes", "y", "--axes: there is no --mesh"),
        ("clock", "sundial", "--clock: 'sundial'; accepted are default, host, dispatch, device"),
        ("payloads", "1K:2K:3K", "--payloads: '1K:2K:3K'"),
        ("dtypes", "float33", "--dtypes: 'float33'"),
        ("launches", "0", "--launches: '0'"),
        ("time_budget", "soon", "--time-budget: 'soon'"),
        ("inject", "chaos", "--inject: 'chaos'; accepted are delay, memory"),
        ("against", "/nowhere/python", "--against: '/nowhere/python' is not an executable program"),
        ("against_env", "FLAGS", "--against-env: 'FLAGS'; accepted is NAME=VALUE"),
        ("case_timeout", "soon", "--case-timeout: 'soon'"),
        ("device_wait", "soon", "--device-wait: 'soon'"),
        ("memory_limit", "much", "--memory-limit: 'much'"),
        ("results", "nowhere/results.json", "--results: there is no folder"),
        ("python", "fake=/nowhere/python", "--python: '/nowhere/python'"),
        ("require_baselines", "perhaps", "accepted are true, false and auto"),
    ],
)
def test_nonsense_in_an_ini_setting_is_a_usage_error(
    folder: Folder, name: str, setting: str, said: str
) -> None:
    folder.ini({"busbw_frameworks": "fake", "busbw_payloads": "1K", f"busbw_{name}": setting})
    ran = folder.pytest("perf", exit_code=4, reports=False)
    assert said in ran.sentence


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
    assert ran.results is not None
    (case,) = ran.results["cases"]
    assert case["id"] == "fake-max-out_of_place-host-2x4-y-fake-bfloat16-2K"
    assert case["case"]["ranks"] == 8
    assert case["outcome"] == "NO_BASELINE"
    plan = ran.results["plan"]
    assert (plan["launches"], plan["timeout_s"]) == (2, 7)
    assert plan["memory_limit_bytes"] == 3 * 2**30
    assert "busbw baselines: elsewhere/" in ran.text
    assert "; asked for" in ran.text


def test_an_option_wins_over_its_setting(folder: Folder) -> None:
    folder.ini({"busbw_payloads": "4K", "busbw_launches": "nonsense"})
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}
