"""The options, each declared once; `settings` checks what they ask for together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from busbw import metrics
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import Clock, Placement
from busbw.workloads import WORKLOADS

from . import forms
from .option import COMPARE, COMPILE, HOSTS, Given, Option

# What --update-baselines accepts.
UPDATES = ("all", "new", "improved")

OPTIONS = (
    Option(
        name="device",
        parse=forms.device,
        default="auto",
        choices=("auto", "cpu", "gpu", "tpu"),
        help="what to measure on; auto: a TPU, else a GPU, else the CPU, with two ranks at least",
    ),
    Option(
        name="ranks",
        parse=forms.ranks,
        metavar="N",
        help="how many ranks; default: 4 virtual devices on the CPU, else all that are attached",
    ),
    Option(
        name="processes",
        parse=forms.whole(1),
        group=HOSTS,
        metavar="P",
        help="measure in P processes that run the same program together, such as one for each "
        "host; default: 1, or one for each agent",
    ),
    Option(
        name="ranks_per_process",
        parse=forms.whole(1),
        group=HOSTS,
        metavar="R",
        help="ranks of each of --processes; default: 1",
    ),
    Option(
        name="agents",
        group=HOSTS,
        metavar="WHAT",
        help="start processes through agents, which share --processes equally; local: on this "
        "host, one for each process; a number: so many, which connect from other hosts (busbw "
        "agent); default: without agents",
    ),
    Option(
        name="listen",
        group=HOSTS,
        metavar="HOST:PORT",
        help="with --agents=N, where agents connect to, in a network that is trusted; default: a "
        "free port of 127.0.0.1",
    ),
    Option(
        name="secret_file",
        group=HOSTS,
        metavar="FILE",
        help="with --agents=N, a file that only its owner can read, with the secret that agents "
        "must know; default: the environment variable BUSBW_SECRET",
    ),
    Option(
        name="hosts",
        group=HOSTS,
        metavar="LIST",
        help="start agents through ssh on a comma list of hosts; @FILE: one in each line; tpu: the "
        "hosts of this TPU slice; busbw need not be installed there",
    ),
    Option(
        name="host_python",
        group=HOSTS,
        metavar="PYTHON",
        help="with --hosts, the Python there, which has the framework; default: python3",
    ),
    Option(
        name="host_env",
        group=HOSTS,
        metavar="LIST",
        help="with --hosts, environment variables of this session that processes there get; none: "
        "none; default: those that change the software, such as XLA_FLAGS and NCCL_ALGO",
    ),
    Option(
        name="agents_wait",
        parse=forms.seconds,
        group=HOSTS,
        default="60",
        metavar="SECONDS",
        help="how long to wait until all agents have joined",
    ),
    Option(
        name="frameworks",
        parse=forms.frameworks,
        default="auto",
        metavar="LIST",
        help=f"comma list of {', '.join(FRAMEWORKS)}; default: those installed",
    ),
    Option(
        name="strategies",
        parse=forms.words(forms.STRATEGIES),
        default="default",
        metavar="LIST",
        help="comma list; a framework takes those it knows: "
        + "; ".join(f"{name}: {', '.join(one.strategies)}" for name, one in FRAMEWORKS.items())
        + "; training: "
        + ", ".join(name for one in WORKLOADS.values() for name in one.own_strategies),
    ),
    Option(
        name="collectives",
        parse=forms.words(tuple(COLLECTIVES)),
        default="all_reduce",
        metavar="LIST",
        help=f"comma list of {', '.join(COLLECTIVES)}; TensorFlow has all_reduce only",
    ),
    Option(
        name="reduce_ops",
        parse=forms.words(REDUCE_OPS),
        default="sum",
        metavar="LIST",
        help=f"comma list of {', '.join(REDUCE_OPS)}, for collectives that reduce",
    ),
    Option(
        name="placement",
        parse=forms.words(("default", *(one.value for one in Placement))),
        default="default",
        metavar="LIST",
        help="comma list of in_place, out_of_place; default: in place where the collective can be",
    ),
    Option(
        name="mesh",
        parse=forms.mesh,
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
        parse=forms.word(("default", *(clock.value for clock in Clock))),
        default="default",
        choices=("default", *(clock.value for clock in Clock)),
        help="where times are read: host (slope of a chain), dispatch (one call), device (the "
        "profiler's trace); default: device on TPUs and GPUs, host on the CPU",
    ),
    Option(
        name="payloads",
        parse=metrics.parse_payloads,
        default="1K:1024M",
        metavar="SIZES",
        help="bytes of one rank's buffer: " + metrics.PAYLOAD_GRAMMAR,
    ),
    Option(
        name="dtypes",
        parse=forms.words(tuple(DTYPES), forms.DTYPE_NAMES),
        default="float32",
        metavar="LIST",
        help=f"comma list of {', '.join(DTYPES)}",
    ),
    Option(
        name="launches",
        parse=forms.whole(1),
        metavar="N",
        help="worker processes that each case is measured in, before any is added for what is "
        "undecided; default: 3, with --against 6 of each side",
    ),
    Option(
        name="time_budget",
        parse=forms.seconds,
        group=COMPARE,
        default="300",
        metavar="SECONDS",
        help="time for launches beyond --launches, of cases that are undecided or suspected; on a "
        "CPU a suspicion waits for a minute, which does not count",
    ),
    Option(
        name="fail_above",
        parse=forms.ratio,
        group=COMPARE,
        metavar="LIMIT",
        help="a case that takes more than this above its baseline fails, if more launches confirm "
        "it, such as 25%% or 1.25x; in place of the limit that is computed",
    ),
    Option(
        name="inject",
        parse=forms.injection,
        group=COMPARE,
        metavar="WHAT",
        help="try the gate, let the measured program do more: "
        + forms.INJECTIONS.replace("%", "%%"),
    ),
    Option(
        name="case_timeout",
        parse=forms.seconds,
        default="120",
        metavar="SECONDS",
        help="deadline of one case in one launch",
    ),
    Option(
        name="device_wait",
        parse=forms.seconds,
        default="1800",
        metavar="SECONDS",
        help="how long to wait for another busbw session on the same machine to end",
    ),
    Option(
        name="baselines",
        group=COMPARE,
        metavar="DIR",
        help="where baselines are kept, relative to the root directory; one that is named must be "
        "there, or be written (default: baselines)",
    ),
    Option(
        name="memory_limit",
        parse=metrics.parse_payload,
        metavar="SIZE",
        help="measure as if the machine had only so much memory, such as 1G",
    ),
    Option(
        name="results",
        metavar="FILE",
        help="write the session to FILE: as JSON (docs/results.schema.json), or one row a case "
        "where it ends in .csv; -: JSON on standard output, and all else on standard error",
    ),
    Option(
        name="metrics",
        metavar="FILE",
        help="write outcomes and figures to FILE in the text format of Prometheus; needs "
        "busbw[metrics]",
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
        group=COMPILE,
        metavar="LIST",
        help="measure nothing; compile for chips that need not be here, such as "
        "v5e:2x4,tpu7x:2x2x1,h100:8, and compare what the compilers make of the same programs; "
        "all, tpu, gpu: one topology of every chip (of every TPU, of every GPU) whose compiler is "
        "installed or that has baselines",
    ),
    Option(
        name="libtpu",
        group=COMPILE,
        metavar="LIST",
        help="with --topology, compile for TPUs with these instead of the installed libtpu: "
        "versions (fetched once with pip; ? lists them) and paths; several are compared with one "
        "another",
    ),
    Option(
        name="stack_cache",
        group=COMPARE,
        metavar="DIR",
        help="with --against=baseline, where built stacks and their wheels are kept (default: "
        "busbw in the user's cache folder)",
    ),
    Option(
        name="compile_cache",
        group=COMPILE,
        metavar="DIR",
        help="with --topology, where compiled programs and fetched compilers are kept; none: "
        "nowhere (default: busbw in the user's cache folder)",
    ),
    # Those that follow may be repeated.
    Option(
        name="python",
        repeated=True,
        metavar="FRAMEWORK=INTERPRETER",
        help="measure FRAMEWORK under another Python, which has it and numpy; may be repeated",
    ),
    Option(
        name="against",
        group=COMPARE,
        repeated=True,
        metavar="[FRAMEWORK=]INTERPRETER",
        help="measure in turn with the stack of another Python, the reference, and compare with "
        "that instead of baselines; may be repeated for each framework; baseline: with the stack "
        "that is locked beside the baselines, which is built if it is not there",
    ),
    Option(
        name="against_env",
        group=COMPARE,
        repeated=True,
        metavar="NAME=VALUE",
        help="set a variable in the reference's environment, such as XLA_FLAGS; alone, with the "
        "same Python on both sides",
    ),
    Option(
        name="try_env",
        group=COMPARE,
        repeated=True,
        metavar="NAME=VALUE",
        help="try a variable, such as XLA_FLAGS: set it in the candidate's environment, and "
        "measure in turn with a reference that does not have it, or with that of --against",
    ),
    # What writes baselines must be given each time: none has an ini setting.
    Option(
        name="update_baselines",
        group=COMPARE,
        const="all",
        choices=UPDATES,
        ini=False,
        help="accept today's times as baselines: all (also slower ones, within the budget against "
        "the pinned level), new: only missing ones, or improved: only of cases that IMPROVED",
    ),
    Option(
        name="accept_regression",
        group=COMPARE,
        ini=False,
        metavar="WHY",
        help="with --update-baselines: accept also losses beyond the budget, and pin them; the "
        "reason goes into the file",
    ),
    Option(
        name="no_reference_lock",
        group=COMPARE,
        flag=True,
        ini=False,
        help="with --update-baselines: do not lock the stack that was measured as the reference of "
        "--against=baseline",
    ),
    Option(
        name="prune_baselines",
        group=COMPARE,
        flag=True,
        ini=False,
        help="remove baselines that the options did not ask for from the files of measured cases",
    ),
    Option(
        name="rebase",
        group=COMPARE,
        ini=False,
        metavar="WHY",
        help="pin the measured cases at their stored levels; the reason goes into the file",
    ),
    Option(
        name="accept_compiled_changes",
        group=COMPILE,
        flag=True,
        ini=False,
        help="with --topology: another algorithm is reported and is no failure",
    ),
    Option(
        name="require_baselines",
        group=COMPARE,
        flag=True,
        help="a case without a baseline fails (default where the environment variable CI is set)",
    ),
)


def given(root: Path, **options: Any) -> Given:
    """As if only these `options` were given, and no ini file."""
    return Given(
        options={option.name: option.usual for option in OPTIONS} | options,
        ini={option.name: [] if option.repeated else option.default for option in OPTIONS},
        root=root,
    )
