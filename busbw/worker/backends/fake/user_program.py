"""A program of the user's, by the script: the optimized HLO that a file holds."""

from __future__ import annotations

from pathlib import Path

from busbw.worker.operations.user_program import Lowered, Optimized

from .backend import FakeBackend


def user_program(backend: FakeBackend, source: str) -> Lowered:
    """Return what the script's file holds, in place of what `source` would make."""
    script = backend.script["program"]
    names = ("argument", "output", "alias", "temporary", "peak")
    none = {f"{name}_bytes": 0 for name in names}
    optimized = Optimized(text=Path(script["hlo"]).read_text(), **none)
    return Lowered(source, 1, lambda: optimized, script.get("mesh", {}))
