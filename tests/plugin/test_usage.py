"""Options as they are declared, documented and mistyped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.session import hints
from tests.sweep import sweep

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
WITHOUT_SETTING = ("update_baselines", "accept_regression", "prune_baselines")


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
    (case,) = ran.cases
    assert case["id"] == "fake-max-out_of_place-host-2x4-y-fake-bfloat16-2K"
    assert case["case"]["ranks"] == 8
    assert case["outcome"] == "NO_BASELINE"
    plan = ran.document["plan"]
    assert (plan["launches"], plan["timeout_s"]) == (2, 7)
    assert plan["memory_limit_bytes"] == 3 * 2**30
    assert "busbw baselines: elsewhere/" in ran.text
    assert "; asked for" in ran.text


def test_an_option_wins_over_its_setting(folder: Folder) -> None:
    folder.ini({"busbw_payloads": "4K", "busbw_launches": "nonsense"})
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}


PAGE = Path(__file__).parents[2] / "docs" / "install.md"
GROUPS = ["busbw", "busbw compare", "busbw hosts", "busbw compile"]


def documented(heading: str) -> set[str]:
    """The options of the page's table below `heading`."""
    table = PAGE.read_text("utf-8").partition(f"| {heading} |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(.*?)` \|", table, re.M)
    assert len(set(rows)) == len(rows)
    return set(rows)


def test_the_table_of_options_is_that_of_the_parser(pytester: pytest.Pytester) -> None:
    parser = pytester.parseconfig("-p", "busbw.plugin")._parser
    groups = [one for one in parser._groups if one.name.startswith("busbw")]
    assert [one.name for one in groups] == GROUPS
    assert all(one.options for one in groups)
    options = [option.names()[0] for one in groups for option in one.options]
    settings = {name for name in parser._inidict if name.startswith("busbw_")}
    named = {flag: "busbw_" + flag.removeprefix("--").replace("-", "_") for flag in options}
    with_setting = {flag for flag in named if named[flag] in settings}
    assert documented("option, setting") == with_setting
    assert documented("no setting") == set(named) - with_setting
    assert settings <= set(named.values())


def test_what_the_page_says_of_other_commands_is_there() -> None:
    text = PAGE.read_text("utf-8")
    for words in ("busbw run", "busbw init", "busbw --version", "BUSBW_REQUIREMENT"):
        assert words in text


FLAGS = ("--payloads", "--ranks", "--clock", "--results", "--device")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], None),
        (["perf", "--payloads=1K", "-k", "b", "-x"], None),
        (["-f", "2"], None),
        (["-b"], "for nccl-tests' -b and -e write --payloads=:32M"),
        (["-g", "1", "-b", "8"], "for nccl-tests' -b and -e write --payloads=8:32M"),
        (["-e", "all"], "for nccl-tests' -b and -e write --payloads=32M:all"),
        (["--rank=3"], "did you mean --ranks=3?"),
        (
            ["-i", "1024"],
            "a range grows by a factor; other steps are a comma list",
        ),
    ],
)
def test_a_hint_is_of_what_is_asked(arguments: list[str], said: str | None) -> None:
    assert hints.of(arguments, FLAGS) == (said or "")


def test_no_option_of_pytest_or_its_plugins_is_taken_for_a_mistake(folder: Folder) -> None:
    ran = folder.pytest("--help", "perf", exit_code=0, reports=False)
    ours = "".join(text.split("\n\n")[0] for text in ran.text.split("\nbusbw: ")[1:])
    flags = sorted(set(re.findall(r"--[a-z][a-z-]+", ours)))
    assert "--payloads" in flags
    others = sorted(set(re.findall(r"(?<!\S)--?[a-zA-Z][a-z-]*", ran.text)) - set(flags))
    assert {"--verbose", "--benchmark-json", "-n"} <= set(others)
    assert hints.of(others, flags) == ""


# Three lines of a terminal, however many words are accepted.
LONGEST = 3 * 80


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--device=cuda", "'gpu'"),
        ("--device=TPU", "'tpu'"),
        ("--frameworks=tensorfow", "'tensorflow'"),
        ("--frameworks=tf", "'tensorflow'"),
        ("--strategies=rign", "'ring'"),
        ("--collectives=allreduce", "'all_reduce'"),
        ("--reduce-ops=summ", "'sum'"),
        ("--placement=inplace", "'in_place'"),
        ("--dtypes=fp16", "'float16'"),
        ("--dtypes=bf16", "'bfloat16'"),
        ("--clock=hots", "'host'"),
        ("--topology=v5e:4x2", "'v5e:2x4'"),
        ("--topology=h10:8", "'h100'"),
        ("--update-baselines=imporved", "'improved'"),
        ("--inject=dealy:15%", "'delay'"),
        ("--python=tensorfow=python3", "tensorflow=python3"),
        ("--python=/usr/bin/python3", "jax=/usr/bin/python3"),
        ("--mesh=2*4", "2x4"),
    ],
)
def test_the_nearest_of_what_is_accepted_is_named(folder: Folder, option: str, meant: str) -> None:
    sentence = folder.pytest("perf", option, exit_code=4, reports=False).sentence
    assert f"busbw: {option.split('=')[0]}: " in sentence
    assert f"did you mean {meant}? " in sentence
    assert len(sentence) <= LONGEST


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-b", "8", "-e", "32M", "-f", "2"), "write --payloads=8:32M"),
        (("-b8", "-e", "32m"), "write --payloads=8:32M"),
        (("--minbytes", "1K", "--maxbytes=1G"), "write --payloads=1K:1024M"),
        (("-b", "1M", "-f", "4"), "write --payloads=1M:32M:4"),
        (("-b", "8", "-g", "4"), "for -g write --ranks=4"),
        (("-w", "5"), "iterations are chosen by time"),
    ],
)
def test_for_options_of_nccl_tests_ours_are_named(
    folder: Folder, options: tuple[str, ...], said: str
) -> None:
    ran = folder.pytest("perf", *options, exit_code=4, reports=False)
    assert "unrecognized arguments: " in ran.text
    (hint,) = (line for line in ran.text.splitlines() if line.startswith("  busbw: "))
    assert said in hint


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--framework=jax", "--frameworks=jax"),
        ("--payload=1K", "--payloads=1K"),
        ("--update-baseline", "--update-baselines"),
        ("--stratgies=ring", "--strategies=ring"),
    ],
)
def test_for_what_is_nearly_an_option_the_option_is_named(
    folder: Folder, option: str, meant: str
) -> None:
    ran = folder.pytest("perf", option, exit_code=4, reports=False)
    assert f"  busbw: did you mean {meant}?" in ran.text.splitlines()


def test_nothing_is_said_of_an_option_that_is_like_none_of_ours(folder: Folder) -> None:
    ran = folder.pytest("perf", "--colour=blue", exit_code=4, reports=False)
    assert "unrecognized arguments: --colour=blue" in ran.text
    assert "busbw: " not in ran.text


def test_sizes_with_spaces_between_them_are_a_usage_error(folder: Folder) -> None:
    ran = folder.pytest("perf", "--payloads", "1K", "64K", exit_code=4, reports=False)
    assert ran.sentence.endswith(
        "busbw: '64K' is no file or folder of tests; a list of sizes is one word, such as "
        "--payloads=1K,64K"
    )


@pytest.mark.parametrize("path", ["perf/", "perf", "perf/test_collectives.py::test_collective"])
def test_a_path_that_is_taken_for_the_value_of_update_baselines_is_named(
    folder: Folder, path: str
) -> None:
    ran = folder.pytest("--update-baselines", path, exit_code=4, reports=False)
    said = f"write pytest {path} --update-baselines, or --update-baselines=all {path}"
    assert ran.sentence.endswith(f"--update-baselines: takes {path!r} as its value; {said}")
    assert not (folder.path / "baselines").exists()


def test_a_path_taken_for_the_value_of_update_baselines_runs_no_other_tests(
    folder: Folder,
) -> None:
    folder.ini({"testpaths": "theirs"})
    (folder.path / "theirs").mkdir()
    (folder.path / "theirs" / "test_own.py").write_text("def test_own(): pass\n")
    ran = folder.pytest("--update-baselines", "perf", exit_code=4, reports=False)
    assert "--update-baselines: takes 'perf' as its value; write pytest perf" in ran.sentence
    assert "passed" not in ran.text


@pytest.mark.parametrize(
    "name",
    sweep(
        [
            *("hosts", "agents", "listen", "processes", "ranks", "mesh", "axes", "results", "page"),
            *("history", "topology", "libtpu", "memory-limit", "inject", "secret-file"),
            *("stack-cache", "host-env", "host-python"),
        ],
        in_gate=3,
    ),
)
def test_an_option_that_is_given_empty_is_a_usage_error(folder: Folder, name: str) -> None:
    """As ``--hosts=$UNSET`` is, which would measure no network."""
    ran = folder.run(f"--{name}=", exit_code=4, reports=False)
    assert f"busbw: --{name}: it is given empty" in ran.sentence
