"""The results of every recorded session are what the published schema says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.helpers.recorded_sessions import Recorded, sessions

PUBLISHED = Path(__file__).parents[3] / "docs" / "results.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text(encoding="utf-8")))


@pytest.mark.parametrize("recorded", sessions(), ids=lambda one: one.name)
def test_recorded_results_are_valid(recorded: Recorded) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(recorded.results)] == []
