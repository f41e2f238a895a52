"""Make the Options of a session from a command line and from the settings of an ini file."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw import extensions
from busbw.baselines.store import frameworks_on_any_machine
from busbw.driver.transport import Hosts
from busbw.frameworks import DEFAULT_FRAMEWORKS, FRAMEWORKS
from busbw.model.machine import axis_names, canonical_axes, mesh_shape

from . import files
from .option import UsageError, check_combination, usage_error
from .options import OPTIONS, Options

# How many launches a session plans without --launches: with one stack, and of each of two stacks.
_LAUNCHES = 3
_LAUNCHES_OF_PAIRS = 6


# A parser without defaults: its result lacks the options that were not passed.
_PARSER = argparse.ArgumentParser(
    add_help=False,
    allow_abbrev=False,
    argument_default=argparse.SUPPRESS,
    fromfile_prefix_chars="@",
    exit_on_error=False,
)
for _option in OPTIONS.values():
    _PARSER.add_argument(_option.flag, **_option.arguments)


@usage_error(ValueError, argparse.ArgumentError)
def read_options(
    words: Sequence[str],
    root: Path,
    settings: Mapping[str, Sequence[str]] | None = None,
    other_outputs: Mapping[str, str] | None = None,
    **other_fields: Any,
) -> Options:
    """Return the checked Options of a session.

    Args:
        words: The words of the command line; words that are not options of sessions are ignored.
        root: The folder to which the paths of baselines and of a history are relative.
        settings: The texts in the ini file by option; an option that may be repeated has several.
        other_outputs: The files that pytest and its plugins write, by the option that names them.
        other_fields: The values of fields of Options that the command line does not have, by field.

    Raises:
        UsageError: An option is wrong; the message says what was expected.

    """
    values = _option_values(words, settings or {})
    values["baselines"] = files.checked_baselines_folder(root, values)
    values["history"] = files.checked_history_folder(root, values)
    values["outputs"] = files.checked_outputs(values, other_outputs or {})
    values |= _framework_fields(values)
    values |= _rank_fields(values)
    # `values` keeps the options of extensions: the transport of --hosts reads some of them later.
    extra = {name: values[name] for name in extensions.declared_names("OPTIONS") if name in values}
    options = Options(
        **{name: value for name, value in values.items() if name not in extra},
        extra=extra,
        **other_fields,
    )
    launches = _LAUNCHES_OF_PAIRS if options.is_paired else _LAUNCHES
    # A stored time is the median of all planned launches.
    is_automatic = options.launches == 0 and not options.is_paired and not options.update_baselines
    return replace(options, launches=0 if is_automatic else options.launches or launches)


def _option_values(words: Sequence[str], settings: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the parsed values of the options that were passed or have a setting, by option.

    A passed option replaces its setting unless it may be repeated, and removes the settings of the
    options that it excludes.
    """
    for word in words:
        # argparse of Python 3.11 makes an empty list of the value of ``--option=--``.
        if word.startswith("--") and word.endswith("=--"):
            raise UsageError(f"{word[:-3]}: expected a value, got '--'")
    passed_options = [OPTIONS[name] for name in vars(_PARSER.parse_known_args(words)[0])]
    replaced = [o.name for o in passed_options if o.arguments.get("action") != "append"]
    ignored = {"require_baselines", *replaced}.union(*(o.excludes for o in passed_options))
    lines = [
        f"{OPTIONS[name].flag}={text}"
        for name, texts in settings.items()
        for text in texts
        if name not in ignored
    ]
    values = vars(_PARSER.parse_known_args([*lines, *words])[0])
    check_combination(passed_options, values)
    values["require_baselines"] = "require_baselines" in values or _requires_baselines(
        *settings.get("require_baselines", ())
    )
    stacks = values.get("against", ())
    values["compares_with_locked_stack"] = {} in stacks
    values["against"] = [pair for stack in stacks for pair in stack.items()]
    for name in ("python", "against", "against_env", "try_env"):
        values[name] = dict(values.get(name, ()))
    if values["compares_with_locked_stack"] and (
        values["against"] or values["against_env"] or values["try_env"]
    ):
        raise ValueError("--against=baseline: expected no other stack: the lock says which")
    if "accept_regression" in values and values["update_baselines"] != "all":
        raise ValueError("--accept-regression: expected --update-baselines with it")
    return values


def _requires_baselines(text: str = "auto") -> bool:
    """Return whether the setting `text` requires baselines; ``auto`` does in CI.

    Raises ValueError for a text other than ``true``, ``false`` and ``auto``.
    """
    if text not in ("auto", "true", "false"):
        raise ValueError(f"busbw_require_baselines: expected true, false or auto, got {text!r}")
    return bool(os.environ.get("CI")) if text == "auto" else text == "true"


def _framework_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of Options that say which frameworks are measured, by field.

    Raises ValueError if no framework is installed, or if --frameworks names one that is not.
    """
    names = values.get("frameworks", ())
    installed = tuple(
        name
        for name in names or DEFAULT_FRAMEWORKS
        if name in values["python"]
        or FRAMEWORKS[name].is_scripted
        or importlib.util.find_spec(name)
    )
    for name in names:
        if name not in installed:
            raise ValueError(f"--frameworks: {name} is not installed here; {how_to_install(name)}")
    if not installed:
        raise ValueError(f"neither jax nor tensorflow is installed here; {how_to_install('jax')}")
    # The frameworks that have baselines of any machine. If options select frameworks, a framework
    # that is not installed is no surprise.
    is_selected = names or values["compares_with_locked_stack"] or values["against"]
    with_baselines = frozenset() if is_selected else frameworks_on_any_machine(values["baselines"])
    absent_frameworks = tuple(
        name for name in DEFAULT_FRAMEWORKS if name in with_baselines and name not in installed
    )
    return {
        "frameworks": installed,
        "names_frameworks": bool(names),
        "absent_frameworks": absent_frameworks,
    }


def how_to_install(framework: str) -> str:
    return (
        f'pip install "busbw[{FRAMEWORKS[framework].pip_extra}]", or name an interpreter that has '
        f"it: --python={framework}=PATH"
    )


def _rank_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields `ranks`, `processes`, `remote` and `axes` of Options.

    Raises ValueError if the ranks, the processes, the mesh and its axes contradict each other.
    """
    remote = hosts_of(values)
    processes = values.get("processes") or (remote.count if remote is not None else 1)
    ranks_of_process, ranks, mesh = (
        values.get("ranks_per_process"),
        values.get("ranks"),
        values.get("mesh", ""),
    )
    if processes == 1 and ranks_of_process:
        raise ValueError("--ranks-per-process: expected several --processes, such as --processes=2")
    ranks_of_mesh = math.prod(mesh_shape(mesh)) if mesh else None
    if processes > 1 and (ranks_of_process or not ranks_of_mesh or ranks_of_mesh % processes):
        expected_ranks = processes * (ranks_of_process or 1)
    else:
        expected_ranks = ranks_of_mesh
    if expected_ranks is not None and ranks not in (None, expected_ranks):
        raise ValueError(
            f"--ranks: expected {expected_ranks}, of the mesh or all processes, got {ranks}"
        )
    if ranks_of_mesh not in (None, expected_ranks):
        raise ValueError(
            f"--mesh: expected {expected_ranks} ranks, those of all processes, got {mesh}"
        )
    axes = ""
    if "axes" in values:
        with usage_error(ValueError, where="--axes: "):
            axes = canonical_axes(values["axes"], mesh)
        # A collective along all axes is the same as a collective without --axes.
        axes = axes if len(axis_names(axes)) < len(mesh_shape(mesh)) else ""
    return {
        "ranks": ranks if processes == 1 else expected_ranks,
        "processes": processes,
        "remote": remote,
        "axes": axes,
    }


def hosts_of(values: Mapping[str, Any]) -> Hosts | None:
    """Return the hosts that --hosts or --cluster names in `values`, None without these options.

    Raises ValueError if the hosts cannot be found, or contradict other options.
    """
    return next((hook(values, os.environ) for hook in extensions.load_functions("hosts_of")), None)
