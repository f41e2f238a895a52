"""The JSON document of a session: its published schema, and errors of wrong documents."""

from __future__ import annotations

import functools
import json
import operator
from typing import Any

import jsonschema
import pytest

from busbw import wire
from busbw.model.launch import Measurement
from busbw.model.verdict import BandwidthCeiling, PublishedBandwidth, SessionVerdict, Verdict
from busbw.model.words import Outcome, OutOfMemoryDetection, SessionOutcome
from busbw.report.results import Results, read_results
from tests.helpers import build
from tests.helpers.results_files import document, results, verdict
from tests.unit.report.schemas import FIGURES, PUBLISHED, text

RUN = build.run(
    1e-3,
    2e-3,
    injected="delay:5%@1M",
    injected_ratio=1.06,
    clocks_s={"host": 1e-3, "device": 0.9e-3},
    dispatch_s=2e-5,
    rank_times_s=(0.8e-3, 0.9e-3),
    phases_s={"sampling": 0.2},
    peak_memory_bytes=1 << 20,
)
# A failure and a case of which all is known that can be.
LACKING = build.out_of_memory(
    detected=OutOfMemoryDetection.PREDICTED,
    needed_bytes=2,
    available_bytes=1,
    capacity_bytes=3,
    process_bytes=4,
    exit_code=-9,
    log="the end",
)
COMPARED = build.verdict(
    Outcome.REGRESSED,
    failed=True,
    baseline=build.summary(),
    ratio=2.0,
    ratio_interval=(1.9, 2.1),
    ratio_error=0.02,
    limit=1.6,
    provisional=True,
    ceiling=BandwidthCeiling(bytes_per_s=8e9, most_bytes_per_s=9e9, text="links", sure=True),
    published=PublishedBandwidth(source="a paper", oom=False, algbw_gb_per_s=3.0, doubt="old"),
)
OUT = build.verdict(
    Outcome.OUT_OF_MEMORY,
    spec=build.spec(payload_bytes=8192),
    now=None,
    failure=LACKING,
    expected=True,
    published=PublishedBandwidth(source="a paper", oom=True),
)
UNRESOLVED = build.verdict(
    Outcome.SKIPPED, spec=build.spec(payload_bytes=1024), case=None, now=None
)
SHIFTED = SessionVerdict(
    outcomes=(SessionOutcome.MACHINE_SHIFT, SessionOutcome.DRIFT),
    text="measured",
)


def _document(*verdicts: Verdict, session: SessionVerdict | None = SHIFTED) -> dict[str, Any]:
    measured = Measurement(case=build.case(), runs=(RUN, RUN), failures=(LACKING,))
    return results(
        *verdicts,
        environment=build.environment(flags={"XLA_FLAGS": "--x"}, load=0.5),
        session=session,
        measurements={COMPARED.spec: measured},
        references={COMPARED.spec: measured},
        measuring_s=12.5,
        spent_s={"starting": 2.0, "measuring": 10.0},
        process_hosts=("a", "b"),
    )


def _put(document: Any, path: tuple[str | int, ...], value: object) -> None:
    """Change the value at a path of a document."""
    functools.reduce(operator.getitem, path[:-1], document)[path[-1]] = value


def _complaints(document: object) -> list[str]:
    schema = json.loads(PUBLISHED[Results].read_text(encoding="utf-8"))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in errors]


@pytest.mark.parametrize("kind", PUBLISHED)
def test_the_published_schema_of_results_equals_the_generated_schema(kind: type) -> None:
    published = PUBLISHED[kind].read_text(encoding="utf-8")
    assert published == text(kind), "run: python -m tests.unit.report.schemas"
    jsonschema.Draft202012Validator.check_schema(json.loads(published))


def test_every_metric_of_a_case_has_a_unique_name() -> None:
    names = [figure.id for figure in FIGURES]
    assert len(set(names)) == len(names)


def test_a_document_of_results_conforms_to_its_schema_and_can_be_read_back() -> None:
    document = _document(COMPARED, OUT, UNRESOLVED, session=SHIFTED)
    plain = json.loads(json.dumps(document, allow_nan=False))
    assert document == plain
    assert _complaints(plain) == []
    assert wire.to_json(wire.from_json(Results, plain)) == document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("extra",), 1, id="an unknown key at the top"),
        pytest.param(("version",), 2, id="another version"),
        pytest.param(("document",), "busbw history", id="another document"),
        pytest.param(("environment", "key", "ranks"), 1, id="one rank"),
        pytest.param(("environment", "device"), "abacus", id="an unknown device"),
        pytest.param(("session", "outcome"), "GREEN", id="an unknown session outcome"),
        pytest.param(("session", "outcomes"), [], id="a session of which nothing holds"),
        pytest.param(("session", "machine"), "slower", id="an answer without its question"),
        pytest.param(("cases", 0, "ratio_error"), -0.1, id="an error below 0"),
        pytest.param(("cases", 0, "outcome"), "SLOWISH", id="an unknown outcome"),
        pytest.param(("cases", 0, "failed"), None, id="no word on whether it failed"),
        pytest.param(("cases", 0, "now", "median_s"), -1.0, id="a time below 0"),
        pytest.param(("cases", 0, "now", "extra"), 1.0, id="an unknown key in a summary"),
        pytest.param(("cases", 0, "ceiling", "bytes_per_s"), 0, id="a ceiling on the floor"),
        pytest.param(("cases", 0, "figures", "ratio"), "half", id="a figure in words"),
        pytest.param(("cases", 0, "ratio_interval"), [1.0], id="half an interval"),
        pytest.param(("cases", 0, "launches", 0, "injected_ratio"), 0, id="no time at all"),
        pytest.param(("cases", 0, "launches", 0, "samples_s"), [], id="a launch without samples"),
        pytest.param(("cases", 0, "published", "oom"), "no", id="a word for a truth value"),
        pytest.param(("cases", 1, "failure", "kind"), "TIRED", id="an unknown kind of failure"),
        pytest.param(("cases", 1, "failure", "detected"), "guessed", id="an unknown detection"),
    ],
)
def test_the_schema_of_results_refuses_an_invalid_value(
    path: tuple[str | int, ...], value: object
) -> None:
    document: Any = json.loads(json.dumps(_document(COMPARED, OUT)))
    _put(document, path, value)
    assert _complaints(document) != []


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
        (
            ("cases", 0, "outcome"),
            "GREEN",
            "cases[0].outcome: expected one of FAILED, COMPILE_ERROR",
        ),
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
        ((*CASE, "collective"), "x", "cases[0].case.collective: expected one of all_"),
        ((*CASE, "axes"), "x", "cases[0].case.axes: expected none without a mesh"),
        ((*CASE, "ranks"), 1, "cases[0].case: one rank is no collective"),
        (("environment",), None, "environment: expected an object, got None"),
    ],
)
def test_an_error_in_results_names_the_place_and_the_accepted_value(
    path: tuple[str | int, ...], value: Any, message: str
) -> None:
    changed = document(verdict(4096, 6.0))
    _put(changed, path, value)
    with pytest.raises(wire.WireError) as refused:
        read_results(json.dumps(changed))
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe\x00", "[]", "null", "{}"])
def test_a_text_that_is_no_document_of_results_is_refused(text: str | bytes) -> None:
    with pytest.raises(wire.WireError):
        read_results(text)
