"""A session as one JSON document: plain values, all of them, and the same again from its text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.verdict import Answer, Ceiling, Reference, SessionVerdict, Verdict
from busbw.model.words import Device, FoundBy, Outcome, SessionOutcome
from busbw.report.results import results
from tests import build

FINE = SessionVerdict(outcomes=(SessionOutcome.FINE,), text="1 cases measured")
COMPARED = build.verdict(
    Outcome.REGRESSED,
    failed=True,
    baseline=build.summary(),
    ratio=2.0,
    ratio_interval=(1.9, 2.1),
    ratio_error=0.02,
    limit=1.6,
    modes=((1e-3, 1.1e-3), (4e-3,)),
    provisional=True,
    reference=Reference(source="a paper", oom=False, algbw_gb_per_s=3.0),
)
LACKING = build.out_of_memory(found=FoundBy.PREDICTED, needed_bytes=2, available_bytes=1)
OUT = build.verdict(Outcome.OUT_OF_MEMORY, now=None, failure=LACKING, expected=True)
UNRESOLVED = build.verdict(
    Outcome.SKIPPED, spec=build.spec(payload_bytes=8192), case=None, now=None, text="no device"
)


def _document(
    *verdicts: Verdict,
    measurements: Mapping[Spec, Measurement] | None = None,
    session: SessionVerdict | None = FINE,
    quantiles_s: Mapping[Spec, Sequence[Mapping[str, float]]] | None = None,
) -> dict[str, Any]:
    return results(
        began=build.BEGAN,
        environment=build.environment(flags={"XLA_FLAGS": "--x"}, clock_mhz=2400.0),
        plan=build.plan(),
        session=session,
        verdicts=verdicts,
        measurements=measurements or {},
        measuring_s=12.5,
        spent_s={"starting": 2.0, "measuring": 10.0},
        quantiles_s=quantiles_s or {},
    )


def _kinds(value: Any) -> set[type]:
    """The exact types of everything in a document."""
    inner: Sequence[Any] = ()
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, list):
        inner = value
    return {type(value)}.union(*(_kinds(one) for one in inner))


def test_a_document_holds_nothing_but_what_json_has() -> None:
    measured = build.measurement(1e-3, failures=(LACKING,))
    document = _document(COMPARED, OUT, UNRESOLVED, measurements={build.spec(): measured})
    assert _kinds(document) <= {dict, list, str, int, float, bool, type(None)}
    assert document == json.loads(json.dumps(document, allow_nan=False))


def test_the_head_says_where_how_hard_and_how_it_ended() -> None:
    document = _document()
    assert (document["document"], document["version"]) == ("busbw results", 1)
    assert Device.CPU.value == document["environment"]["device"]
    assert document["environment"]["key"]["ranks"] == 4
    assert document["environment"]["flags"] == {"XLA_FLAGS": "--x"}
    assert document["environment"]["clock_mhz"] == 2400.0
    assert build.plan().samples == document["plan"]["samples"]
    assert document["session"] == {
        "outcome": "FINE",
        "outcomes": ["FINE"],
        "text": "1 cases measured",
        "stack": None,
        "machine": None,
    }
    assert document["measuring_s"] == 12.5
    assert document["spent_s"] == {"starting": 2.0, "measuring": 10.0}


def test_a_session_without_a_verdict_has_none() -> None:
    assert _document(session=None)["session"] is None


def test_a_compared_case_has_both_summaries_and_the_limit() -> None:
    (case,) = _document(COMPARED)["cases"]
    assert (
        case["id"],
        case["outcome"],
        case["failed"],
    ) == ("jax-default-float32-4K", "REGRESSED", True)
    assert (
        case["ratio"],
        case["ratio_interval"],
        case["ratio_error"],
        case["limit"],
        case["modes"],
        case["provisional"],
    ) == (2.0, [1.9, 2.1], 0.02, 1.6, [[1e-3, 1.1e-3], [4e-3]], True)
    assert case["measured"] == case["baseline"]
    assert case["baseline"]["times_s"] == [1e-3, 1.1e-3, 0.9e-3]
    assert case["published"]["source"] == "a paper"


def test_a_case_names_its_payload_as_people_write_it() -> None:
    (case,) = _document(COMPARED)["cases"]
    assert (case["case"]["payload"], case["case"]["payload_bytes"]) == ("4K", 4096)


def test_a_case_has_the_ceiling_and_the_share_that_it_reached() -> None:
    ceiling = Ceiling(bytes_per_s=8e9, most_bytes_per_s=9e9, text="links", sure=True)
    held = replace(COMPARED, ceiling=ceiling)
    reached, lost = _document(held, replace(held, now=None))["cases"]
    assert reached["ceiling"] == {
        "bytes_per_s": 8e9,
        "most_bytes_per_s": 9e9,
        "text": "links",
        "sure": True,
        "in_switch": False,
        "share": 0.75,
    }
    assert lost["ceiling"] == reached["ceiling"] | {"share": None}


def test_a_case_without_a_ceiling_has_none() -> None:
    (case,) = _document(COMPARED)["cases"]
    assert case["ceiling"] is None


def test_a_failure_is_written_with_its_words() -> None:
    (case,) = _document(OUT)["cases"]
    assert (
        case["failure"]["kind"],
        case["failure"]["found"],
        case["failure"]["needed_bytes"],
    ) == ("OUT_OF_MEMORY", "predicted", 2)
    assert (case["measured"], case["ratio_interval"]) == (None, None)
    assert case["expected"]


def test_every_launch_is_written_with_every_sample() -> None:
    runs = (build.run(1e-3, 2e-3, launch="1.0"), build.run(3e-3, launch="2.0"))
    measured = Measurement(case=build.case(), runs=runs, failures=(LACKING,))
    (case,) = _document(COMPARED, measurements={build.spec(): measured})["cases"]
    assert [launch["samples_s"] for launch in case["launches"]] == [[1e-3, 2e-3], [3e-3]]
    assert case["launches"][0]["proof"]["collectives"] == {"all-reduce": 1}
    assert [failure["found"] for failure in case["failures"]] == ["predicted"]


def test_a_launch_has_what_was_injected() -> None:
    run = build.run(1e-3, injected="delay:5%")
    measured = Measurement(case=build.case(), runs=(run,))
    (case,) = _document(COMPARED, measurements={build.spec(): measured})["cases"]
    (launch,) = case["launches"]
    assert launch["injected"] == "delay:5%"


@pytest.mark.parametrize("outcome", SessionOutcome)
def test_every_answer_of_a_session_is_written_by_its_name(outcome: SessionOutcome) -> None:
    slower = Answer(text="1.1 x", is_slower=True)
    document = _document(session=SessionVerdict(outcomes=(outcome,), text="why", machine=slower))
    assert document["session"] == {
        "outcome": outcome.value,
        "outcomes": [outcome.value],
        "text": "why",
        "stack": None,
        "machine": {"text": "1.1 x", "is_slower": True},
    }


def test_the_quantiles_of_every_launch_stand_beside_the_launches() -> None:
    quantiles_s = [{"p25": 1.0, "p50": 2.0}, {"p25": 3.0, "p50": 4.0}]
    document = _document(COMPARED, UNRESOLVED, quantiles_s={build.spec(): quantiles_s})
    assert [case["quantiles_s"] for case in document["cases"]] == [quantiles_s, []]


def test_a_case_that_was_not_measured_is_there_all_the_same() -> None:
    (case,) = _document(UNRESOLVED)["cases"]
    assert (case["case"], case["launches"], case["failures"]) == (None, [], [])
    assert (case["id"], case["text"]) == ("jax-default-float32-8K", "no device")
