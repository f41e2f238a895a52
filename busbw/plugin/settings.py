"""Settings: what the options and the ini file ask for, checked.

What is wrong is a usage error here, before anything is collected or started.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw import baselines, metrics
from busbw.collectives import COLLECTIVES, DTYPES, REDUCE_OPS
from busbw.frameworks import COMPILED, FRAMEWORKS, USUAL
from busbw.model import (
    Clock,
    Device,
    GridError,
    Injection,
    Placement,
    check_axes,
    extents_of,
)
from busbw.workloads import STEP_PAYLOADS, WORKLOADS

from .against import Against, against_of, injection_of, program
from .compile_settings import CompileSettings, compile_settings_of
from .options import OPTIONS, Option
from .outputs import baselines_of, results_of
from .parsing import checked, flag, one_of, seconds_of, whole, words_of

_LAUNCHES = 3
_LAUNCHES_PAIRED = 6
_DEVICES = ("auto", *(device.value for device in Device))
_PLACEMENTS = ("default", *(placement.value for placement in Placement))


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the user asked for, checked.

    `absent_frameworks` are those that nobody left out, that are not installed here, and that there
    are baselines of: what is selected of them cannot be measured, and must not go unsaid.
    """

    device: Device | None
    ranks: int | None
    frameworks: tuple[str, ...]
    frameworks_named: bool
    absent_frameworks: tuple[str, ...]
    pythons: Mapping[str, str]
    strategies: tuple[str, ...]
    collectives: tuple[str, ...]
    reduce_ops: tuple[str, ...]
    placements: tuple[str, ...]
    mesh: str
    axes: str
    clock: str
    payloads: tuple[int, ...]
    step_payloads: tuple[int, ...]
    dtypes: tuple[str, ...]
    launches: int
    time_budget_s: float
    against: Against | None
    injection: Injection | None
    case_timeout_s: float
    device_wait_s: float
    baselines: Path
    update_baselines: str
    accept_regression: str
    prune_baselines: bool
    rebase: str
    require_baselines: bool
    memory_limit_bytes: int | None
    results: Path | None
    compile: CompileSettings | None

    @property
    def writes_baselines(self) -> bool:
        """Whether baselines are written at the end, if the session deserves it."""
        return bool(self.update_baselines or self.rebase or self.prune_baselines)


def settings_of(config: pytest.Config) -> Settings:
    """The checked Settings. Raises pytest.UsageError with what was wrong and what is accepted."""
    try:
        return _settings(config)
    except (ValueError, GridError) as error:
        raise pytest.UsageError(f"busbw: {error}") from error


def _settings(config: pytest.Config) -> Settings:
    texts = {option.name: _text(config, option) for option in OPTIONS}
    named = texts["frameworks"] != "auto"
    pythons = _pythons([*config.getini("busbw_python"), *config.getoption("python")])
    against = _against(config, injected=bool(texts["inject"]))
    there = _frameworks(texts, named=named, pythons=pythons)
    root = baselines_of(config, texts["baselines"])
    return Settings(
        device=_device(texts["device"]),
        ranks=_ranks(texts["ranks"]),
        frameworks=there,
        frameworks_named=named,
        absent_frameworks=_absent(there, root, named or against or texts["topology"]),
        pythons=pythons,
        strategies=words_of("strategies", texts["strategies"], _all_strategies()),
        collectives=words_of("collectives", texts["collectives"], tuple(COLLECTIVES)),
        reduce_ops=words_of("reduce_ops", texts["reduce_ops"], REDUCE_OPS),
        placements=words_of("placement", texts["placement"], _PLACEMENTS),
        mesh=_mesh(texts["mesh"]),
        axes=_axes(texts["axes"], texts["mesh"]),
        clock=one_of("clock", texts["clock"], ("default", *(clock.value for clock in Clock))),
        payloads=checked("payloads", metrics.parse_payloads, texts["payloads"]),
        step_payloads=_step_payloads(texts["payloads"]),
        dtypes=words_of("dtypes", texts["dtypes"], tuple(DTYPES)),
        launches=_launches(config, texts["launches"], paired=against is not None),
        time_budget_s=seconds_of("time_budget", texts["time_budget"]),
        against=against,
        injection=checked("inject", injection_of, texts["inject"]),
        case_timeout_s=seconds_of("case_timeout", texts["case_timeout"]),
        device_wait_s=seconds_of("device_wait", texts["device_wait"]),
        baselines=root,
        update_baselines=config.getoption("update_baselines"),
        accept_regression=_accept_regression(config),
        prune_baselines=config.getoption("prune_baselines"),
        rebase=_reason(config, "rebase"),
        require_baselines=_require_baselines(config),
        memory_limit_bytes=_memory_limit(texts["memory_limit"]),
        results=results_of(config, texts["results"], root),
        compile=compile_settings_of(config, texts, pythons, root),
    )


def _against(config: pytest.Config, *, injected: bool) -> Against | None:
    found = against_of(
        [*config.getini("busbw_against"), *config.getoption("against")],
        [*config.getini("busbw_against_env"), *config.getoption("against_env")],
    )
    _check_paired(config, paired=found is not None, injected=injected)
    return found


def _device(text: str) -> Device | None:
    return None if text == "auto" else Device(one_of("device", text, _DEVICES))


def _memory_limit(text: str) -> int | None:
    return checked("memory_limit", metrics.parse_payload, text) if text else None


def _text(config: pytest.Config, option: Option) -> str:
    given = config.getoption(option.name)
    return str(config.getini(f"busbw_{option.name}") if given is None else given).strip()


def _launches(config: pytest.Config, text: str, *, paired: bool) -> int:
    if not text and config.getoption("launches") is None:
        return _LAUNCHES_PAIRED if paired else _LAUNCHES
    return whole("launches", text, least=1)


def _check_paired(config: pytest.Config, *, paired: bool, injected: bool) -> None:
    """Nothing is learned from a comparison of stacks, or from what was slowed down on purpose."""
    writing = [
        flag(name)
        for name in ("update_baselines", "rebase", "prune_baselines")
        if config.getoption(name)
    ]
    if writing and (paired or injected):
        other = "--against" if paired else "--inject"
        raise ValueError(f"{writing[0]}: not with {other}: these are no times for a baseline")


def _step_payloads(text: str) -> tuple[int, ...]:
    """Those asked for; where nobody asked, fewer than of a collective, which takes less long."""
    usual = next(option.default for option in OPTIONS if option.name == "payloads")
    return STEP_PAYLOADS if text == usual else metrics.parse_payloads(text)


def _ranks(text: str) -> int | None:
    if not text or text == "all":
        return None
    if text.isdecimal() and int(text) < 2:
        raise ValueError(f"--ranks: {text}: fewer than two ranks are not a collective")
    return whole("ranks", text, least=2)


def _mesh(text: str) -> str:
    """The shape as it was given; a single rank is no mesh."""
    extents = checked("mesh", extents_of, text) if text else ()
    if extents and math.prod(extents) < 2:
        raise ValueError(f"--mesh: {text}: fewer than two ranks are not a collective")
    return "x".join(map(str, extents))


def _axes(text: str, mesh: str) -> str:
    """Names of axes of the mesh, in its order; all of them are the same as none."""
    if not text:
        return ""
    if not mesh:
        raise ValueError("--axes: there is no --mesh whose axes they could be")
    axes = str(checked("axes", lambda words: check_axes(words, mesh), text))
    return "" if len(axes) == len(extents_of(mesh)) else axes


def _all_strategies() -> tuple[str, ...]:
    of_collectives = (name for one in FRAMEWORKS.values() for name in one.strategies)
    return tuple(
        dict.fromkeys(
            (*of_collectives, *(name for one in WORKLOADS.values() for name in one.own_strategies))
        )
    )


def _frameworks(
    texts: Mapping[str, str], *, named: bool, pythons: Mapping[str, str]
) -> tuple[str, ...]:
    text, compiled = texts["frameworks"], bool(texts["topology"])
    wanted = words_of("frameworks", text, tuple(FRAMEWORKS)) if named else USUAL
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
    """The usual frameworks not `there` that have baselines, of any machine, below `root`.

    None where the options ask for `others`, or for something that baselines say nothing of.
    """
    stored = frozenset() if others else baselines.frameworks_below(root)
    return tuple(name for name in USUAL if name in stored and name not in there)


def how_to_get(framework: str) -> str:
    """What to do where a framework is missing."""
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
            known = ", ".join(FRAMEWORKS)
            raise ValueError(
                f"--python: {text!r}; accepted is FRAMEWORK=INTERPRETER, one of {known}"
            )
        pythons[framework] = program(python, "--python")
    return pythons


def _require_baselines(config: pytest.Config) -> bool:
    if config.getoption("require_baselines"):
        return True
    text = str(config.getini("busbw_require_baselines")).lower()
    if text in ("", "auto"):
        return bool(os.environ.get("CI"))
    if text not in ("true", "false"):
        raise ValueError(f"busbw_require_baselines: {text!r}; accepted are true, false and auto")
    return text == "true"


def _accept_regression(config: pytest.Config) -> str:
    reason = _reason(config, "accept_regression")
    if reason and config.getoption("update_baselines") != "all":
        raise ValueError("--accept-regression: needs --update-baselines, which takes slower times")
    return reason


def _reason(config: pytest.Config, name: str) -> str:
    """Why, in somebody's words: it goes into the files' history. Empty where it is not asked."""
    given = config.getoption(name)
    if given is not None and not given.strip():
        raise ValueError(f"{flag(name)}: {given!r}; accepted is a reason in words")
    return " ".join(given.split()) if given else ""
