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

from . import homes
from .errors import usage_error
from .option import Given

# Names the folder of the history where --history does not.
HISTORY = "BUSBW_HISTORY"

# What --results=- names.
STANDARD_OUTPUT = Path("-")

_PACKAGE = Path(busbw.__file__).parent

# With these options baselines are written.
WRITING = ("update_baselines", "prune_baselines")


def shipped_folder(name: str) -> Path:
    """Return a folder that busbw ships and never writes to.

    The name is ``perf``, for the tests that measure, or ``baselines``, for published
    figures and other baselines.
    """
    installed = _PACKAGE / {"perf": "perf", "baselines": "shipped_baselines"}[name]
    return installed if installed.is_dir() else _PACKAGE.parent / name


def stack_cache_of(text: str | None) -> Path:
    """Raises ValueError for ``none``, and where the user has no cache folder."""
    try:
        found = homes.cache_folder(text or "")
    except ValueError as error:
        raise ValueError(f"--stack-cache: {error}") from error
    if found is None:
        raise ValueError("--stack-cache: expected a folder, got 'none'")
    return found


def baselines_of(given: Given, text: str | None) -> Path:
    """The default folder need not exist yet; one that is named exists, or will be written."""
    root = given.root / (text or "baselines")
    with usage_error(BaselineError, storage.OutputError, where="--baselines: "):
        check_folder(
            root,
            may_be_missing=not text or bool(given.options["update_baselines"]),
            is_written=any(given.options[name] for name in WRITING),
            hint="; --update-baselines makes it",
        )
    return root


def history_of(given: Given, texts: Mapping[str, Any], stored: Path) -> Path | None:
    """Return the folder of the history, None for none; it is not among the baselines."""
    text = texts["history"] or os.environ.get(HISTORY, "")
    if not text:
        return None
    with usage_error(ValueError, where=f"{'--history' if texts['history'] else HISTORY}: "):
        path = given.root / homes.expanded(text)
        if stored.resolve() in (path.resolve(), *path.resolve().parents):
            raise ValueError(f"{path} is in {stored}, which holds baselines only")
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
    """Load a view: metrics, or a view that an extension has in its table VIEWS."""
    make = _metrics if name == "metrics" else extensions.table("VIEWS", name)[name]
    view: View = make()
    return view


def _metrics() -> View:
    from busbw.report import prometheus

    return View(
        kind="earlier metrics of busbw",
        is_kind=prometheus.is_metrics,
        missing=prometheus.missing_for_metrics(),
        text=lambda judged: prometheus.metrics(
            tuple(judged.verdicts.values()), judged.session, judged.collected.began
        ),
    )


def outputs_of(given: Given, texts: Mapping[str, Any], root: Path) -> dict[str, Path]:
    """Check the files that a session writes; return them by the name of the option.

    Each is another file, and replaces nothing but a file of its own kind. Raises UsageError.
    """
    taken, paths = dict(given.outputs), {}
    for name in ("results", "metrics", *extensions.names("VIEWS")):
        if texts[name]:
            with usage_error(ValueError, where=f"--{name}: "):
                paths[name] = _output(name, texts[name], root, taken)
            taken |= {f"--{name}": texts[name]}
    return paths


def _output(name: str, text: str, root: Path, taken: Mapping[str, str]) -> Path:
    view = None if name == "results" else view_of(name)
    if view and view.missing:
        raise ValueError(view.missing)
    kind = view.kind if view else "earlier results of busbw"
    is_kind = view.is_kind if view else is_csv if is_named_csv(text) else is_results
    if text == str(STANDARD_OUTPUT):
        if name == "results":
            return STANDARD_OUTPUT
        raise ValueError("'-'; accepted is a file: --results alone may be '-'")
    path = Path(text).absolute()
    storage.check_output(path, kind=kind, is_kind=is_kind)
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(root)):
        raise ValueError(f"{path} is in {root}, which holds baselines only")
    for option, other in taken.items():
        if real == Path(os.path.realpath(other)):
            raise ValueError(f"{path} is the file of {option}, too")
    return path
