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
from busbw.baselines.store import check_folder
from busbw.report.figures import is_results_csv
from busbw.report.results import is_results_json

from .option import expand_home, usage_error

# The environment variable that names the folder of the history if --history does not.
HISTORY_VARIABLE = "BUSBW_HISTORY"

_PACKAGE = Path(busbw.__file__).parent


def shipped_folder(name: str) -> Path:
    """Return a folder that busbw ships and never writes to.

    Args:
        name: ``perf`` is the folder with the tests that measure, ``baselines`` is the folder with
            published figures and other baselines.

    """
    installed = _PACKAGE / {"perf": "perf", "baselines": "shipped_baselines"}[name]
    return installed if installed.is_dir() else _PACKAGE.parent / name


def checked_baselines_folder(root: Path, values: Mapping[str, Any]) -> Path:
    """Return the folder of baselines, relative to `root`, from the `values` of the options.

    Raises UsageError if --baselines names a missing folder that no option writes, if the folder
    cannot be read, or if it cannot be written although an option writes it.
    """
    folder = root / str(values.get("baselines", "baselines"))
    updates = "update_baselines" in values
    with usage_error(BaselineError, storage.OutputError, where="--baselines: "):
        check_folder(
            folder,
            may_be_missing="baselines" not in values or updates,
            is_written=updates or "prune_baselines" in values,
            missing_hint="; --update-baselines makes it",
        )
    return folder


def checked_history_folder(root: Path, values: Mapping[str, Any]) -> Path | None:
    """Return the folder of the history, relative to `root`; None for a session without a history.

    Raises UsageError if the folder is in the folder of baselines, or cannot be written.
    """
    text, baselines = (
        values.get("history") or os.environ.get(HISTORY_VARIABLE, ""),
        values["baselines"],
    )
    if not text:
        return None
    with usage_error(
        ValueError, where=f"{'--history' if 'history' in values else HISTORY_VARIABLE}: "
    ):
        path = root / expand_home(text)
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(baselines)):
            raise ValueError(f"{path} is in {baselines}, which holds baselines only")
        storage.check_writable_folder(path)
    return path


def is_named_csv(name: str) -> bool:
    return name.lower().endswith(".csv")


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A kind of file that shows a session, such as a page; an option of the same name requests it.

    `kind` is a phrase for an earlier file of this kind, such as ``an earlier page``;
    `recognizes_text` says whether the text of a file is of this kind. `missing` says what must be
    installed to make the file, "" if nothing is missing. `text` is a function that returns the
    file's text for a JudgedSession.
    """

    kind: str
    recognizes_text: Callable[[str], bool]
    missing: str
    text: Callable[[Any], str]


def load_view(name: str) -> View:
    """Load the View that an extension declares for the option `name` in its table VIEWS."""
    view: View = extensions.load_table("VIEWS", name)[name]()
    return view


def checked_outputs(values: Mapping[str, Any], other_outputs: Mapping[str, str]) -> dict[str, Path]:
    """Return the files that a session writes, by the option that names each file.

    `other_outputs` has the files that other programs write in the same session, by option. Raises
    UsageError if two options name the same file, or if a file cannot be written or holds something
    of another kind.
    """
    taken = {Path(os.path.realpath(name)): option for option, name in other_outputs.items()}
    paths: dict[str, Path] = {}
    for name in ("results", *extensions.declared_names("VIEWS")):
        text = values.get(name)
        if text:
            with usage_error(ValueError, where=f"--{name}: "):
                path = _checked_output(name, Path(text).absolute(), values["baselines"])
                if path in taken:
                    raise ValueError(f"{path} is the file of {taken[path]}, too")
                paths[name], taken[path] = path, f"--{name}"
    return paths


def _checked_output(option: str, path: Path, baselines: Path) -> Path:
    """Return the real path of the file that `option` names.

    Raises ValueError if the file is in the folder `baselines`, cannot be written or holds something
    of another kind, or if a library that makes the file is missing.
    """
    if option == "results":
        recognizes_text = is_results_csv if is_named_csv(path.name) else is_results_json
        storage.check_output(path, kind="earlier results of busbw", recognizes_text=recognizes_text)
    else:
        view = load_view(option)
        if view.missing:
            raise ValueError(view.missing)
        storage.check_output(path, kind=view.kind, recognizes_text=view.recognizes_text)
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(baselines)):
        raise ValueError(f"{path} is in {baselines}, which holds baselines only")
    return real
