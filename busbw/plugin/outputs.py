"""What --results and --baselines name, looked at before anything is measured or started.

Raises ValueError with what was wrong and what is accepted; writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw import report, writing

# pytest's own files of a session: which options name them.
_OF_PYTEST = {
    "xmlpath": "--junitxml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
}


def results_of(config: pytest.Config, text: str, baselines: Path) -> Path | None:
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
    if real.is_relative_to(os.path.realpath(baselines)):
        raise ValueError(f"--results: {path} lies in {baselines}, which holds baselines only")
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
