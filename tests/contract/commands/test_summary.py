"""`busbw summary` of foreign results: no text of the results is a command or moves a terminal."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import asked_here, command
from tests.helpers.recorded_sessions import sessions

HOSTILE = "x\n::error::one\u2028 ::error::two \x1b[31m\u202e##[error]three"
# A session of two cases, of which one failed.
_FAILED = "a wrong result and no collective fail their cases only 1"
(RESULTS,) = (session.results for session in sessions() if session.name == _FAILED)


def _texts(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all texts in a document."""
    if isinstance(document, str):
        yield place
    of_each = document.items() if isinstance(document, dict) else ()
    for key, value in enumerate(document) if isinstance(document, list) else of_each:
        yield from _texts(value, (*place, key))


def _hostile(folder: Path, *places: tuple[Any, ...]) -> Path:
    """Write the results with hostile texts at these places."""
    document = copy.deepcopy(RESULTS)
    for *path, last in places:
        holder: Any = document
        for key in path:
            holder = holder[key]
        holder[last] = HOSTILE
    file = folder / "results.json"
    file.write_text(json.dumps(document))
    return file


def test_the_summary_command_prints_an_error_about_any_text_as_a_single_printable_line(
    tmp_path: Path,
) -> None:
    refused = 0
    for place in _texts(RESULTS):
        answer = asked_here("summary", _hostile(tmp_path, place))
        if answer.code == 2:
            refused += 1
            assert answer.err.count("\n") == 1 and answer.err[:-1].isprintable(), place
    assert refused > 20


@pytest.mark.parametrize(
    ("code", "places"),
    [
        (2, [("cases", 0, "outcome")]),
        (2, [("cases", 0, "case", "protocol")]),
        (0, [("cases", 0, "id"), ("cases", 0, "spec", "framework")]),
        (0, [("environment", "host"), ("cases", 0, "text"), ("session", "text")]),
    ],
)
def test_the_summary_command_prints_no_text_of_the_results_as_a_workflow_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, places: list[tuple[Any, ...]]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    answer = command("summary", _hostile(tmp_path, *places))
    assert answer.code == code
    # The runner of GitHub looks for the first at the beginning of a line, for the other anywhere.
    commands = [
        line
        for line in re.split("[\n\r\u2028]", f"{answer.out}\n{answer.err}")
        if re.match(r"\s*::|.*##\[", line)
    ]
    assert commands == []
    assert not re.search("[\x1b\u202e]", answer.out + answer.err)
