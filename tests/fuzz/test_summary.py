"""The summary of a workflow run: of any results one page, or a sentence and exit code 1."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given

from .bounds import bounded, fuzzed, unchanged
from .damage import documents

SCRIPT = Path(__file__).parents[2] / ".github" / "summarize.py"
RATE = {"busbw_gb_per_s": 12.3}
CASE = {
    "id": "jax-default-float32-1K",
    "outcome": "FAILED",
    "failed": True,
    "text": "slower",
    "measured": RATE,
    "baseline": RATE,
    "ratio": 1.5,
}
COMPILED = {
    "id": "v5e:2x4-jax-default-float32-1K",
    "spec": {"topology": "v5e:2x4"},
    "release": "libtpu 1",
    "outcome": "CHANGED",
    "failed": True,
    "expected": False,
    "text": "a -> b",
}
SESSION = {"outcome": "FINE", "text": "measured"}
ENVIRONMENT = {"key": {"device_kind": "TPU v5 lite", "ranks": 8}}
ANSWER = {"text": "nothing slower", "is_slower": False}
MEASURED: dict[str, Any] = {
    "environment": ENVIRONMENT,
    "session": {**SESSION, "stack": ANSWER, "machine": {**ANSWER, "is_slower": None}},
    "cases": [CASE],
}
OF_COMPILERS: dict[str, Any] = {"session": SESSION, "compilers": [], "cases": [COMPILED]}


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
