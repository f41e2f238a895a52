"""Make the Options of a session from a command line and from the settings of an ini file.

The folders and files that options name are checked here, before anything is started or written.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import busbw
from busbw import extensions, storage
from busbw.baselines.document import BaselineError
from busbw.baselines.store import all_frameworks_with_baselines, check_folder
from busbw.driver.transport import RemoteHosts
from busbw.frameworks import DEFAULT_FRAMEWORKS, FRAMEWORKS
from busbw.model.machine import canonical_axes, mesh_shape

from .option import as_usage_error, check_combination, expand_home
from .options import OPTIONS, Options
from .record import load_output_file_kind

_PACKAGE_FOLDER = Path(busbw.__file__).parent

# How many launches a session plans without --launches: with one stack, and of each of two stacks.
_DEFAULT_LAUNCHES = 3
_DEFAULT_PAIRED_LAUNCHES = 6


# A parser without defaults: its result lacks the options that were not passed.
_PARSER = argparse.ArgumentParser(
    add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS, exit_on_error=False
)
for _option in OPTIONS.values():
    _PARSER.add_argument(_option.flag, **_option.arguments)


@as_usage_error(argparse.ArgumentError)
def parse_options(words: Iterable[str]) -> dict[str, Any]:
    """Return the parsed values of the options in `words`, by the name of the option.

    For example, ``["--ranks=4"]`` becomes ``{"ranks": 4}``. Options that are not in `words` are
    missing from the result. Raises UsageError for a value that cannot be parsed. Whether the
    options fit together is not checked.
    """
    return vars(_PARSER.parse_args([*words]))


@as_usage_error(ValueError)
def make_options(
    passed_values: Mapping[str, Any],
    root: Path,
    settings: Mapping[str, Sequence[str]] | None = None,
) -> Options:
    """Return the Options of a session, after checking that the options fit together.

    Args:
        passed_values: The parsed values of the options on the command line, by the name of the
            option, as `parse_options` returns them.
        root: The folder to which the paths of baselines and of a history are relative.
        settings: The unparsed texts of the settings in the ini file, by the name of the option. An
            option that may be repeated can have several texts. None without settings.

    Raises:
        UsageError: An option is wrong; the message says which value was expected.

    """
    values = _merge_settings(passed_values, settings or {})
    values["baselines"] = _checked_baselines_folder(root, values)
    values["history"] = _checked_history_folder(root, values)
    values["outputs"] = _checked_output_paths(values)
    values |= _find_and_check_frameworks(values)
    values |= _rank_fields(values)
    # `values` keeps the options of extensions: the transport of --hosts reads some of them later.
    extra = {
        name: values[name]
        for name in extensions.names_in_extension_tables("OPTIONS")
        if name in values
    }
    options = Options(
        **{name: value for name, value in values.items() if name not in extra}, extra=extra
    )
    launches = _DEFAULT_PAIRED_LAUNCHES if options.is_paired else _DEFAULT_LAUNCHES
    # A stored time is the median of all planned launches, and only a history decides a case by a
    # single launch.
    needs_all_launches = options.is_paired or options.update_baselines or not options.history
    return replace(options, launches=options.launches or (launches if needs_all_launches else 0))


def _merge_settings(
    passed_values: Mapping[str, Any], settings: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the parsed values of the options that were passed or have a setting, by name.

    `passed_values` are the parsed values from the command line, and `settings` are the unparsed
    texts from the ini file, both by the name of the option. A passed option replaces its setting.
    Only --python adds its interpreters to the interpreters of the setting. The settings of options
    that a passed option excludes are ignored. Raises UsageError or ValueError for a wrong option.
    """
    # argparse of Python 3.11 makes an empty list of the value of ``--option=--``.
    if [] in passed_values.values():
        raise ValueError("expected a value of each option, got '--'")
    passed_options = [OPTIONS[name] for name in passed_values]
    ignored = {"require_baselines", *passed_values}.union(*(o.excludes for o in passed_options))
    stored_values = parse_options(
        f"{OPTIONS[name].flag}={text}"
        for name, texts in settings.items()
        for text in texts
        if name == "python" or name not in ignored
    )
    values = {**stored_values, **passed_values}
    values["python"] = [*stored_values.get("python", ()), *passed_values.get("python", ())]
    check_combination(passed_options, values)
    values["require_baselines"] = "require_baselines" in values or _parse_require_baselines(
        *settings.get("require_baselines", ())
    )
    values["compares_with_locked_stack"] = {} in values.get("against", ())
    for name in ("python", "against", "against_env", "try_env"):
        values[name] = {key: text for pair in values.get(name, ()) for key, text in pair.items()}
    if values["compares_with_locked_stack"] and (
        values["against"] or values["against_env"] or values["try_env"]
    ):
        raise ValueError("--against=baseline: expected no other stack: the lock says which")
    return values


def _parse_require_baselines(text: str = "auto") -> bool:
    """Return whether each case must have a baseline, from the text of ``busbw_require_baselines``.

    ``auto`` requires baselines if the environment variable CI is set. Raises ValueError for a text
    other than ``true``, ``false`` and ``auto``.
    """
    if text not in ("auto", "true", "false"):
        raise ValueError(f"busbw_require_baselines: expected true, false or auto, got {text!r}")
    return bool(os.environ.get("CI")) if text == "auto" else text == "true"


def shipped_folder(name: str) -> Path:
    """Return the path of a folder that comes with busbw and that busbw never writes to.

    Args:
        name: ``perf`` for the folder with the tests that measure, ``baselines`` for the folder with
            published bandwidths and other baselines.

    """
    installed = _PACKAGE_FOLDER / {"perf": "perf", "baselines": "shipped_baselines"}[name]
    return installed if installed.is_dir() else _PACKAGE_FOLDER.parent / name


def _checked_baselines_folder(root: Path, option_values: Mapping[str, Any]) -> Path:
    """Return the path of the folder of baselines, after checking that the folder can be used.

    The path is the value of --baselines in `option_values`, or else ``baselines``. A relative path
    is a path in `root`. Raises UsageError in these cases:

    - --baselines names a missing folder, and there is no --update-baselines to make the folder.
    - The folder cannot be read.
    - An option writes baselines, and the folder cannot be written.
    """
    folder = root / str(option_values.get("baselines", "baselines"))
    updates = "update_baselines" in option_values
    with as_usage_error(BaselineError, storage.OutputError, where="--baselines: "):
        check_folder(
            folder,
            may_be_missing="baselines" not in option_values or updates,
            must_be_writable=updates or "prune_baselines" in option_values,
            missing_hint="; --update-baselines makes it",
        )
    return folder


def _checked_history_folder(root: Path, option_values: Mapping[str, Any]) -> Path | None:
    """Return the path of the folder of the history; None for a session without a history.

    The path is the value of --history in `option_values`, or else of the environment variable
    BUSBW_HISTORY. A relative path is a path in `root`. Raises UsageError if the folder cannot be
    written.
    """
    text = option_values.get("history") or os.environ.get("BUSBW_HISTORY", "")
    if not text:
        return None
    with as_usage_error(ValueError, where="--history: "):
        path = root / expand_home(text)
        storage.check_writable_folder(path)
    return path


def _checked_output_paths(option_values: Mapping[str, Any]) -> dict[str, Path]:
    """Return the paths of the files that options request, such as --results, by option name.

    `option_values` are the parsed values of the options that have a value, by the name of the
    option. Raises UsageError if two options name the same file, if a file cannot be written, if an
    existing file has contents of another kind, or if a library that makes the file is missing.
    """
    paths: dict[str, Path] = {}
    for name in ("results", *extensions.names_in_extension_tables("VIEWS")):
        if name in option_values:
            with as_usage_error(ValueError, where=f"--{name}: "):
                path = Path(os.path.realpath(option_values[name]))
                if path in paths.values():
                    raise ValueError(f"another option writes {path}, too")
                paths[name] = path
                view = load_output_file_kind(name)
                storage.check_output_file(
                    paths[name], kind=view.kind, recognizes_text=view.recognizes_text
                )
    return paths


def _find_and_check_frameworks(option_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of three fields of Options, by the name of the field.

    - `frameworks`: the installed frameworks to measure.
    - `names_frameworks`: whether --frameworks named the frameworks.
    - `absent_frameworks`: the frameworks that have baselines and are not installed.

    Raises ValueError if no framework is installed, or if --frameworks names a framework that is not
    installed.
    """
    names = option_values.get("frameworks", ())
    requested = names or DEFAULT_FRAMEWORKS
    installed = tuple(
        name
        for name in requested
        if name in option_values["python"]
        or FRAMEWORKS[name].is_scripted
        or importlib.util.find_spec(name)
    )
    missing = [name for name in requested if name not in installed]
    if missing and (names or not installed):
        raise ValueError(f"{missing[0]} is not installed here; {how_to_install(missing[0])}")
    # The frameworks that have baselines of any machine. If options select frameworks, a framework
    # that is not installed is no surprise.
    is_selected = names or option_values["compares_with_locked_stack"] or option_values["against"]
    with_baselines = (
        frozenset() if is_selected else all_frameworks_with_baselines(option_values["baselines"])
    )
    absent_frameworks = tuple(
        name for name in DEFAULT_FRAMEWORKS if name in with_baselines and name not in installed
    )
    return {
        "frameworks": installed,
        "names_frameworks": bool(names),
        "absent_frameworks": absent_frameworks,
    }


def how_to_install(framework: str) -> str:
    """Return a phrase for messages that says how to install `framework`, such as a pip command."""
    return (
        f'pip install "busbw[{FRAMEWORKS[framework].pip_extra}]", or name an interpreter that has '
        f"it: --python={framework}=PATH"
    )


def _rank_fields(option_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of four fields of Options, by the name of the field.

    - `ranks`: the number of ranks of all processes together; None if no option says how many.
    - `processes`: the number of processes that measure together.
    - `remote`: the hosts that options name; None to measure on this host.
    - `axes`: the axes of --axes in the usual form; empty for all axes.

    Raises ValueError if the processes cannot have equally many ranks, or if the value of --axes
    names an axis that the mesh does not have.
    """
    remote = requested_hosts(option_values)
    mesh = option_values.get("mesh", "")
    processes = option_values.get("processes") or (remote.count if remote is not None else 1)
    ranks = math.prod(mesh_shape(mesh)) if mesh else option_values.get("ranks")
    if processes == 1 and "ranks_per_process" in option_values:
        raise ValueError("--ranks-per-process: expected several --processes, such as --processes=2")
    if processes > 1:
        ranks = ranks or processes * option_values.get("ranks_per_process", 1)
        if ranks % processes:
            raise ValueError(f"--processes: expected a divisor of {ranks} ranks, got {processes}")
    axes = canonical_axes(option_values["axes"], mesh) if "axes" in option_values else ""
    return {"ranks": ranks, "processes": processes, "remote": remote, "axes": axes}


def requested_hosts(option_values: Mapping[str, Any]) -> RemoteHosts | None:
    """Return the hosts that --hosts or --cluster names; None without these options.

    `option_values` are the parsed values of options, by the name of the option. Raises ValueError
    if the names of hosts cannot be determined, or contradict other options.
    """
    return next(
        (
            hook(option_values, os.environ)
            for hook in extensions.load_declared_functions("hosts_of")
        ),
        None,
    )
