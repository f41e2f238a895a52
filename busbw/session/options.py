"""The options of sessions. Each option is declared once, by a field of the class Options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw import extensions
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.metrics import PAYLOAD_GRAMMAR, parse_payloads
from busbw.model.case import GridOptions
from busbw.model.launch import Injection
from busbw.model.words import Clock, DeviceClass, Placement

from . import option
from .option import COMPARE_GROUP, HOSTS_GROUP, MEASURE_GROUP, Option

if TYPE_CHECKING:
    from busbw.driver.transport import RemoteHosts

# The default value of --payloads.
DEFAULT_PAYLOADS = "1K:1024M"

_STRATEGIES = dict.fromkeys(name for f in FRAMEWORKS.values() for name in f.strategies)
# Options that change baselines.
_BASELINE_WRITING_OPTIONS = ("update_baselines", "prune_baselines")

# The common part of the declarations of options that interleave a reference stack.
_INTERLEAVING_DECLARATION: dict[str, Any] = {
    "group": COMPARE_GROUP,
    "action": "append",
    "excludes": (*_BASELINE_WRITING_OPTIONS, "fail_above"),
    "exclusion_reason": "which compares with another stack and not with baselines",
}


def _declare_option(
    help: str,
    default: Any = None,
    *,
    group: str = MEASURE_GROUP,
    has_setting: bool = False,
    needs: str = "",
    excludes: tuple[str, ...] = (),
    exclusion_reason: str = "",
    **declaration: Any,
) -> Any:
    """Return a field of Options that declares the command-line option of the same name.

    `help` is the text for --help, and `default` is the value of the field if the option is not
    passed. `declaration` has keyword arguments of argparse's `add_argument`. The class Option
    explains the other parameters.
    """
    metadata = {
        "group": group,
        "has_setting": has_setting,
        "needs": needs,
        "excludes": excludes,
        "exclusion_reason": exclusion_reason,
        "arguments": {"help": help, **declaration},
    }
    return field(default_factory=lambda: default, metadata=metadata)


def _declare_list_option(help: str, choices: Sequence[str], default: str) -> Any:
    """Return a field of Options that declares an option with a list of words, such as ``a,b``.

    `help` is the text for --help, `choices` are the allowed words, and `default` is the only word
    of the default value.
    """
    text = f"{help} (default: {default})"
    list_type = option.word_list_type(choices)
    return _declare_option(text, (default,), metavar="LIST", type=list_type)


@dataclass(frozen=True, kw_only=True, slots=True)
class LockedStack:
    """A reference stack that was built from its lock (the file that lists the stack exactly).

    Attributes:
        python: The path of the interpreter of the stack.
        digest: A hash that identifies the lock in lines of the history.
        flags: The environment variables that the lock records, by name.

    """

    python: str
    digest: str
    flags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Options(GridOptions):
    """The values of the options of a session, and values that follow from the options.

    A field that declares an option has the parsed value of the option: times in seconds, sizes in
    bytes, interpreters by framework. `launches` is 0 if a history decides how many launches
    each case needs. `fail_above` is a ratio of times, such as 1.25 for ``25%``. The text for --help
    explains each option. The attributes below declare no option. The attributes follow from
    options, and `stacks` and `shared_devices` are set later in the session.

    Attributes:
        extra: The values of the options of extensions, by the name of the option.
        outputs: The paths of the files to write, by the name of the option.
        remote: The hosts to measure on; None to measure on this host.
        compares_with_locked_stack: Whether the reference is the stack that is locked with the
            baselines.
        stacks: The locked stacks by framework; empty until the stacks are built.
        shared_devices: How many GPUs the processes share; 0 if each process has its own devices.

    """

    device: DeviceClass | None = _declare_option(
        "Measure on this kind of device. auto takes a TPU if there is one, else a GPU, else the "
        "CPU. A device that you name and that is missing is an error (default: auto)",
        metavar="{auto,cpu,gpu,tpu}",
        type=option.parse_device,
    )
    ranks: int | None = _declare_option(
        "Use N ranks (one rank is one device). Default: 4 virtual devices on a CPU, else all "
        "attached devices",
        metavar="N",
        type=option.number_type(int, 2),
    )
    processes: int = _declare_option(
        "Measure in P processes that run one program together, for example one on each host. "
        "Default: 1, or one on each host",
        group=HOSTS_GROUP,
        metavar="P",
        type=option.number_type(int, 1),
        default=1,
    )
    ranks_per_process: int | None = _declare_option(
        "Give each process of --processes R ranks. Default: 1; busbw find-slow: all devices of an "
        "accelerator",
        group=HOSTS_GROUP,
        excludes=("ranks", "mesh"),
        exclusion_reason="which says the number of ranks",
        metavar="R",
        type=option.number_type(int, 1),
    )
    frameworks: tuple[str, ...] = _declare_option(
        f"Measure these frameworks, as a comma list of {', '.join(FRAMEWORKS)}. auto takes those "
        "that are installed; fake simulates a framework, and needs nothing (default: auto)",
        metavar="LIST",
        type=option.parse_frameworks,
        has_setting=True,
        default=(),
    )
    strategies: tuple[str, ...] = _declare_list_option(
        "Choose how a framework does the collective, as a comma list. Each framework takes the "
        "strategies that it knows; "
        + "; ".join(f"{name}: {', '.join(f.strategies)}" for name, f in FRAMEWORKS.items()),
        tuple(_STRATEGIES),
        "default",
    )
    collectives: tuple[str, ...] = _declare_list_option(
        f"Measure these collectives, as a comma list of {', '.join(COLLECTIVES)}. TensorFlow has "
        "only all_reduce",
        tuple(COLLECTIVES),
        "all_reduce",
    )
    reduce_ops: tuple[str, ...] = _declare_list_option(
        f"Reduce with these operations, as a comma list of {', '.join(REDUCE_OPS)}",
        REDUCE_OPS,
        "sum",
    )
    placement: tuple[str, ...] = _declare_list_option(
        "Write the result into the input's buffer (in_place) or into another buffer "
        "(out_of_place), as a comma list to measure both. default is in_place where the collective "
        "allows it",
        ("default", *(placement.value for placement in Placement)),
        "default",
    )
    mesh: str = _declare_option(
        "Arrange the ranks in a mesh. Example: --mesh=2x4 has the axes x (2) and y (4); name them "
        "yourself with --mesh=hosts:2,devices:4",
        metavar="SHAPE",
        type=option.parse_mesh,
        excludes=("ranks",),
        exclusion_reason="which says the number of ranks",
        default="",
    )
    axes: str = _declare_option(
        "Run the collective along these axes of --mesh only, for example --axes=y. Default: all "
        "axes",
        metavar="LIST",
        type=option.parse_text,
        needs="mesh",
        default="",
    )
    clock: str = _declare_option(
        "Read times from this clock. host: the host's clock, over many collectives in a chain; "
        "dispatch: the host's clock, around each single call; device: the profiler's trace. "
        "default is device on TPUs and GPUs, host on a CPU (default: default)",
        choices=("default", *(clock.value for clock in Clock)),
        default="default",
    )
    payloads: tuple[int, ...] = _declare_option(
        f"Measure these payloads (bytes of one rank's buffer): {PAYLOAD_GRAMMAR} (default: "
        f"{DEFAULT_PAYLOADS})",
        metavar="SIZES",
        type=option.parse_payloads,
        has_setting=True,
        default=parse_payloads(DEFAULT_PAYLOADS),
    )
    dtypes: tuple[str, ...] = _declare_list_option(
        f"Measure these element types, as a comma list of {', '.join(DTYPES)}",
        tuple(DTYPES),
        "float32",
    )
    launches: int = _declare_option(
        "Measure each case in N launches (fresh worker processes). Undecided cases get more, see "
        "--time-budget. auto: with --history one launch of each case that the launch and the "
        "history decide, and 3 of the others; without a history and with --update-baselines 3, and "
        "with --against 6 of each side (default: auto)",
        metavar="N",
        type=option.parse_launches_or_auto,
        has_setting=True,
        default=0,
    )
    time_budget: float = _declare_option(
        "Spend at most this long on more launches, for cases that are undecided or seem slower. On "
        "a CPU a case that seems slower is measured again after a minute; this wait does not count "
        "(default: 300)",
        group=COMPARE_GROUP,
        metavar="SECONDS",
        type=option.parse_seconds,
        default=300.0,
    )
    fail_above: float | None = _declare_option(
        "Fail a case that is slower than its baseline by more than LIMIT, after additional "
        "launches confirm it. Replaces the limit that busbw computes from the noise. Example: "
        "--fail-above=25%%",
        group=COMPARE_GROUP,
        metavar="LIMIT",
        type=option.parse_loss_ratio,
        has_setting=True,
    )
    inject: Injection | None = _declare_option(
        "Slow cases down on purpose, to see that busbw notices. delay:15%% adds a busy loop of "
        "this share to every collective; a launch that it did not slow down fails. memory:SIZE "
        "leaves the program only SIZE of memory. @SIZES, at the end, applies this only to these "
        "payloads. "
        "Example: --inject=delay:30%%@1M+4M",
        group=COMPARE_GROUP,
        metavar="WHAT",
        type=option.parse_injection,
        excludes=_BASELINE_WRITING_OPTIONS,
        exclusion_reason="whose times are no baselines",
    )
    case_timeout: float = _declare_option(
        "Stop a launch, and fail the case, if one case takes longer than this (default: 120)",
        metavar="SECONDS",
        type=option.parse_seconds,
        default=120.0,
    )
    device_wait: float = _declare_option(
        "Wait at most this long for another busbw session on the same machine to end, and for the "
        "workers of --cluster (default: 1800)",
        metavar="SECONDS",
        type=option.parse_seconds,
        has_setting=True,
        default=1800.0,
    )
    baselines: Path = _declare_option(
        "Read and write baselines (accepted times) in DIR, relative to pytest's root directory. "
        "DIR must exist if you name it, unless this session writes it (default: baselines)",
        group=COMPARE_GROUP,
        metavar="DIR",
        type=option.parse_text,
        has_setting=True,
        default=Path("baselines"),
    )
    memory_limit: int | None = _declare_option(
        "Measure as if the machine had only this much memory, for example 1G",
        metavar="SIZE",
        type=option.parse_payload,
    )
    results: str | None = _declare_option(
        "Write all results to FILE, as JSON (docs/results.schema.json) or, if the name ends in "
        ".csv, with one row per case",
        metavar="FILE",
        type=option.parse_text,
    )
    history: Path | None = _declare_option(
        "Append the results to the history in DIR, and judge this session by the usual times of "
        "earlier sessions. DIR is created if it is missing. Default: the environment variable "
        "BUSBW_HISTORY, else no history",
        metavar="DIR",
        type=option.parse_text,
        has_setting=True,
    )
    python: Mapping[str, str] = _declare_option(
        "Measure FRAMEWORK with another Python interpreter, which needs only the framework and "
        "numpy. Example: --python=tensorflow=~/tf/bin/python. May be repeated",
        metavar="[FRAMEWORK=]INTERPRETER",
        type=option.parse_interpreters,
        action="append",
        has_setting=True,
        default={},
    )
    against: Mapping[str, str] = _declare_option(
        "Compare with the environment of another Python interpreter, the reference, instead of "
        "with baselines. Both are measured alternately in this session. Example: "
        "--against=~/last-week/bin/python. baseline means the environment that was locked with the "
        "baselines; it is built if it is missing. May be repeated, once per framework",
        metavar="[FRAMEWORK=]INTERPRETER",
        type=option.parse_reference_interpreters,
        **_INTERLEAVING_DECLARATION,
        default={},
    )
    against_env: Mapping[str, str] = _declare_option(
        "Set an environment variable for the reference only. Without --against the reference is "
        "the same Python. Example: --against-env=NCCL_ALGO=Ring. May be repeated",
        metavar="NAME=VALUE",
        type=option.parse_environment_variable,
        **_INTERLEAVING_DECLARATION,
        default={},
    )
    try_env: Mapping[str, str] = _declare_option(
        "Try an environment variable: measure alternately with it and without it (or with the "
        "reference of --against). Example: --try-env=NCCL_ALGO=Ring. May be repeated",
        metavar="NAME=VALUE",
        type=option.parse_environment_variable,
        **_INTERLEAVING_DECLARATION,
        default={},
    )
    # Options that write baselines have no setting, because the user must request each update.
    update_baselines: str = _declare_option(
        "Accept the times of this session as baselines. all (if you give no value): every measured "
        "case, also if it is slower than the first accepted time by up to 10 percent (25 on a "
        "CPU); new: only cases without a baseline; improved: only cases that IMPROVED",
        group=COMPARE_GROUP,
        choices=("all", "new", "improved"),
        nargs="?",
        const="all",
        default="",
    )
    accept_regression: str = _declare_option(
        "With --update-baselines: accept also cases that became slower by more than that. The "
        'reason is stored in the file. Example: --accept-regression="the new switch is slower"',
        group=COMPARE_GROUP,
        metavar="WHY",
        type=option.parse_text,
        needs="update_baselines",
        default="",
    )
    prune_baselines: bool = _declare_option(
        "Delete stored times of payloads that this session did not select, from the files of the "
        "measured cases",
        group=COMPARE_GROUP,
        action="store_true",
        default=False,
    )
    require_baselines: bool = _declare_option(
        "Fail a case that has no baseline (default if the environment variable CI is set)",
        group=COMPARE_GROUP,
        action="store_true",
        has_setting=True,
        default=False,
    )
    # The following fields are not options of the command line.
    extra: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Path] = field(default_factory=dict)
    remote: RemoteHosts | None = None
    compares_with_locked_stack: bool = False
    stacks: Mapping[str, LockedStack] = field(default_factory=dict)
    shared_devices: int = 0

    @property
    def is_paired(self) -> bool:
        """Whether two stacks are interleaved: the candidate and a reference stack."""
        return bool(
            self.compares_with_locked_stack or self.against or self.against_env or self.try_env
        )

    @property
    def writes_baselines(self) -> bool:
        """Whether an option requests to store or delete baselines."""
        return bool(self.update_baselines or self.prune_baselines)


_FIELD_METADATA = {field.name: field.metadata for field in fields(Options)}
# The annotations have the order of --help. `fields` would begin with the fields of GridOptions.
OPTIONS: Mapping[str, Option] = {
    **{
        n: Option(name=n, **_FIELD_METADATA[n])
        for n in Options.__annotations__
        if _FIELD_METADATA[n]
    },
    **extensions.load_table("OPTIONS"),
}
