"""The results of a session that compiled are read back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from busbw.report.reading import DocumentError, read_results
from tests.helpers import compiled as made
from tests.helpers.compiled import program


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("outcome", "SLOWISH", "cases[0].outcome: expected one of PASS"),
        ("extra", 1, "cases[0].extra: unknown key"),
    ],
)
def test_an_error_in_the_results_of_a_compiling_session_names_the_file_and_the_place(
    key: str, value: Any, message: str
) -> None:
    document = json.loads(made.text(program(4096, 8192)))
    document["cases"][0][key] = value
    with pytest.raises(DocumentError) as refused:
        read_results(json.dumps(document), "compiled.json")
    assert str(refused.value).startswith(f"compiled.json: {message}")
