"""The folders and files that options name, checked before anything is started or written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from busbw import files
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_folder
from busbw.driver.parallel import cache_folder
from busbw.history.files import HistoryError, check
from busbw.report.figures import is_csv
from busbw.report.results import is_results

from .option import Given

# Names the folder of the history where --history does not.
HISTORY = "BUSBW_HISTORY"

# What --results=- names.
STANDARD_OUTPUT = Path("-")

# With these options baselines are written.
WRITING = ("update_baselines", "rebase", "prune_baselines")


def stack_cache_of(text: str) -> Path:
    found = cache_folder(text)
    if found is None:
        raise ValueError("--stack-cache: 'none'; accepted is a folder")
    return found


def baselines_of(given: Given, text: str) -> Path:
    """The default folder need not exist yet; one that is named exists, or will be written."""
    root = given.root / (text or "baselines")
    try:
        check_folder(
            root,
            may_be_missing=not text or bool(given.options["update_baselines"]),
            is_written=any(given.options[name] for name in WRITING),
            hint="; --update-baselines makes it",
        )
    except BaselineError as error:
        raise ValueError(f"--baselines: {error}") from error
    return root


def history_of(given: Given, texts: Mapping[str, str], stored: Path) -> Path | None:
    """None for none, and where nothing is measured. Files of baselines are none of a history."""
    text = texts["history"] or os.environ.get(HISTORY, "")
    if not text or texts["topology"]:
        return None
    what = "--history" if texts["history"] else HISTORY
    path = given.root / os.path.expanduser(text)
    if stored.resolve() in (path.resolve(), *path.resolve().parents):
        raise ValueError(f"{what}: {path} is in {stored}, which holds baselines only")
    try:
        check(path)
    except HistoryError as error:
        raise ValueError(f"{what}: {error}") from error
    return path


def results_of(given: Given, texts: Mapping[str, str], root: Path) -> Path | None:
    if texts["results"] == str(STANDARD_OUTPUT):
        return STANDARD_OUTPUT
    is_ours = is_csv if is_named_csv(texts["results"]) else is_results
    return _output(given, texts, "results", root, "earlier results of busbw", is_ours)


def is_named_csv(name: str) -> bool:
    return name.lower().endswith(".csv")


def metrics_of(given: Given, texts: Mapping[str, str], root: Path) -> Path | None:
    if not texts["metrics"]:
        return None
    from busbw.report.prometheus import is_metrics, missing_for_metrics

    missing = missing_for_metrics()
    if missing:
        raise ValueError(f"--metrics: {missing}")
    return _output(given, texts, "metrics", root, "earlier metrics of busbw", is_metrics)


def page_of(given: Given, texts: Mapping[str, str], root: Path) -> Path | None:
    if not texts["page"]:
        return None
    from busbw.page.html import is_page, missing_for_pages

    missing = missing_for_pages()
    if missing:
        raise ValueError(f"--page: {missing}")
    return _output(given, texts, "page", root, "an earlier page", is_page)


# Those that a session writes, in the order in which they are checked.
_OUTPUTS = ("results", "metrics", "page")


def _output(
    given: Given,
    texts: Mapping[str, str],
    name: str,
    root: Path,
    what: str,
    ours: Callable[[str], bool],
) -> Path | None:
    """A file that replaces an earlier one of the same kind: no baseline, no other file."""
    if not texts[name]:
        return None
    option, path = f"--{name}", Path(texts[name]).absolute()
    if texts[name] == str(STANDARD_OUTPUT):
        raise ValueError(f"{option}: '-'; accepted is a file: --results alone may be '-'")
    try:
        files.check(path, what=what, ours=ours)
    except files.Refused as error:
        raise ValueError(f"{option}: {error}") from error
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(root)):
        raise ValueError(f"{option}: {path} is in {root}, which holds baselines only")
    earlier = _OUTPUTS[: _OUTPUTS.index(name)]
    others = {**given.outputs, **{f"--{one}": texts[one] for one in earlier if texts[one]}}
    for other_option, other in others.items():
        if real == Path(os.path.realpath(other)):
            raise ValueError(f"{option}: {path} is the file of {other_option}, too")
    return path
