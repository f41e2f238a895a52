"""The results of every recorded session are what the published schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from .corpus import Recorded, sessions

DOCS = Path(__file__).parents[2] / "docs"


def _validator(name: str) -> Any:
    schema = json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


MEASURED, COMPILED = _validator("results"), _validator("compiled")


@pytest.mark.parametrize("recorded", sessions(), ids=lambda one: one.name)
def test_recorded_results_are_valid(recorded: Recorded) -> None:
    validator = COMPILED if recorded.is_compiled else MEASURED
    assert [error.message for error in validator.iter_errors(recorded.results)] == []
