"""Settings: what the options and the ini file ask for, checked.

A wrong option is a usage error before anything is started or written. What options say alone
is in `options`; here is what they say together.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw import metrics
from busbw.baselines.store import frameworks_below
from busbw.frameworks import COMPILED, FRAMEWORKS, USUAL
from busbw.model.case import Asked
from busbw.model.launch import Injection
from busbw.model.machine import check_axes, extents_of, mesh_text, names_of
from busbw.model.words import Device, nearest
from busbw.stacks.lock import Lock
from busbw.workloads.dense_step import STEP_PAYLOADS

from .agents import AgentSettings, agent_settings_of
from .compilers import CompileSettings, compile_settings_of
from .folders import (
    WRITING,
    baselines_of,
    history_of,
    metrics_of,
    page_of,
    results_of,
    stack_cache_of,
)
from .forms import checked, flag, updates_of
from .option import Given, usage_error
from .options import OPTIONS, UPDATES

_LAUNCHES = 3
_LAUNCHES_PAIRED = 6


# What --against takes in place of an interpreter.
BASELINE = "baseline"


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """The reference: interpreters by framework, and environment variables.

    `tried` are variables of the candidate instead.
    `is_baseline`: the stack that is locked beside the baselines, which `locks` has by framework
    once it is built.
    """

    pythons: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    tried: Mapping[str, str] = field(default_factory=dict)
    is_baseline: bool = False
    locks: Mapping[str, Lock] = field(default_factory=dict)


def against_of(
    pythons: Sequence[str], variables: Sequence[str], tried: Sequence[str]
) -> Against | None:
    if not pythons and not variables and not tried:
        return None
    candidate = dict(_variable(text, "--try-env") for text in tried)
    if BASELINE in pythons:
        others = [text for text in pythons if text != BASELINE]
        if others or variables:
            other = f"--against={others[0]}" if others else "--against-env"
            raise ValueError(f"--against=baseline: not with {other}: its lock says both")
        if tried:
            raise ValueError("--try-env: not with --against=baseline, whose nights are a history")
        return Against(is_baseline=True)
    found: dict[str, str] = {}
    for text in pythons:
        framework, equals, python = text.partition("=")
        if not equals or framework not in FRAMEWORKS:
            found |= dict.fromkeys(FRAMEWORKS, program(text, "--against"))
        else:
            found[framework] = program(python, "--against")
    reference = dict(_variable(text, "--against-env") for text in variables)
    return Against(pythons=found, environment=reference, tried=candidate)


def program(python: str, option: str) -> str:
    """The absolute path of an interpreter. Raises ValueError if it is none."""
    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise ValueError(f"{option}: {python!r} is not an executable program")
    return os.path.abspath(found)


def _variable(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{option}: {text!r}; accepted is NAME=VALUE")
    return name, value


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the user asked for, checked.

    `locks_reference`: with new baselines the stack is locked that they were measured with.
    `names_cases`: `-k` selects which.
    `processes` run every program together, each with its part of the `ranks`; `agents` start them.
    `absent_frameworks` are not installed here, were not left out by an option, and have baselines:
    their cases cannot be measured, which must be reported. `asked` is the grid, including them;
    `step_payloads` are the payloads of training steps.
    """

    device: Device | None
    ranks: int | None
    processes: int
    agents: AgentSettings | None
    frameworks: tuple[str, ...]
    absent_frameworks: tuple[str, ...]
    pythons: Mapping[str, str]
    asked: Asked
    step_payloads: tuple[int, ...]
    launches: int
    time_budget_s: float
    fail_above: float | None
    against: Against | None
    stack_cache: Path
    locks_reference: bool
    injection: Injection | None
    case_timeout_s: float
    device_wait_s: float
    baselines: Path
    update_baselines: str
    accept_regression: str
    names_cases: bool
    prune_baselines: bool
    rebase: str
    require_baselines: bool
    memory_limit_bytes: int | None
    results: Path | None
    metrics: Path | None
    page: Path | None
    history: Path | None
    compile: CompileSettings | None

    @property
    def writes_baselines(self) -> bool:
        return bool(self.update_baselines or self.rebase or self.prune_baselines)


def settings_of(given: Given) -> Settings:
    """The checked Settings. Raises UsageError with what was wrong and what is accepted."""
    with usage_error(ValueError):
        return _settings(given)


def _settings(given: Given) -> Settings:
    texts = {option.name: option.text(given) for option in OPTIONS if option.is_text}
    values = {option.name: option.value(texts[option.name]) for option in OPTIONS if option.is_text}
    named = bool(values["frameworks"])
    pythons = _pythons([*given.ini["python"], *given.options["python"]])
    against = _against(given, injected=values["inject"] is not None)
    there = _frameworks(values, compiled=bool(texts["topology"]), pythons=pythons)
    root = baselines_of(given, texts["baselines"])
    absent = _absent(there, root, named or against or texts["topology"])
    agents = agent_settings_of(texts, values["processes"], os.environ)
    processes = values["processes"] or (agents.count if agents is not None else 1)
    ranks = _ranks(values, processes)
    if values["fail_above"] is not None and against is not None:
        raise ValueError("--fail-above: not with --against: it is a limit against stored times")
    return Settings(
        device=values["device"],
        ranks=ranks,
        processes=processes,
        agents=agents,
        frameworks=there,
        absent_frameworks=absent,
        pythons=pythons,
        asked=_asked(texts, values, (*there, *absent), None if texts["topology"] else ranks),
        step_payloads=_step_payloads(texts["payloads"]),
        launches=values["launches"] or (_LAUNCHES if against is None else _LAUNCHES_PAIRED),
        time_budget_s=values["time_budget"],
        fail_above=values["fail_above"],
        against=against,
        stack_cache=stack_cache_of(texts["stack_cache"]),
        locks_reference=not given.options["no_reference_lock"],
        injection=values["inject"],
        case_timeout_s=values["case_timeout"],
        device_wait_s=values["device_wait"],
        baselines=root,
        update_baselines=updates_of(given.options["update_baselines"], UPDATES),
        accept_regression=_accept_regression(given),
        names_cases=bool(given.keyword),
        prune_baselines=given.options["prune_baselines"],
        rebase=_reason(given, "rebase"),
        require_baselines=_require_baselines(given),
        memory_limit_bytes=values["memory_limit"],
        results=results_of(given, texts, root),
        metrics=metrics_of(given, texts, root),
        page=page_of(given, texts, root),
        history=history_of(given, texts, root),
        compile=compile_settings_of(given, texts, values, pythons, root),
    )


def _asked(
    texts: Mapping[str, str],
    values: Mapping[str, Any],
    frameworks: tuple[str, ...],
    ranks: int | None,
) -> Asked:
    return Asked(
        frameworks=frameworks,
        named=bool(values["frameworks"]),
        strategies=values["strategies"],
        collectives=values["collectives"],
        reduce_ops=values["reduce_ops"],
        placements=values["placement"],
        dtypes=values["dtypes"],
        payloads=values["payloads"],
        ranks=ranks,
        mesh=_mesh(texts["mesh"], values["mesh"], ranks),
        axes=_axes(texts["axes"], texts["mesh"]),
        clock=values["clock"],
    )


def _against(given: Given, *, injected: bool) -> Against | None:
    """The other stack; no baseline is written from it, nor from what an injection slowed down."""
    found = against_of(
        [*given.ini["against"], *given.options["against"]],
        [*given.ini["against_env"], *given.options["against_env"]],
        [*given.ini["try_env"], *given.options["try_env"]],
    )
    writing = [flag(name) for name in WRITING if given.options[name]]
    if writing and (found is not None or injected):
        other = "--inject" if found is None else "--against"
        raise ValueError(f"{writing[0]}: not with {other}: these are no times for a baseline")
    return found


def _step_payloads(text: str) -> tuple[int, ...]:
    """The payloads asked for; by default fewer than those of collectives, to take less time."""
    usual = next(option.default for option in OPTIONS if option.name == "payloads")
    return STEP_PAYLOADS if text == usual else metrics.parse_payloads(text)


def _ranks(values: Mapping[str, Any], processes: int) -> int | None:
    """None for all that are there; of several processes as many as a mesh has by default."""
    asked: int | None = values["ranks"]
    each: int | None = values["ranks_per_process"]
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


def _mesh(text: str, extents: tuple[int, ...] | None, ranks: int | None) -> str:
    """The shape as given, of all `ranks` if these are known."""
    if extents and ranks is not None and math.prod(extents) != ranks:
        raise ValueError(
            f"--mesh: {text} has {math.prod(extents)} ranks, --ranks={ranks} asks for {ranks}"
        )
    return mesh_text(text) if text else ""


def _axes(text: str, mesh: str) -> str:
    """Names of axes of the mesh, in its order; all of them are the same as none."""
    if not text:
        return ""
    if not mesh:
        raise ValueError("--axes: there is no --mesh whose axes they could be")
    axes = str(checked("axes", lambda words: check_axes(words, mesh), text))
    return "" if len(names_of(axes)) == len(extents_of(mesh)) else axes


def _frameworks(
    values: Mapping[str, Any], *, compiled: bool, pythons: Mapping[str, str]
) -> tuple[str, ...]:
    named: tuple[str, ...] = values["frameworks"]
    if compiled and not set(named) <= set(COMPILED):
        text = ",".join(named)
        raise ValueError(f"--frameworks: {text!r}; with --topology accepted is jax")
    wanted = tuple(name for name in named or USUAL if not compiled or name in COMPILED)
    there = tuple(name for name in wanted if name in pythons or _installed(name))
    missing = [name for name in wanted if name not in there]
    if named and missing:
        raise ValueError(
            f"--frameworks: {missing[0]} is not installed here; {how_to_get(missing[0])}"
        )
    return there


def _absent(there: tuple[str, ...], root: Path, others: object) -> tuple[str, ...]:
    """Those of any machine below `root`; none where options select frameworks (`others`)."""
    stored = frozenset() if others else frameworks_below(root)
    return tuple(name for name in USUAL if name in stored and name not in there)


def how_to_get(framework: str) -> str:
    return (
        f'pip install "busbw[{FRAMEWORKS[framework].extra}]", or name an interpreter that has it: '
        f"--python={framework}=PATH"
    )


def _installed(framework: str) -> bool:
    return FRAMEWORKS[framework].scripted or importlib.util.find_spec(framework) is not None


def _pythons(texts: Sequence[str]) -> dict[str, str]:
    pythons = {}
    for text in texts:
        framework, equals, python = text.partition("=")
        if not equals or framework not in FRAMEWORKS:
            near = nearest(framework, tuple(FRAMEWORKS)) if equals else USUAL[0]
            meant = f"did you mean {near}={(python or text)[:60]}? " if near and text else ""
            raise ValueError(
                f"--python: {text[:60]!r}; {meant}accepted is FRAMEWORK=INTERPRETER, one of "
                f"{', '.join(FRAMEWORKS)}"
            )
        pythons[framework] = program(python, "--python")
    return pythons


def _require_baselines(given: Given) -> bool:
    if given.options["require_baselines"]:
        return True
    text = str(given.ini["require_baselines"]).lower()
    if text in ("", "auto"):
        return bool(os.environ.get("CI"))
    if text not in ("true", "false"):
        raise ValueError(f"busbw_require_baselines: {text!r}; accepted are true, false and auto")
    return text == "true"


def _accept_regression(given: Given) -> str:
    reason = _reason(given, "accept_regression")
    if reason and given.options["update_baselines"] != "all":
        raise ValueError("--accept-regression: needs --update-baselines, which takes slower times")
    return reason


def _reason(given: Given, name: str) -> str:
    text = given.options[name]
    if text is not None and not text.strip():
        raise ValueError(f"{flag(name)}: {text!r}; accepted is a reason in words")
    return " ".join(text.split()) if text else ""
