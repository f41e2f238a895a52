"""The summary of a workflow run: of any files one page, or a sentence and exit code 1."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given

from .damage import bounded, documents, fuzzed, unchanged

SCRIPT = Path(__file__).parents[2] / ".github" / "summarize.py"
RATE = {"busbw_gb_per_s": 12.3}
CASE = {
    "id": "jax-default-float32-1K",
    "outcome": "FAILED",
    "failed": True,
    "expected": False,
    "text": "slower",
    "now": RATE,
    "baseline": RATE,
    "ratio": 1.5,
}
COMPILED = {
    "id": "v5e:2x4-jax-default-float32-1K",
    "spec": {"topology": "v5e:2x4"},
    "program": {"release": "libtpu 1"},
    "outcome": "CHANGED",
    "failed": True,
    "expected": False,
    "text": "a -> b",
}
SESSION = {"outcomes": ["FINE"], "text": "measured"}
ENVIRONMENT = {"key": {"device_kind": "TPU v5 lite", "ranks": 8}}
ANSWER = {"text": "nothing slower", "is_slower": False}
MEASURED: dict[str, Any] = {
    "environment": ENVIRONMENT,
    "session": {**SESSION, "stack": ANSWER, "machine": {**ANSWER, "is_slower": None}},
    "cases": [CASE],
}
CHANGE = {
    "at": "2026-03-07T03:00:00Z",
    "ratio": 1.1,
    "sessions": 6,
    "changes": ["jax 0.10.0 -> 0.10.1"],
    "reason": "",
}
HISTORY: dict[str, Any] = {
    "machines": [
        {
            "folder": "tpu-v5-lite/4r",
            "sessions": [{"at": "2026-03-12T03:00:00Z"}],
            "shared_changes": {"jax": [CHANGE]},
            "cases": [{"name": "jax.1K", "series": "jax", "stack": "0", "changes": [CHANGE]}],
        }
    ]
}
OF_COMPILERS: dict[str, Any] = {
    "environment": None,
    "session": SESSION,
    "cases": [COMPILED],
}


@pytest.fixture(scope="module")
def summarize() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("summarize", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def test_what_is_not_damaged_is_summed_up(summarize: ModuleType, tmp_path: Path) -> None:
    for document in (MEASURED, OF_COMPILERS):
        path = tmp_path / "r.json"
        path.write_text(json.dumps(document))
        assert summarize.main(path)[1] == 0
    history = tmp_path / "h.json"
    history.write_text(json.dumps(HISTORY))
    assert summarize.main(path, history)[1] == 0


@fuzzed
@given(content=documents(MEASURED, OF_COMPILERS))
def test_any_results_are_summed_up_or_said_to_be_damaged(
    content: bytes, summarize: ModuleType, folder: Path
) -> None:
    path = folder / "results.json"
    path.write_bytes(content)
    with unchanged(folder), bounded():
        text, code = summarize.main(path)
    assert text and code == text.startswith("The results are damaged: ")


@fuzzed
@given(content=documents(HISTORY))
def test_any_history_is_summed_up_or_said_to_be_damaged(
    content: bytes, summarize: ModuleType, folder: Path
) -> None:
    results, path = folder / "whole.json", folder / "history.json"
    results.write_text(json.dumps(MEASURED))
    path.write_bytes(content)
    with unchanged(folder), bounded():
        text, code = summarize.main(results, path)
    assert "All 1 cases" in text
    assert code == (text.rpartition("\n\n")[2].startswith("The history is damaged: "))
