"""What a session that compiled writes, what is read back, and how it is shown."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from busbw.extensions.compiled.report import compiled_tables
from busbw.extensions.compiled.results import CompiledResults
from busbw.extensions.compiled.worker_values import CompiledVerdict
from busbw.model.verdict import SessionVerdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.report.answer import answer_lines
from busbw.report.reading import DocumentError, read_results
from tests.helpers import compiled as made
from tests.helpers.compiled import RELEASE, program
from tests.unit.report.schemas import PUBLISHED


def test_compiled_results_follow_their_schema_and_are_read_back() -> None:
    verdicts = program(4096, 8192), program(8192, None)
    text = made.text(*verdicts, missing="no plugin")
    schema = json.loads(PUBLISHED[CompiledResults].read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(text), schema)
    assert made.session(*verdicts, missing="no plugin").verdicts == verdicts


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("outcome", "SLOWISH", "cases[0].outcome: expected one of PASS"),
        ("extra", 1, "cases[0].extra: unknown key"),
    ],
)
def test_an_error_names_the_file_and_the_place(key: str, value: Any, message: str) -> None:
    document = json.loads(made.text(program(4096, 8192)))
    document["cases"][0][key] = value
    with pytest.raises(DocumentError) as refused:
        read_results(json.dumps(document), "compiled.json")
    assert str(refused.value).startswith(f"compiled.json: {message}")


def test_a_case_that_failed_is_named_with_its_topology() -> None:
    def changed(topology: str, *, failed: bool) -> CompiledVerdict:
        spec = made.spec(topology)
        return CompiledVerdict(
            spec=spec, outcome=Outcome.CHANGED, text="ring -> tree", failed=failed
        )

    verdicts = changed("v5e:2x4", failed=True), changed("v4:2x2x1", failed=False)
    answer = SessionVerdict(outcomes=(SessionOutcome.FAILED,), text="")
    assert [line.text for line in answer_lines(verdicts, answer)][:-1] == [
        "1 CHANGED: jax v5e:2x4 4K: ring -> tree"
    ]


def test_compiled_cases_have_a_table_for_each_topology_and_release() -> None:
    first, second = program(1024, 2048), program(4096, 8192)
    tables = compiled_tables([first, second, program(1024, 2048, topology="h100:8")])
    assert [(table.title and table.title.text, len(table.rows)) for table in tables] == [
        (f"v5e:2x4: jax all_reduce (psum), 8 ranks by {RELEASE}", 2),
        (f"h100:8: jax all_reduce (psum), 8 ranks by {RELEASE}", 1),
    ]
