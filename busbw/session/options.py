"""The options, each declared once; `settings` checks what they ask for together."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from busbw import metrics
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import Clock, Placement
from busbw.workloads import WORKLOADS

from . import forms
from .option import COMPARE, COMPILE, HOSTS, Given, Option, takes

_comparing = functools.partial(Option, group=COMPARE)
_hosting = functools.partial(Option, group=HOSTS)
_compiling = functools.partial(Option, group=COMPILE)

# The default of --payloads.
PAYLOADS = "1K:1024M"

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
        **takes("N", forms.ranks),
        help="how many ranks; default: 4 virtual devices on the CPU, else all that are attached",
    ),
    _hosting(
        name="processes",
        **takes("P", forms.whole(1)),
        help="measure in P processes that run the same program together, such as one for each "
        "host; default: 1, or one for each agent",
    ),
    _hosting(
        name="ranks_per_process",
        **takes("R", forms.whole(1)),
        help="ranks of each of --processes; default: 1",
    ),
    _hosting(
        name="share_devices",
        flag=True,
        ini=False,
        help="let more --processes than there are GPUs share these, with one rank each and equal "
        "parts of their memory; implied where there is one GPU, which 2 processes then share",
    ),
    _hosting(
        name="agents",
        **takes("WHAT", forms.agents),
        help="start processes through agents, which share --processes equally; local: on this "
        "host, one for each process; a number: so many, which connect from other hosts (busbw "
        "agent); default: without agents",
    ),
    _hosting(
        name="listen",
        **takes("HOST:PORT", forms.address),
        help="with --agents=N, where agents connect to, in a network that is trusted; default: a "
        "free port of 127.0.0.1",
    ),
    _hosting(
        name="secret_file",
        **takes("FILE", forms.path),
        help="with --agents=N, a file that only its owner can read, with the secret that agents "
        "must know; default: the environment variable BUSBW_SECRET",
    ),
    _hosting(
        name="hosts",
        **takes("LIST", forms.hosts),
        help="start agents through ssh on a comma list of hosts; @FILE: one in each line; tpu: the "
        "hosts of this TPU slice; busbw need not be installed there",
    ),
    _hosting(
        name="host_python",
        **takes("PYTHON", forms.host_python),
        help="with --hosts, the Python there, which has the framework; default: python3",
    ),
    _hosting(
        name="host_env",
        **takes("LIST", forms.variables),
        help="with --hosts, environment variables of this session that processes there get; none: "
        "none; default: those that change the software, such as XLA_FLAGS and NCCL_ALGO",
    ),
    _hosting(
        name="agents_wait",
        **takes("SECONDS", forms.seconds, "60"),
        help="how long to wait until all agents have joined",
    ),
    Option(
        name="frameworks",
        **takes("LIST", forms.frameworks, "auto"),
        help=f"comma list of {', '.join(FRAMEWORKS)}; default: those installed",
    ),
    Option(
        name="strategies",
        **takes("LIST", forms.words(forms.STRATEGIES), "default"),
        help="comma list; a framework takes those it knows: "
        + "; ".join(f"{name}: {', '.join(one.strategies)}" for name, one in FRAMEWORKS.items())
        + "; training: "
        + ", ".join(name for one in WORKLOADS.values() for name in one.own_strategies),
    ),
    Option(
        name="collectives",
        **takes("LIST", forms.words(tuple(COLLECTIVES)), "all_reduce"),
        help=f"comma list of {', '.join(COLLECTIVES)}; TensorFlow has all_reduce only",
    ),
    Option(
        name="reduce_ops",
        **takes("LIST", forms.words(REDUCE_OPS), "sum"),
        help=f"comma list of {', '.join(REDUCE_OPS)}, for collectives that reduce",
    ),
    Option(
        name="placement",
        **takes("LIST", forms.words(("default", *(one.value for one in Placement))), "default"),
        help="comma list of in_place, out_of_place; default: in place where the collective can be",
    ),
    Option(
        name="mesh",
        **takes("SHAPE", forms.mesh),
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
        **takes("SIZES", metrics.parse_payloads, PAYLOADS),
        help="bytes of one rank's buffer: " + metrics.PAYLOAD_GRAMMAR,
    ),
    Option(
        name="dtypes",
        **takes("LIST", forms.words(tuple(DTYPES), forms.DTYPE_NAMES), "float32"),
        help=f"comma list of {', '.join(DTYPES)}",
    ),
    Option(
        name="soak",
        **takes("DURATION", forms.duration),
        help="for so long, such as 10m or 8h, compare every result of the cases on every rank, and "
        "time nothing",
        ini=False,
    ),
    Option(
        name="launches",
        **takes("N", forms.whole(1)),
        help="worker processes that each case is measured in, before any is added for what is "
        "undecided; default: 3, with --against 6 of each side",
    ),
    _comparing(
        name="time_budget",
        **takes("SECONDS", forms.seconds, "300"),
        help="time for launches beyond --launches, of cases that are undecided or suspected; on a "
        "CPU a suspicion waits for a minute, which does not count",
    ),
    _comparing(
        name="fail_above",
        **takes("LIMIT", forms.ratio),
        help="a case that takes more than this above its baseline fails, if more launches confirm "
        "it, such as 25%% or 1.25x; in place of the limit that is computed",
    ),
    _comparing(
        name="inject",
        **takes("WHAT", forms.injection),
        help="try the gate, let the measured program do more: "
        + forms.INJECTIONS.replace("%", "%%"),
    ),
    Option(
        name="case_timeout",
        **takes("SECONDS", forms.seconds, "120"),
        help="deadline of one case in one launch",
    ),
    Option(
        name="device_wait",
        **takes("SECONDS", forms.seconds, "1800"),
        help="how long to wait for another busbw session on the same machine to end",
    ),
    _comparing(
        name="baselines",
        metavar="DIR",
        help="where baselines are kept, relative to the root directory; one that is named must be "
        "there, or be written (default: baselines)",
    ),
    Option(
        name="memory_limit",
        **takes("SIZE", metrics.parse_payload),
        help="measure as if the machine had only so much memory, such as 1G",
    ),
    Option(
        name="results",
        repeats=False,
        metavar="FILE",
        help="write the session to FILE: as JSON (docs/results.schema.json), or one row a case "
        "where it ends in .csv; -: JSON on standard output, and all else on standard error",
    ),
    Option(
        name="metrics",
        repeats=False,
        metavar="FILE",
        help="write outcomes and figures to FILE in the text format of Prometheus; needs "
        "busbw[metrics]",
    ),
    Option(
        name="page",
        repeats=False,
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
    _compiling(
        name="topology",
        metavar="LIST",
        help="measure nothing; compile for chips that need not be here, such as "
        "v5e:2x4,tpu7x:2x2x1,h100:8, and compare what the compilers make of the same programs; "
        "all, tpu, gpu: one topology of every chip (of every TPU, of every GPU) whose compiler is "
        "installed or that has baselines",
    ),
    _compiling(
        name="libtpu",
        metavar="LIST",
        help="with --topology, compile for TPUs with these instead of the installed libtpu: "
        "versions (fetched once with pip; ? lists them) and paths; several are compared with one "
        "another",
    ),
    _comparing(
        name="stack_cache",
        metavar="DIR",
        help="with --against=baseline, where built stacks and their wheels are kept (default: "
        "busbw in the user's cache folder)",
    ),
    _compiling(
        name="compile_cache",
        metavar="DIR",
        help="with --topology, where compiled programs and fetched compilers are kept; none: "
        "nowhere (default: busbw in the user's cache folder)",
    ),
    # Those that follow may be repeated.
    Option(
        name="python",
        **takes("FRAMEWORK=INTERPRETER", forms.python),
        repeated=True,
        help="measure FRAMEWORK under another Python, which has it and numpy; may be repeated",
    ),
    _comparing(
        name="against",
        **takes("[FRAMEWORK=]INTERPRETER", forms.reference),
        repeated=True,
        help="measure in turn with the stack of another Python, the reference, and compare with "
        "that instead of baselines; may be repeated for each framework; baseline: with the stack "
        "that is locked beside the baselines, which is built if it is not there",
    ),
    _comparing(
        name="against_env",
        **takes("NAME=VALUE", forms.variable),
        repeated=True,
        help="set a variable in the reference's environment, such as XLA_FLAGS; alone, with the "
        "same Python on both sides",
    ),
    _comparing(
        name="try_env",
        **takes("NAME=VALUE", forms.variable),
        repeated=True,
        help="try a variable, such as XLA_FLAGS: set it in the candidate's environment, and "
        "measure in turn with a reference that does not have it, or with that of --against",
    ),
    # What writes baselines must be given each time: none has an ini setting.
    _comparing(
        name="update_baselines",
        repeats=False,
        parse=forms.update,
        const="all",
        choices=forms.UPDATES,
        ini=False,
        help="accept today's times as baselines: all (also slower ones, within the budget against "
        "the pinned level), new: only missing ones, or improved: only of cases that IMPROVED",
    ),
    _comparing(
        name="accept_regression",
        repeats=False,
        **takes("WHY", forms.reason),
        ini=False,
        help="with --update-baselines: accept also losses beyond the budget, and pin them; the "
        "reason goes into the file",
    ),
    _comparing(
        name="no_reference_lock",
        repeats=False,
        flag=True,
        ini=False,
        help="with --update-baselines: do not lock the stack that was measured as the reference of "
        "--against=baseline",
    ),
    _comparing(
        name="prune_baselines",
        repeats=False,
        flag=True,
        ini=False,
        help="remove baselines that the options did not ask for from the files of measured cases",
    ),
    _comparing(
        name="rebase",
        repeats=False,
        **takes("WHY", forms.reason),
        ini=False,
        help="pin the measured cases at their stored levels; the reason goes into the file",
    ),
    _compiling(
        name="program",
        **takes("MODULE:FUNCTION", forms.program),
        repeated=True,
        help="your own program in place of the collectives: a function of a module or of a "
        "FILE.py that takes devices and gives what jax.jit(...).lower(...) does. With --topology "
        "every collective of it is listed and compared, else each is measured alone; so are those "
        "of a file of optimized HLO, as --xla_dump_to writes it; may be repeated",
    ),
    _compiling(
        name="accept_compiled_changes",
        flag=True,
        ini=False,
        help="with --topology: another algorithm is reported and is no failure",
    ),
    _comparing(
        name="require_baselines",
        repeats=False,
        flag=True,
        help="a case without a baseline fails (default where the environment variable CI is set)",
    ),
    _comparing(
        name="require_signature",
        flag=True,
        help="a case fails whose sum is added up in another order than that of its baseline, or in "
        "several orders: its results have other bits",
    ),
)


# Those with which `busbw find-slow` finds and starts the same hosts as a session.
OF_HOSTS = (
    *("device", "hosts", "host_python", "host_env", "agents", "listen", "secret_file"),
    *("agents_wait", "processes", "ranks_per_process", "device_wait"),
)


def given(root: Path, **options: Any) -> Given:
    """As if only these `options` were given, and no ini file."""
    return Given(
        options=dict.fromkeys(option.name for option in OPTIONS) | options,
        ini={option.name: [] if option.repeated else option.default for option in OPTIONS},
        root=root,
    )
