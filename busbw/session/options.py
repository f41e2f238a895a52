"""The options, each declared once; `settings` checks what they ask for together."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from busbw import extensions, metrics
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import Clock, Placement

from . import forms
from .option import COMPARE, HOSTS, Given, Option, takes

_comparing = functools.partial(Option, group=COMPARE)
_hosting = functools.partial(Option, group=HOSTS)

# The default of --payloads.
PAYLOADS = "1K:1024M"

OPTIONS: tuple[Option, ...] = (
    Option(
        name="device",
        parse=forms.device,
        default="auto",
        choices=("auto", "cpu", "gpu", "tpu"),
        help="Measure on this kind of device. auto takes a TPU if there is one, else a GPU, else "
        "the CPU. A device that you name and that is missing is an error",
    ),
    Option(
        name="ranks",
        **takes("N", forms.ranks),
        help="Use N ranks (one rank is one device). Default: 4 virtual devices on a CPU, else all "
        "attached devices",
    ),
    _hosting(
        name="processes",
        **takes("P", forms.whole(1)),
        help="Measure in P processes that run one program together, for example one on each host. "
        "Default: 1, or one on each host",
    ),
    _hosting(
        name="ranks_per_process",
        **takes("R", forms.whole(1)),
        help="Give each process of --processes R ranks. Default: 1",
    ),
    _hosting(
        name="share_devices",
        flag=True,
        ini=False,
        help="Let more --processes than there are GPUs share the GPUs, with one rank and an equal "
        "part of the memory each. Implied if there is one GPU: two processes then share it",
    ),
    _hosting(
        name="hosts",
        **takes("LIST", forms.hosts),
        help="Measure on these hosts, which ssh reaches, for example --hosts=node1,node2. @FILE "
        "reads one host per line; tpu means all hosts of this TPU slice. busbw need not be "
        "installed there",
    ),
    _hosting(
        name="host_python",
        **takes("PYTHON", forms.host_python),
        help="With --hosts: use this Python on the hosts. It needs the framework. Default: python3",
    ),
    _hosting(
        name="host_env",
        **takes("LIST", forms.variables),
        help="With --hosts: copy these environment variables to the hosts, as a comma list; none "
        "copies nothing. Default: the variables that change the software, such as XLA_FLAGS and "
        "NCCL_ALGO",
    ),
    _hosting(
        name="cluster",
        **takes("ADDRESS", forms.cluster),
        help="Start one process on each worker of this Dask cluster, for example "
        "--cluster=tls://head:8786. A path is read as the scheduler's --scheduler-file. With "
        "--processes=N the session waits for N workers",
    ),
    _hosting(
        name="cluster_trust_network",
        flag=True,
        ini=False,
        help="With --cluster: accept a scheduler without TLS on another machine. Whoever reaches "
        "it can run programs on the hosts",
    ),
    Option(
        name="frameworks",
        **takes("LIST", forms.frameworks, "auto"),
        help=f"Measure these frameworks, as a comma list of {', '.join(FRAMEWORKS)}. auto takes "
        "those that are installed; fake simulates a framework, and needs nothing",
    ),
    Option(
        name="strategies",
        **takes("LIST", forms.words(forms.STRATEGIES), "default"),
        help="Choose how a framework does the collective, as a comma list. Each framework takes "
        "the strategies that it knows; "
        + "; ".join(f"{name}: {', '.join(one.strategies)}" for name, one in FRAMEWORKS.items()),
    ),
    Option(
        name="collectives",
        **takes("LIST", forms.words(tuple(COLLECTIVES)), "all_reduce"),
        help=f"Measure these collectives, as a comma list of {', '.join(COLLECTIVES)}. TensorFlow "
        "has only all_reduce",
    ),
    Option(
        name="reduce_ops",
        **takes("LIST", forms.words(REDUCE_OPS), "sum"),
        help=f"Reduce with these operations, as a comma list of {', '.join(REDUCE_OPS)}",
    ),
    Option(
        name="placement",
        **takes("LIST", forms.words(("default", *(one.value for one in Placement))), "default"),
        help="Write the result into the input's buffer (in_place) or into another one "
        "(out_of_place), as a comma list to measure both. default is in_place where the collective "
        "allows it",
    ),
    Option(
        name="mesh",
        **takes("SHAPE", forms.mesh),
        help="Arrange the ranks in a mesh. Example: --mesh=2x4 has the axes x (2) and y (4); name "
        "them yourself with --mesh=hosts:2,devices:4",
    ),
    Option(
        name="axes",
        metavar="LIST",
        help="Run the collective along these axes of --mesh only, for example --axes=y. Default: "
        "all axes",
    ),
    Option(
        name="clock",
        parse=forms.word(("default", *(clock.value for clock in Clock))),
        default="default",
        choices=("default", *(clock.value for clock in Clock)),
        help="Read times from this clock. host: the host's clock, over many collectives in a "
        "chain; dispatch: the host's clock, around each single call; device: the profiler's "
        "trace. default is device on TPUs and GPUs, host on a CPU",
    ),
    Option(
        name="payloads",
        **takes("SIZES", metrics.parse_payloads, PAYLOADS),
        help="Measure these payloads (bytes of one rank's buffer): " + metrics.PAYLOAD_GRAMMAR,
    ),
    Option(
        name="dtypes",
        **takes("LIST", forms.words(tuple(DTYPES)), "float32"),
        help=f"Measure these element types, as a comma list of {', '.join(DTYPES)}",
    ),
    Option(
        name="launches",
        **takes("N", forms.whole(1)),
        help="Measure each case in N launches (fresh worker processes). Undecided cases get more, "
        "see --time-budget. Default: 3; with --against 6 of each side",
    ),
    _comparing(
        name="time_budget",
        **takes("SECONDS", forms.seconds, "300"),
        help="Spend at most this long on more launches, for cases that are undecided or seem "
        "slower. On a CPU a case that seems slower is measured again after a minute; this wait "
        "does not count",
    ),
    _comparing(
        name="fail_above",
        **takes("LIMIT", forms.ratio),
        help="Fail a case that is slower than its baseline by more than LIMIT, after additional "
        "launches confirm it. Replaces the limit that busbw computes from the noise. Example: "
        "--fail-above=25%% (1.25x means the same)",
    ),
    _comparing(
        name="inject",
        **takes("WHAT", forms.injection),
        help="Slow cases down on purpose, to see that busbw notices. delay:AMOUNT adds a busy "
        "loop to every collective, where AMOUNT is for example 15%%, 20us or 1ms; a launch that "
        "it did not slow down fails. memory:SIZE leaves the program only SIZE of memory. @SIZES, "
        "at the end, applies this only to these payloads. Example: --inject=delay:30%%@1M+4M",
    ),
    Option(
        name="case_timeout",
        **takes("SECONDS", forms.seconds, "120"),
        help="Stop a launch, and fail the case, if one case takes longer than this",
    ),
    Option(
        name="device_wait",
        **takes("SECONDS", forms.seconds, "1800"),
        help="Wait at most this long for another busbw session on the same machine to end, and "
        "for the workers of --cluster",
    ),
    _comparing(
        name="baselines",
        metavar="DIR",
        help="Read and write baselines (accepted times) in DIR, relative to pytest's root "
        "directory. DIR must exist if you name it, unless this session writes it (default: "
        "baselines)",
    ),
    Option(
        name="memory_limit",
        **takes("SIZE", metrics.parse_payload),
        help="Measure as if the machine had only this much memory, for example 1G",
    ),
    Option(
        name="results",
        repeats=False,
        metavar="FILE",
        help="Write all results to FILE, as JSON (docs/results.schema.json) or, if the name ends "
        "in .csv, with one row per case. - writes JSON to standard output, and all other text to "
        "standard error",
    ),
    Option(
        name="metrics",
        repeats=False,
        metavar="FILE",
        help="Write outcomes and figures to FILE in the text format of Prometheus. Needs "
        "busbw[metrics]",
    ),
    Option(
        name="history",
        metavar="DIR",
        help="Append the results to the history in DIR, and judge this session by the usual times "
        "of earlier sessions. DIR is created if it is missing. Default: the environment variable "
        "BUSBW_HISTORY, else no history",
    ),
    _comparing(
        name="stack_cache",
        metavar="DIR",
        help="With --against=baseline: keep the environments that uv builds in DIR (default: busbw "
        "in the user's cache folder)",
    ),
    # Options that may be repeated.
    Option(
        name="python",
        **takes("FRAMEWORK=INTERPRETER", forms.python),
        repeated=True,
        help="Measure FRAMEWORK with another Python interpreter, which needs only the framework "
        "and numpy. Example: --python=tensorflow=~/tf/bin/python. May be repeated",
    ),
    _comparing(
        name="against",
        **takes("[FRAMEWORK=]INTERPRETER", forms.reference),
        repeated=True,
        help="Compare with the environment of another Python interpreter, the reference, instead "
        "of with baselines. Both are measured alternately in this session. Example: "
        "--against=~/last-week/bin/python. baseline means the environment that was locked with "
        "the baselines; it is built if it is missing. May be repeated, once per framework",
    ),
    _comparing(
        name="against_env",
        **takes("NAME=VALUE", forms.variable),
        repeated=True,
        help="Set an environment variable for the reference only. Without --against the reference "
        "is the same Python. Example: --against-env=NCCL_ALGO=Ring. May be repeated",
    ),
    _comparing(
        name="try_env",
        **takes("NAME=VALUE", forms.variable),
        repeated=True,
        help="Try an environment variable: measure alternately with it and without it (or with the "
        "reference of --against). Example: --try-env=NCCL_ALGO=Ring. May be repeated",
    ),
    # What writes baselines must be given each time: none has an ini setting.
    _comparing(
        name="update_baselines",
        repeats=False,
        const="all",
        choices=("all", "new", "improved"),
        ini=False,
        help="Accept the times of this session as baselines. all (if you give no value): every "
        "measured case, also if it is slower than the first accepted time by up to 10 percent (25 "
        "on a CPU); new: only cases without a baseline; improved: only cases that IMPROVED",
    ),
    _comparing(
        name="accept_regression",
        repeats=False,
        **takes("WHY", forms.reason),
        ini=False,
        help="With --update-baselines: accept also cases that became slower by more than that. "
        'The reason is stored in the file. Example: --accept-regression="the new switch is '
        'slower"',
    ),
    _comparing(
        name="prune_baselines",
        repeats=False,
        flag=True,
        ini=False,
        help="Delete stored times of payloads that this session did not select, from the files "
        "of the measured cases",
    ),
    _comparing(
        name="require_baselines",
        repeats=False,
        flag=True,
        help="Fail a case that has no baseline (default if the environment variable CI is set)",
    ),
    *extensions.table("OPTIONS").values(),
)


# Those with which `busbw find-slow` finds and starts the same hosts as a session.
OF_HOSTS = (
    *("device", "hosts", "host_python", "host_env", "cluster", "cluster_trust_network"),
    *("processes", "ranks_per_process", "device_wait"),
)


def given(root: Path, **options: Any) -> Given:
    """As if only these `options` were given, and no ini file."""
    return Given(
        options=dict.fromkeys(option.name for option in OPTIONS) | options,
        ini={option.name: [] if option.repeated else option.default for option in OPTIONS},
        root=root,
    )
