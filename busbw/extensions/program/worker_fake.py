"""A program of the user's, by the script: the optimized HLO that a file holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from busbw.worker.backends.fake.backend import FakeBackend


def compiled(backend: FakeBackend, source: str) -> tuple[str, Mapping[str, int]]:
    """Return the optimized HLO of the script's file, and the extents of the script's mesh."""
    script = backend.script["program"]
    return Path(script["hlo"]).read_text(), script.get("mesh", {})
