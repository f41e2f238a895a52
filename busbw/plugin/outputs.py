"""What --results and --baselines name, looked at before anything is measured or started.

Raises ValueError with what was wrong and what is accepted; writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw import baselines, report, writing

# pytest's own files of a session: which options name them.
_OF_PYTEST = {
    "xmlpath": "--junitxml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
}
_DEFAULT = "baselines"
_WRITING = ("update_baselines", "rebase", "prune_baselines")


def baselines_of(config: pytest.Config, text: str) -> Path:
    """The folder of --baselines, relative to the root directory.

    Whoever names nothing may have none yet; a folder that is named is there, or will be written.
    """
    if config.getoption("baselines") == "":
        raise ValueError("--baselines: accepted is a folder")
    root = config.rootpath / (text or _DEFAULT)
    try:
        baselines.check_folder(
            root,
            may_be_missing=not text or bool(config.getoption("update_baselines")),
            is_written=any(config.getoption(name) for name in _WRITING),
            hint="; --update-baselines makes it",
        )
    except baselines.BaselineError as error:
        raise ValueError(f"--baselines: {error}") from error
    return root


def results_of(config: pytest.Config, text: str, root: Path) -> Path | None:
    """The file of --results; None for no text.

    It replaces earlier results and nothing else: no baseline, no other file of anybody.
    """
    if not text:
        return None
    path = Path(text).absolute()
    try:
        writing.check(path, what="earlier results of busbw", ours=report.is_results)
    except writing.Refused as error:
        raise ValueError(f"--results: {error}") from error
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(root)):
        raise ValueError(f"--results: {path} lies in {root}, which holds baselines only")
    for option, other in _others(config):
        if real == Path(os.path.realpath(other)):
            raise ValueError(f"--results: {path} is the file of {option}, too")
    return path


def _others(config: pytest.Config) -> Iterator[tuple[str, str]]:
    for name, option in _OF_PYTEST.items():
        found = config.getoption(name, None)
        # pytest-benchmark opens its file at once.
        found = getattr(found, "name", found)
        if isinstance(found, str) and found:
            yield option, found
