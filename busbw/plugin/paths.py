"""Folders and files that options name: what may be read there, and what must not be overwritten.

Looks only, and writes nothing. A folder or file that must not be used is a ValueError, which the
settings turn into a usage error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from busbw import writing
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_folder
from busbw.driver.parallel import cache_folder
from busbw.history.files import HistoryError, check
from busbw.report.page.html import is_page, missing_for_pages
from busbw.report.results import is_results

# Names the folder of the history where --history does not.
HISTORY = "BUSBW_HISTORY"

# With these options baselines are written.
WRITING = ("update_baselines", "rebase", "prune_baselines")
# pytest's own output files, and the options that name them.
_OF_PYTEST = {
    "xmlpath": "--junitxml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
}


def stack_cache_of(text: str) -> Path:
    found = cache_folder(text)
    if found is None:
        raise ValueError("--stack-cache: 'none'; accepted is a folder")
    return found


def baselines_of(config: pytest.Config, text: str) -> Path:
    """The default folder need not exist yet; one that is named exists, or will be written."""
    if config.getoption("baselines") == "":
        raise ValueError("--baselines: accepted is a folder")
    root = config.rootpath / (text or "baselines")
    try:
        check_folder(
            root,
            may_be_missing=not text or bool(config.getoption("update_baselines")),
            is_written=any(config.getoption(name) for name in WRITING),
            hint="; --update-baselines makes it",
        )
    except BaselineError as error:
        raise ValueError(f"--baselines: {error}") from error
    return root


def history_of(config: pytest.Config, texts: Mapping[str, str], stored: Path) -> Path | None:
    """None for none, and where nothing is measured. Files of baselines are none of a history."""
    text = texts["history"] or os.environ.get(HISTORY, "")
    if not text or texts["topology"]:
        return None
    what = "--history" if texts["history"] else HISTORY
    path = config.rootpath / os.path.expanduser(text)
    if stored.resolve() in (path.resolve(), *path.resolve().parents):
        raise ValueError(f"{what}: {path} is in {stored}, which holds baselines only")
    try:
        check(path)
    except HistoryError as error:
        raise ValueError(f"{what}: {error}") from error
    return path


def results_of(config: pytest.Config, text: str, root: Path) -> Path | None:
    return _output(config, text, root, "--results", "earlier results of busbw", is_results)


def page_of(config: pytest.Config, texts: Mapping[str, str], root: Path) -> Path | None:
    if not texts["page"]:
        return None
    missing = missing_for_pages()
    if missing:
        raise ValueError(f"--page: {missing}")
    path = _output(config, texts["page"], root, "--page", "an earlier page", is_page)
    results = texts["results"]
    if path is not None and results and path == Path(results).absolute():
        raise ValueError(f"--page: {path} is the file of --results, too")
    return path


def _output(
    config: pytest.Config,
    text: str,
    root: Path,
    option: str,
    what: str,
    ours: Callable[[str], bool],
) -> Path | None:
    """A file that replaces an earlier one of the same kind: no baseline, no other file."""
    if not text:
        return None
    path = Path(text).absolute()
    try:
        writing.check(path, what=what, ours=ours)
    except writing.Refused as error:
        raise ValueError(f"{option}: {error}") from error
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(root)):
        raise ValueError(f"{option}: {path} is in {root}, which holds baselines only")
    for other_option, other in _files_of_pytest(config):
        if real == Path(os.path.realpath(other)):
            raise ValueError(f"{option}: {path} is the file of {other_option}, too")
    return path


def _files_of_pytest(config: pytest.Config) -> Iterator[tuple[str, str]]:
    for name, option in _OF_PYTEST.items():
        found = config.getoption(name, None)
        # pytest-benchmark opens its file at once.
        found = getattr(found, "name", found)
        if isinstance(found, str) and found:
            yield option, found
