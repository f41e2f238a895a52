"""The folders and files that options name, checked before anything is started or written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import busbw
from busbw import extensions, storage
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_folder
from busbw.report.figures import is_csv
from busbw.report.results import is_results

from .arguments import expand_home
from .errors import usage_error

# The folder of the history without --history.
HISTORY = "BUSBW_HISTORY"

# What --results=- names.
STANDARD_OUTPUT = Path("-")

_PACKAGE = Path(busbw.__file__).parent


def shipped_folder(name: str) -> Path:
    """Return a folder that busbw ships and never writes to.

    The name is ``perf``, for the tests that measure, or ``baselines``, for published
    figures and other baselines.
    """
    installed = _PACKAGE / {"perf": "perf", "baselines": "shipped_baselines"}[name]
    return installed if installed.is_dir() else _PACKAGE.parent / name


def baselines_folder(root: Path, values: Mapping[str, Any]) -> Path:
    """Return the folder of baselines; one that is named exists, or will be written."""
    folder = root / str(values.get("baselines", "baselines"))
    updates, prunes = ("update_baselines" in values, "prune_baselines" in values)
    with usage_error(BaselineError, storage.OutputError, where="--baselines: "):
        check_folder(
            folder,
            may_be_missing="baselines" not in values or updates,
            is_written=updates or prunes,
            hint="; --update-baselines makes it",
        )
    return folder


def history_folder(root: Path, values: Mapping[str, Any]) -> Path | None:
    """Return the folder of the history, None for none; it is not among the baselines."""
    text, baselines = values.get("history") or os.environ.get(HISTORY, ""), values["baselines"]
    if not text:
        return None
    with usage_error(ValueError, where=f"{'--history' if 'history' in values else HISTORY}: "):
        path = root / expand_home(text)
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(baselines)):
            raise ValueError(f"{path} is in {baselines}, which holds baselines only")
        storage.check_folder(path)
    return path


def is_named_csv(name: str) -> bool:
    return name.lower().endswith(".csv")


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A file that shows a session, requested by the option of its name.

    `kind` names an earlier file, which `is_kind` recognizes by its text. `missing` says what has to
    be installed, "" for nothing. `text` makes the file of a session that was judged.
    """

    kind: str
    is_kind: Callable[[str], bool]
    missing: str
    text: Callable[[Any], str]


def view_of(name: str) -> View:
    """Load a view, which an extension has in its table VIEWS."""
    view: View = extensions.table("VIEWS", name)[name]()
    return view


def outputs(values: Mapping[str, Any], other_outputs: Mapping[str, str]) -> dict[str, Path]:
    """Check the files that a session writes; return them by the name of the option.

    Each is another file, none of `other_outputs` by option, and replaces nothing but a file of its
    own kind. Raises UsageError.
    """
    taken = {Path(os.path.realpath(name)): option for option, name in other_outputs.items()}
    paths: dict[str, Path] = {}
    for name in ("results", *extensions.names("VIEWS")):
        text = values.get(name)
        if text == str(STANDARD_OUTPUT) and name == "results":
            paths[name] = STANDARD_OUTPUT
        elif text:
            with usage_error(ValueError, where=f"--{name}: "):
                path = _output(name, Path(text).absolute(), values["baselines"])
                if path in taken:
                    raise ValueError(f"{path} is the file of {taken[path]}, too")
                paths[name], taken[path] = path, f"--{name}"
    return paths


def _output(name: str, path: Path, baselines: Path) -> Path:
    """Return the path of a file that may be written. Raises ValueError."""
    if name == "results":
        is_kind = is_csv if is_named_csv(path.name) else is_results
        storage.check_output(path, kind="earlier results of busbw", is_kind=is_kind)
    else:
        view = view_of(name)
        if view.missing:
            raise ValueError(view.missing)
        if path.name == "-":
            raise ValueError("expected a file, got '-', which is for --results")
        storage.check_output(path, kind=view.kind, is_kind=view.is_kind)
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(baselines)):
        raise ValueError(f"{path} is in {baselines}, which holds baselines only")
    return real
