"""Command line options and ini settings: their spelling and help; `settings` checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from busbw import metrics
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import Clock
from busbw.workloads import WORKLOADS

from . import forms, hints

# Names and titles, and which options are not in the first one.
_GROUPS = {
    "busbw": ("busbw: what is measured, and what is written", ""),
    "busbw compare": (
        "busbw: what it is compared with",
        "time_budget fail_above inject baselines stack_cache against against_env try_env",
    ),
    "busbw hosts": (
        "busbw: processes and hosts",
        "processes ranks_per_process agents listen secret_file hosts host_python host_env "
        "agents_wait",
    ),
    "busbw compile": ("busbw: compile, measure nothing", "topology libtpu compile_cache"),
}


def _group_of(option: str) -> str:
    return next((name for name, (_, those) in _GROUPS.items() if option in those.split()), "busbw")


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """``--name`` and ini setting ``busbw_name``; `names` are others' words for accepted ones."""

    name: str
    help: str
    default: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


OPTIONS = (
    Option(
        name="device",
        default="auto",
        choices=("auto", "cpu", "gpu", "tpu"),
        names={"cuda": "gpu", "rocm": "gpu", "nvidia": "gpu", "host": "cpu"},
        help="what to measure on; auto: a TPU, else a GPU, else the CPU, with two ranks at least",
    ),
    Option(
        name="ranks",
        metavar="N",
        help="how many ranks; default: 4 virtual devices on the CPU, else all that are attached",
    ),
    Option(
        name="processes",
        metavar="P",
        help="measure in P processes that run the same program together, such as one for each "
        "host; default: 1, or one for each agent",
    ),
    Option(
        name="ranks_per_process",
        metavar="R",
        help="ranks of each of --processes; default: 1",
    ),
    Option(
        name="agents",
        metavar="WHAT",
        help="start processes through agents, which share --processes equally; local: on this "
        "host, one for each process; a number: so many, which connect from other hosts (busbw "
        "agent); default: without agents",
    ),
    Option(
        name="listen",
        metavar="HOST:PORT",
        help="with --agents=N, where agents connect to, in a network that is trusted; default: a "
        "free port of 127.0.0.1",
    ),
    Option(
        name="secret_file",
        metavar="FILE",
        help="with --agents=N, a file that only its owner can read, with the secret that agents "
        "must know; default: the environment variable BUSBW_SECRET",
    ),
    Option(
        name="hosts",
        metavar="LIST",
        help="start agents through ssh on a comma list of hosts; @FILE: one in each line; tpu: the "
        "hosts of this TPU slice; busbw need not be installed there",
    ),
    Option(
        name="host_python",
        metavar="PYTHON",
        help="with --hosts, the Python there, which has the framework; default: python3",
    ),
    Option(
        name="host_env",
        metavar="LIST",
        help="with --hosts, environment variables of this session that processes there get; none: "
        "none; default: those that change the software, such as XLA_FLAGS and NCCL_ALGO",
    ),
    Option(
        name="agents_wait",
        default="60",
        metavar="SECONDS",
        help="how long to wait until all agents have joined",
    ),
    Option(
        name="frameworks",
        default="auto",
        metavar="LIST",
        names={"tf": "tensorflow"},
        help=f"comma list of {', '.join(FRAMEWORKS)}; default: those installed",
    ),
    Option(
        name="strategies",
        default="default",
        metavar="LIST",
        help="comma list; a framework takes those it knows: "
        + "; ".join(f"{name}: {', '.join(one.strategies)}" for name, one in FRAMEWORKS.items())
        + "; training: "
        + ", ".join(name for one in WORKLOADS.values() for name in one.own_strategies),
    ),
    Option(
        name="collectives",
        default="all_reduce",
        metavar="LIST",
        help=f"comma list of {', '.join(COLLECTIVES)}; TensorFlow has all_reduce only",
    ),
    Option(
        name="reduce_ops",
        default="sum",
        metavar="LIST",
        help=f"comma list of {', '.join(REDUCE_OPS)}, for collectives that reduce",
    ),
    Option(
        name="placement",
        default="default",
        metavar="LIST",
        help="comma list of in_place, out_of_place; default: in place where the collective can be",
    ),
    Option(
        name="mesh",
        metavar="SHAPE",
        help="lay the ranks out in a mesh such as 2x4, whose axes are x (2) and y (4), or "
        "hosts:2,devices:4",
    ),
    Option(
        name="axes",
        metavar="LIST",
        help="axes of --mesh that the collective runs over, such as y or hosts; default: all",
    ),
    Option(
        name="clock",
        default="default",
        choices=("default", *(clock.value for clock in Clock)),
        help="where times are read: host (slope of a chain), dispatch (one call), device (the "
        "profiler's trace); default: device on TPUs and GPUs, host on the CPU",
    ),
    Option(
        name="payloads",
        default="1K:1024M",
        metavar="SIZES",
        help="bytes of one rank's buffer: " + metrics.PAYLOAD_GRAMMAR,
    ),
    Option(
        name="dtypes",
        default="float32",
        metavar="LIST",
        names={
            "float": "float32",
            "fp32": "float32",
            "half": "float16",
            "fp16": "float16",
            "bf16": "bfloat16",
            "int": "int32",
        },
        help=f"comma list of {', '.join(DTYPES)}",
    ),
    Option(
        name="launches",
        metavar="N",
        help="worker processes that each case is measured in, before any is added for what is "
        "undecided; default: 3, with --against 6 of each side",
    ),
    Option(
        name="time_budget",
        default="300",
        metavar="SECONDS",
        help="time for launches beyond --launches, of cases that are undecided or suspected; on a "
        "CPU a suspicion waits for a minute, which does not count",
    ),
    Option(
        name="fail_above",
        metavar="LIMIT",
        help="a case that takes more than this above its baseline fails, if more launches confirm "
        "it, such as 25%% or 1.25x; in place of the limit that is computed",
    ),
    Option(
        name="inject",
        metavar="WHAT",
        help="try the gate, let the measured program do more: " + forms.GRAMMAR.replace("%", "%%"),
    ),
    Option(
        name="case_timeout",
        default="120",
        metavar="SECONDS",
        help="deadline of one case in one launch",
    ),
    Option(
        name="device_wait",
        default="1800",
        metavar="SECONDS",
        help="how long to wait for another busbw session on the same machine to end",
    ),
    Option(
        name="baselines",
        metavar="DIR",
        help="where baselines are kept, relative to the root directory; one that is named must be "
        "there, or be written (default: baselines)",
    ),
    Option(
        name="memory_limit",
        metavar="SIZE",
        help="measure as if the machine had only so much memory, such as 1G",
    ),
    Option(
        name="results",
        metavar="FILE",
        help="write the session as JSON (docs/results.schema.json) to FILE",
    ),
    Option(
        name="page",
        metavar="FILE",
        help="write the session, and its history if it has one, as an HTML page to FILE; needs "
        "busbw[page]",
    ),
    Option(
        name="history",
        metavar="DIR",
        help="append what was measured to the history in DIR, which is made if it is missing "
        "(default: the environment variable BUSBW_HISTORY, else nowhere)",
    ),
    Option(
        name="topology",
        metavar="LIST",
        help="measure nothing; compile for chips that need not be here, such as "
        "v5e:2x4,tpu7x:2x2x1,h100:8, and compare what the compilers make of the same programs; "
        "all, tpu, gpu: one topology of every chip (of every TPU, of every GPU) whose compiler is "
        "installed or that has baselines",
    ),
    Option(
        name="libtpu",
        metavar="LIST",
        help="with --topology, compile for TPUs with these instead of the installed libtpu: "
        "versions (fetched once with pip; ? lists them) and paths; several are compared with one "
        "another",
    ),
    Option(
        name="stack_cache",
        metavar="DIR",
        help="with --against=baseline, where built stacks and their wheels are kept (default: "
        "busbw in the user's cache folder)",
    ),
    Option(
        name="compile_cache",
        metavar="DIR",
        help="with --topology, where compiled programs and fetched compilers are kept; none: "
        "nowhere (default: busbw in the user's cache folder)",
    ),
)


# What --update-baselines accepts.
UPDATES = ("all", "new", "improved")

# Options that may be repeated on the command line, one a line in the ini file.
_REPEATED = (
    Option(
        name="python",
        metavar="FRAMEWORK=INTERPRETER",
        help="measure FRAMEWORK under another Python, which has it and numpy; may be repeated",
    ),
    Option(
        name="against",
        metavar="[FRAMEWORK=]INTERPRETER",
        help="measure in turn with the stack of another Python, the reference, and compare with "
        "that instead of baselines; may be repeated for each framework; baseline: with the stack "
        "that is locked beside the baselines, which is built if it is not there",
    ),
    Option(
        name="against_env",
        metavar="NAME=VALUE",
        help="set a variable in the reference's environment, such as XLA_FLAGS; alone, with the "
        "same Python on both sides",
    ),
    Option(
        name="try_env",
        metavar="NAME=VALUE",
        help="try a variable, such as XLA_FLAGS: set it in the candidate's environment, and "
        "measure in turn with a reference that does not have it, or with that of --against",
    ),
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """All but those that write baselines have an ini setting, too."""
    groups = {name: parser.getgroup(name, title) for name, (title, _) in _GROUPS.items()}
    for option in OPTIONS:
        metavar = option.metavar or _one_of(option.choices)
        default = f" (default: {option.default})" if option.default else ""
        flag = forms.flag(option.name)
        group = groups[_group_of(option.name)]
        group.addoption(flag, default=None, help=option.help + default, metavar=metavar)
        parser.addini(f"busbw_{option.name}", f"as {flag}: {option.help}", default=option.default)
    for option in _REPEATED:
        flag = forms.flag(option.name)
        group = groups[_group_of(option.name)]
        group.addoption(flag, action="append", default=[], metavar=option.metavar, help=option.help)
        says = f"as {flag}, one a line"
        parser.addini(f"busbw_{option.name}", says, type="linelist", default=[])
    _add_writing(groups["busbw compare"])
    _add_judging(groups)
    parser.addini("busbw_require_baselines", "as --require-baselines", default="")
    flags = [name for one in groups.values() for option in one.options for name in option.names()]
    parser.extra_info |= hints.of(_arguments(pluginmanager), flags)


def _add_judging(groups: Mapping[str, pytest.OptionGroup]) -> None:
    groups["busbw compile"].addoption(
        "--accept-compiled-changes",
        action="store_true",
        help="with --topology: another algorithm is reported and is no failure",
    )
    groups["busbw compare"].addoption(
        "--require-baselines",
        action="store_true",
        default=None,
        help="a case without a baseline fails (default where the environment variable CI is set)",
    )


def _arguments(pluginmanager: pytest.PytestPluginManager) -> tuple[str, ...]:
    config = pluginmanager.get_plugin("pytestconfig")
    return tuple(map(str, config.invocation_params.args)) if config is not None else ()


def _one_of(choices: Sequence[str]) -> str:
    """As argparse shows choices, which are checked in `settings`: its own sentence is longer."""
    return f"{{{','.join(choices)}}}"


def _add_writing(group: pytest.OptionGroup) -> None:
    """Options that write baselines, which must be given each time: none has an ini setting."""
    group.addoption(
        "--update-baselines",
        nargs="?",
        const="all",
        default=None,
        metavar=_one_of(UPDATES),
        help="accept today's times as baselines: all (also slower ones, within the budget against "
        "the pinned level), new: only missing ones, or improved: only of cases that IMPROVED",
    )
    group.addoption(
        "--accept-regression",
        default=None,
        metavar="WHY",
        help="with --update-baselines: accept also losses beyond the budget, and pin them; the "
        "reason goes into the file",
    )
    group.addoption(
        "--no-reference-lock",
        action="store_true",
        help="with --update-baselines: do not lock the stack that was measured as the reference of "
        "--against=baseline",
    )
    group.addoption(
        "--prune-baselines",
        action="store_true",
        help="remove baselines that the options did not ask for from the files of measured cases",
    )
    group.addoption(
        "--rebase",
        default=None,
        metavar="WHY",
        help="pin the measured cases at their stored levels; the reason goes into the file",
    )
