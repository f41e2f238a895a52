"""Settings: what the options and the ini file ask for, checked.

A wrong option is a usage error before anything is started or written; `forms` has the folders and
files that options name.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import metrics
from busbw.baselines.store import frameworks_below
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.frameworks import COMPILED, FRAMEWORKS, USUAL
from busbw.model.case import Asked
from busbw.model.launch import Injection
from busbw.model.machine import check_axes, extents_of, mesh_text, names_of
from busbw.model.words import Device, Placement, nearest
from busbw.workloads import WORKLOADS
from busbw.workloads.dense_step import STEP_PAYLOADS

from .agents import AgentSettings, agent_settings_of
from .compilers import CompileSettings, compile_settings_of
from .forms import (
    WRITING,
    Against,
    against_of,
    baselines_of,
    checked,
    flag,
    history_of,
    injection_of,
    one_of,
    page_of,
    program,
    ratio_of,
    results_of,
    seconds_of,
    stack_cache_of,
    updates_of,
    whole,
    words_of,
)
from .options import OPTIONS, UPDATES, Given, Option, usage_error

_LAUNCHES = 3
_LAUNCHES_PAIRED = 6
_PLACEMENTS = ("default", *(placement.value for placement in Placement))


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
    texts = {option.name: _text(given, option) for option in OPTIONS if option.is_text}
    named = texts["frameworks"] != "auto"
    pythons = _pythons([*given.ini["python"], *given.options["python"]])
    against = _against(given, injected=bool(texts["inject"]))
    there = _frameworks(texts, named=named, pythons=pythons)
    root = baselines_of(given, texts["baselines"])
    absent = _absent(there, root, named or against or texts["topology"])
    told = whole("processes", texts["processes"], least=1) if texts["processes"] else None
    agents = agent_settings_of(texts, told, os.environ)
    processes = told or (agents.count if agents is not None else 1)
    ranks, limit = _ranks(texts, processes), texts["memory_limit"]
    return Settings(
        device=None if texts["device"] == "auto" else Device(texts["device"]),
        ranks=ranks,
        processes=processes,
        agents=agents,
        frameworks=there,
        absent_frameworks=absent,
        pythons=pythons,
        asked=_asked(texts, (*there, *absent), named, None if texts["topology"] else ranks),
        step_payloads=_step_payloads(texts["payloads"]),
        launches=_launches(given, texts["launches"], paired=against is not None),
        time_budget_s=seconds_of("time_budget", texts["time_budget"]),
        fail_above=_fail_above(given, texts["fail_above"], paired=against is not None),
        against=against,
        stack_cache=stack_cache_of(texts["stack_cache"]),
        locks_reference=not given.options["no_reference_lock"],
        injection=checked("inject", injection_of, texts["inject"]),
        case_timeout_s=seconds_of("case_timeout", texts["case_timeout"]),
        device_wait_s=seconds_of("device_wait", texts["device_wait"]),
        baselines=root,
        update_baselines=updates_of(given.options["update_baselines"], UPDATES),
        accept_regression=_accept_regression(given),
        names_cases=bool(given.keyword),
        prune_baselines=given.options["prune_baselines"],
        rebase=_reason(given, "rebase"),
        require_baselines=_require_baselines(given),
        memory_limit_bytes=checked("memory_limit", metrics.parse_payload, limit) if limit else None,
        results=results_of(given, texts["results"], root),
        page=page_of(given, texts, root),
        history=history_of(given, texts, root),
        compile=compile_settings_of(given, texts, pythons, root),
    )


def _asked(
    texts: Mapping[str, str], frameworks: tuple[str, ...], named: bool, ranks: int | None
) -> Asked:
    return Asked(
        frameworks=frameworks,
        named=named,
        strategies=_words("strategies", texts, _all_strategies()),
        collectives=_words("collectives", texts, tuple(COLLECTIVES)),
        reduce_ops=_words("reduce_ops", texts, REDUCE_OPS),
        placements=_words("placement", texts, _PLACEMENTS),
        dtypes=_words("dtypes", texts, tuple(DTYPES)),
        payloads=checked("payloads", metrics.parse_payloads, texts["payloads"]),
        ranks=ranks,
        mesh=_mesh(texts["mesh"], ranks),
        axes=_axes(texts["axes"], texts["mesh"]),
        clock=texts["clock"],
    )


# What is accepted is said of these, when they are given empty, too.
_SAYING_MORE = ("baselines", "fail_above", "launches")


def _text(given: Given, option: Option) -> str:
    value = given.options[option.name]
    is_empty = value is not None and not str(value).strip()
    if is_empty and not option.default and option.name not in _SAYING_MORE:
        raise ValueError(
            f"{option.flag_name}: it is given empty, as by a variable that is not set; "
            "leave it out for the default"
        )
    text = str(given.ini[option.name] if value is None else value).strip()
    return one_of(option.name, text, option.choices, option.names) if option.choices else text


def _words(name: str, texts: Mapping[str, str], accepted: Sequence[str]) -> tuple[str, ...]:
    (option,) = (option for option in OPTIONS if option.name == name)
    return words_of(name, texts[name], accepted, option.names)


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


def _launches(given: Given, text: str, *, paired: bool) -> int:
    if not text and given.options["launches"] is None:
        return _LAUNCHES_PAIRED if paired else _LAUNCHES
    return whole("launches", text, least=1)


def _fail_above(given: Given, text: str, *, paired: bool) -> float | None:
    if not text and given.options["fail_above"] is None:
        return None
    if paired:
        raise ValueError(
            f"{flag('fail_above')}: not with --against: it is a limit against stored times"
        )
    return ratio_of("fail_above", text)


def _step_payloads(text: str) -> tuple[int, ...]:
    """The payloads asked for; by default fewer than those of collectives, to take less time."""
    usual = next(option.default for option in OPTIONS if option.name == "payloads")
    return STEP_PAYLOADS if text == usual else metrics.parse_payloads(text)


def _ranks(texts: Mapping[str, str], processes: int) -> int | None:
    """None for all that are there; of several processes as many as a mesh has by default."""
    text, each = texts["ranks"], texts["ranks_per_process"]
    if each and processes == 1:
        raise ValueError("--ranks-per-process: there are no --processes whose ranks they could be")
    asked = _ranks_of(text)
    if processes == 1:
        return asked
    mesh = checked("mesh", extents_of, texts["mesh"]) if texts["mesh"] else (processes,)
    found = math.prod(mesh)
    if each or found % processes:
        found = processes * (whole("ranks_per_process", each, least=1) if each else 1)
    if asked not in (None, found):
        raise ValueError(
            f"--ranks: {asked}: {processes} processes of {found // processes} have {found} ranks; "
            "accepted is as many, or none"
        )
    return found


def _ranks_of(text: str) -> int | None:
    if not text or text == "all":
        return None
    if text.isdecimal() and int(text) < 2:
        raise ValueError(f"--ranks: {text}: fewer than two ranks are not a collective")
    return whole("ranks", text, least=2)


def _mesh(text: str, ranks: int | None) -> str:
    """The shape as given, of all `ranks` if these are known; a single rank is no mesh."""
    extents = checked("mesh", extents_of, text) if text else ()
    if extents and math.prod(extents) < 2:
        raise ValueError(f"--mesh: {text}: fewer than two ranks are not a collective")
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


def _all_strategies() -> tuple[str, ...]:
    of_collectives = (name for one in FRAMEWORKS.values() for name in one.strategies)
    of_training = (name for one in WORKLOADS.values() for name in one.own_strategies)
    return tuple(dict.fromkeys((*of_collectives, *of_training)))


def _frameworks(
    texts: Mapping[str, str], *, named: bool, pythons: Mapping[str, str]
) -> tuple[str, ...]:
    text, compiled = texts["frameworks"], bool(texts["topology"])
    wanted = _words("frameworks", texts, tuple(FRAMEWORKS)) if named else USUAL
    if compiled and named and not set(wanted) <= set(COMPILED):
        raise ValueError(f"--frameworks: {text!r}; with --topology accepted is jax")
    wanted = tuple(name for name in wanted if not compiled or name in COMPILED)
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
