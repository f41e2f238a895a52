"""All that one baseline file holds, wherever it lies: for those who read one by its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from busbw.model import Baseline, EnvironmentKey

from .entries import baseline_of, case_of
from .timed import read


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """Where the file's times hold, and its baselines, those that are out of memory too."""

    key: EnvironmentKey
    baselines: tuple[Baseline, ...]


def contents_of(path: Path) -> Contents:
    """What is in `path`, of whichever known schema. Raises BaselineError for any other file."""
    document = read(path)
    return Contents(
        key=document.environment,
        baselines=tuple(
            baseline_of(case_of(document, entry, entry.protocol, path.name), entry)
            for entry in document.entries
        ),
    )
