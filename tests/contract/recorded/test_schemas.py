"""The results of every recorded session are what the published schema says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.helpers.recorded_sessions import Recorded, sessions

DOCS = Path(__file__).parents[3] / "docs"
VALIDATORS = {
    name: jsonschema.Draft202012Validator(json.loads((DOCS / f"{name}.schema.json").read_text()))
    for name in ("results", "compiled")
}


@pytest.mark.parametrize("recorded", sessions(), ids=lambda recorded: recorded.name)
def test_the_results_of_every_recorded_session_conform_to_the_schema(recorded: Recorded) -> None:
    validator = VALIDATORS["compiled" if recorded.is_compiled else "results"]
    assert [error.message for error in validator.iter_errors(recorded.results)] == []
