"""Results that are read back, and errors of invalid results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from busbw.report.reading import DocumentError, read_results
from tests.helpers.results_files import document, verdict


def _changed(path: tuple[str | int, ...], value: Any) -> str:
    written = document(verdict(4096, 6.0))
    parent: Any = written
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return json.dumps(written)


CASE = ("cases", 0, "case")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("version",), 13, "'busbw results' of version 13; expected 'busbw results' of "),
        (("version",), True, "'busbw results' of version True; expected 'busbw results' of "),
        (("document",), "busbw history", "this says 'busbw history' of version 1; expected "),
        (("began",), "today", "began: expected a moment such as"),
        (("began",), "2026-01-02T03:04:05", "began: expected a moment such as"),
        (("cases",), {}, "cases: expected a list, got {}"),
        (("cases", 0), 3, "cases[0]: expected an object, got 3"),
        (("environment", "key", "device_kind"), None, "device_kind: expected a string, got None"),
        (("environment", "versions", "jax", "jax"), 1, "environment.versions.jax.jax: expected"),
        (("cases", 0, "outcome"), "GREEN", "cases[0].outcome: expected one of PASS, REGRESSED"),
        (("cases", 0, "limit"), -1, "cases[0].limit: expected a number above 0, got -1"),
        (
            ("cases", 0, "now", "busbw_gb_per_s"),
            float("nan"),
            "expected a finite number, got nan",
        ),
        (("cases", 0, "now", "busbw_gb_per_s"), 10**400, "now.busbw_gb_per_s: expected"),
        (("cases", 0, "published", "source"), None, "published.source: expected a string"),
        (("cases", 0, "ceiling", "bytes_per_s"), "1", "cases[0].ceiling.bytes_per_s: expected"),
        ((*CASE, "payload_bytes"), 0, "case.payload_bytes: "),
        ((*CASE, "protocol"), "x", "cases[0].case.protocol: expected a clock first"),
        ((*CASE, "collective"), "x", "cases[0].case: collective: expected one of all_"),
        ((*CASE, "axes"), "x", "cases[0].case.axes: expected none without a mesh"),
        ((*CASE, "ranks"), 1, "cases[0].case: one rank is no collective"),
        (("environment",), None, "environment: expected an object, got None"),
    ],
)
def test_an_error_in_results_names_the_file_and_the_place_and_the_accepted_value(
    path: tuple[str | int, ...], value: Any, message: str
) -> None:
    with pytest.raises(DocumentError) as refused:
        read_results(_changed(path, value), "night.json")
    assert str(refused.value).startswith("night.json: ")
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe\x00", "[]", "null", "{}"])
def test_a_text_that_is_no_document_of_results_is_refused(text: str | bytes) -> None:
    with pytest.raises(DocumentError, match=r"^night\.json: "):
        read_results(text, "night.json")
