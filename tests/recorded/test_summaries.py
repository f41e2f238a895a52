"""The summary of a workflow run names what changed in any recorded session, and counts the rest."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from .corpus import Recorded, sessions

SCRIPT = Path(__file__).parents[2] / ".github" / "summarize.py"
DIFFERS = {"REGRESSED", "IMPROVED", "OUT_OF_MEMORY", "FAILED", "CHANGED", "COMPILE_ERROR"}


@pytest.fixture(scope="module")
def summarize() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("summarize", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("recorded", sessions(), ids=lambda one: one.name)
def test_a_recorded_session_is_summed_up(
    recorded: Recorded, summarize: ModuleType, tmp_path: Path
) -> None:
    session = recorded.results["session"]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(recorded.results))
    text, code = summarize.main(path)
    assert code == 0
    assert session["outcomes"][0] in text or "**FAILED**" in text
    cases = recorded.results["cases"]
    if recorded.is_compiled:
        return
    shown, _, folded = text.partition("<details>")
    differ = [one for one in cases if one["outcome"] in DIFFERS and not one["expected"]]
    changed = [one for one in cases if one["failed"] or one in differ]
    rows = re.findall(r"^\| (?!case |---|the |\| )", shown, re.MULTILINE)
    assert len(rows) == len(changed)
    counted = re.search(r"^(?:The other|None of) (\d+)", shown, re.MULTILINE)
    assert (int(counted[1]) if counted else 0) == len(cases) - len(changed)
    assert len(re.findall(r"^\| (?!case )", folded, re.MULTILINE)) == len(cases)
