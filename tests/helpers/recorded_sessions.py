"""The recorded sessions and files, read. No test lives here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One session: the `inputs` beside the launches, its `results`, its baselines by path."""

    name: str
    inputs: Mapping[str, Any]
    results: Mapping[str, Any]
    baselines: Mapping[str, str]

    @property
    def is_compiled(self) -> bool:
        """Whether it compiled, and measured nothing."""
        return "compile_specs" in self.inputs

    def write_baselines(self, root: Path) -> None:
        """Lay the baselines out below `root` as they were."""
        for name, text in self.baselines.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def sessions() -> tuple[Recorded, ...]:
    """Read every recorded session."""
    return tuple(Recorded(inputs=row.pop("given"), **row) for row in _lines("sessions"))


def baseline_files() -> tuple[tuple[str, str], ...]:
    """Read every recorded file of baselines: its path below the folder, and its text."""
    return tuple((document["path"], document["text"]) for document in _lines("baselines"))


def _lines(name: str) -> list[dict[str, Any]]:
    text = gzip.decompress((_HERE / f"{name}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]
