"""The user's program of the fake framework: a file of optimized HLO that the script names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from busbw.worker.backends.fake.backend import FakeBackend


def compile_program(backend: FakeBackend, source: str) -> tuple[str, Mapping[str, int]]:
    """Return the optimized HLO in the file that the script names, and the extents of mesh axes.

    The script is the script of the fake back end, which simulates a framework. The extents are
    mapped by axis name. `source`, the user's name of the program, is not used.
    """
    script = backend.script["program"]
    return Path(script["hlo"]).read_text(), script.get("mesh", {})
