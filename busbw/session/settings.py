"""Settings: what the options and the ini file ask for, checked.

A wrong option is a usage error before anything is started or written. What options say alone
is in `options`; here is what they say together.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw import extensions
from busbw.baselines.store import frameworks_below
from busbw.driver.transport import Hosts
from busbw.frameworks import FRAMEWORKS, USUAL
from busbw.model.case import GridOptions
from busbw.model.launch import Injection
from busbw.model.machine import check_axes, mesh_text, names_of
from busbw.model.words import Device

from .errors import usage_error
from .folders import WRITING, baselines_of, history_of, outputs_of, stack_cache_of
from .forms import BASELINE, checked, flag
from .option import Given
from .options import OPTIONS
from .repeat import words_of

_LAUNCHES = 3
_LAUNCHES_PAIRED = 6

# Why devices are not shared.
_NOT_SHARED = {
    "cpu": "not with --device=cpu, whose devices are virtual: --ranks says how many",
    "tpu": "not with --device=tpu: libtpu belongs to one process",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LockedStack:
    """A reference stack that was built from its lock: an interpreter, and the flags it runs with.

    `digest` names it in the history.
    """

    python: str
    digest: str
    flags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """The reference: interpreters by framework, and environment variables.

    `tried` are variables of the candidate instead.
    `is_baseline`: the stack that is locked beside the baselines, which `locked` has by framework
    once it is built.
    """

    pythons: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    tried: Mapping[str, str] = field(default_factory=dict)
    is_baseline: bool = False
    locked: Mapping[str, LockedStack] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the user asked for, checked.

    `names_cases`: `-k` selects which.
    `processes` run every program together, each with its part of the `ranks`, on the hosts of
    `cluster` or on this one.
    `share_devices`: the processes are to share GPUs; `shared_devices` is how many GPUs that are,
    once a probe has found them, and 0 where each process has its own devices.
    `absent_frameworks` are not installed here, were not left out by an option, and have baselines:
    their cases cannot be measured, which must be reported. `repeat` are the words of a command line
    that asks for the same. `asked` is the grid, including them. `extra` has the values of the
    options of extensions by name.
    """

    device: Device | None
    ranks: int | None
    processes: int
    share_devices: bool
    cluster: Hosts | None
    frameworks: tuple[str, ...]
    absent_frameworks: tuple[str, ...]
    pythons: Mapping[str, str]
    asked: GridOptions
    launches: int
    time_budget_s: float
    fail_above: float | None
    against: Against | None
    stack_cache: Path | None
    injection: Injection | None
    case_timeout_s: float
    device_wait_s: float
    baselines: Path
    update_baselines: str
    accept_regression: str
    names_cases: bool
    prune_baselines: bool
    require_baselines: bool
    memory_limit_bytes: int | None
    results: Path | None
    views: Mapping[str, Path]
    history: Path | None
    extra: Mapping[str, Any] = field(default_factory=dict)
    shared_devices: int = 0
    repeat: tuple[str, ...] = ()

    @property
    def writes_baselines(self) -> bool:
        return bool(self.update_baselines or self.prune_baselines)


@usage_error(ValueError)
def settings_of(given: Given, usual: Sequence[str] = ()) -> Settings:
    """Return the checked Settings. Raises UsageError with what is wrong and what is accepted.

    `usual` are the frameworks where no option names any; by default all that are measured, of
    which those that are missing here are noticed by their baselines.
    """
    found = {option.name: option.found(given) for option in OPTIONS}
    _check_together(found, given.options)
    values = {option.name: option.value(found[option.name]) for option in OPTIONS}
    pythons = dict(values["python"])
    against = _against(values)
    there = _frameworks(values["frameworks"] or usual or USUAL, values["frameworks"], pythons)
    root = baselines_of(given, values["baselines"])
    outputs = outputs_of(given, values, root)
    # Those of any machine; none where options select frameworks.
    selected = values["frameworks"] or against or usual
    stored = frozenset() if selected else frameworks_below(root)
    absent = tuple(name for name in USUAL if name in stored and name not in there)
    cluster = hosts_of(values)
    processes = values["processes"] or (cluster.count if cluster is not None else 1)
    ranks = _ranks(values, processes)
    return Settings(
        device=values["device"],
        ranks=ranks,
        processes=processes,
        share_devices=values["share_devices"],
        cluster=cluster,
        frameworks=there,
        absent_frameworks=absent,
        pythons=pythons,
        asked=_asked(found, values, (*there, *absent), ranks),
        launches=values["launches"] or (_LAUNCHES if against is None else _LAUNCHES_PAIRED),
        time_budget_s=values["time_budget"],
        fail_above=values["fail_above"],
        against=against,
        stack_cache=_stack_cache(values["stack_cache"], found["against"]),
        injection=values["inject"],
        case_timeout_s=values["case_timeout"],
        device_wait_s=values["device_wait"],
        baselines=root,
        update_baselines=values["update_baselines"] or "",
        accept_regression=values["accept_regression"] or "",
        names_cases=bool(given.keyword),
        prune_baselines=values["prune_baselines"],
        require_baselines=_require_baselines(given),
        memory_limit_bytes=values["memory_limit"],
        results=outputs.pop("results", None),
        views=outputs,
        history=history_of(given, values, root),
        extra={name: values[name] for name in extensions.names("OPTIONS")},
        shared_devices=0,
        repeat=words_of(given),
    )


def hosts_of(values: Mapping[str, Any]) -> Hosts | None:
    """Return the hosts of --hosts or --cluster, None without either. Raises ValueError."""
    hooks = extensions.hooks("hosts_of")
    if not hooks and (values["hosts"] or values["cluster"]):
        raise ValueError("--hosts and --cluster: their extension of busbw is not installed")
    return next((hook(values, os.environ) for hook in hooks), None)


def _stack_cache(text: str | None, against: Sequence[str]) -> Path | None:
    """Return where reference stacks are built; None where none is, so that it need not exist."""
    return stack_cache_of(text) if BASELINE in against else None


def _check_together(found: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that say nothing with or without others.

    `found` has what options were given, `options` those of the command line alone.
    """
    stacks = [text for text in found["against"] if text != BASELINE]
    is_baseline = BASELINE in found["against"]
    if is_baseline and (stacks or found["against_env"]):
        other = f"--against={stacks[0]}" if stacks else "--against-env"
        raise ValueError(f"--against=baseline: not with {other}: its lock says both")
    paired = found["against"] or found["against_env"] or found["try_env"]
    is_all = found["update_baselines"] == "all"
    no_times = "these are no times for a baseline"
    no_hosts = "there are no --hosts that it is for"
    no_cluster = "there is no --cluster that it is for"
    one_each = "not with --share-devices, where each process has one rank"
    own_gpus = "not with --share-devices, which is for the GPUs of one host"
    shared = found["share_devices"]
    for name, is_wrong, why in (
        ("try_env", is_baseline, "not with --against=baseline, whose nights are a history"),
        *((name, paired, f"not with --against: {no_times}") for name in WRITING),
        *((name, found["inject"], f"not with --inject: {no_times}") for name in WRITING),
        ("fail_above", paired, "not with --against: it is a limit against stored times"),
        ("accept_regression", not is_all, "needs --update-baselines, which takes slower times"),
        ("axes", not found["mesh"], "there is no --mesh whose axes they could be"),
        ("hosts", found["cluster"], "expected one of --hosts and --cluster"),
        ("cluster_trust_network", not found["cluster"], no_cluster),
        *((name, not found["hosts"], no_hosts) for name in ("host_python", "host_env")),
        ("ranks_per_process", shared, one_each),
        *((name, shared, own_gpus) for name in ("hosts", "cluster")),
        ("share_devices", found["device"] in _NOT_SHARED, _NOT_SHARED.get(found["device"], "")),
    ):
        if is_wrong and found[name]:
            raise ValueError(f"{flag(name)}: {why}")
    for option in OPTIONS:
        if option.needs and options[option.name] and not found[option.needs]:
            raise ValueError(f"{option.flag_name}: only with {flag(option.needs)}")
        for name in option.excludes if found[option.name] else ():
            if options.get(name):
                raise ValueError(f"{flag(name)}: not with {option.flag_name}")


def _against(values: Mapping[str, Any]) -> Against | None:
    found = Against(
        pythons={name: path for one in values["against"] for name, path in one.items()},
        environment=dict(values["against_env"]),
        tried=dict(values["try_env"]),
        is_baseline={} in values["against"],
    )
    return found if found != Against() else None


def _asked(
    found: Mapping[str, Any],
    values: Mapping[str, Any],
    frameworks: tuple[str, ...],
    ranks: int | None,
) -> GridOptions:
    mesh, axes = found["mesh"] or "", found["axes"] or ""
    extents = values["mesh"] or ()
    if mesh and ranks not in (None, math.prod(extents)):
        there = math.prod(extents)
        raise ValueError(f"--mesh: {mesh} has {there} ranks, --ranks={ranks} asks for {ranks}")
    if axes:
        axes = checked("axes", lambda words: check_axes(words, mesh), axes)
    return GridOptions(
        frameworks=frameworks,
        named=bool(values["frameworks"]),
        strategies=values["strategies"],
        collectives=values["collectives"],
        reduce_ops=values["reduce_ops"],
        placements=values["placement"],
        dtypes=values["dtypes"],
        payloads=values["payloads"],
        ranks=ranks,
        mesh=mesh_text(mesh) if mesh else "",
        # All of them are the same as none.
        axes=axes if len(names_of(axes)) < len(extents) else "",
        clock=values["clock"],
    )


def _ranks(values: Mapping[str, Any], processes: int) -> int | None:
    """None for all that are there; of several processes as many as a mesh has by default."""
    asked: int | None = values["ranks"]
    each: int | None = values["ranks_per_process"]
    if values["share_devices"] and processes == 1:
        raise ValueError("--share-devices: expected several --processes, such as --processes=2")
    if each and processes == 1:
        raise ValueError("--ranks-per-process: there are no --processes whose ranks they could be")
    if processes == 1:
        return asked
    found = math.prod(values["mesh"] or (processes,))
    if each or found % processes:
        found = processes * (each or 1)
    if asked not in (None, found):
        raise ValueError(
            f"--ranks: {asked}: {processes} processes of {found // processes} have {found} ranks; "
            "accepted is as many, or none"
        )
    return found


def _frameworks(
    names: Sequence[str], named: Sequence[str], pythons: Mapping[str, str]
) -> tuple[str, ...]:
    """Return those of the frameworks that are there. Raises ValueError if a named one is not."""
    there = tuple(
        name
        for name in names
        if name in pythons or FRAMEWORKS[name].scripted or importlib.util.find_spec(name)
    )
    for name in named:
        if name not in there:
            raise ValueError(f"--frameworks: {name} is not installed here; {how_to_get(name)}")
    return there


def how_to_get(framework: str) -> str:
    return (
        f'pip install "busbw[{FRAMEWORKS[framework].extra}]", or name an interpreter that has it: '
        f"--python={framework}=PATH"
    )


def _require_baselines(given: Given) -> bool:
    if given.options["require_baselines"]:
        return True
    text = str(given.ini["require_baselines"]).lower()
    if text in ("", "auto"):
        return bool(os.environ.get("CI"))
    if text not in ("true", "false"):
        raise ValueError(f"busbw_require_baselines: {text!r}; accepted are true, false and auto")
    return text == "true"
