"""docs/results.schema.json says exactly what --results=FILE writes."""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from busbw.model.case import Case, Spec
from busbw.model.launch import Failure, LaunchId, Measurement, Plan, Proof, Run
from busbw.model.machine import Environment, EnvironmentKey
from busbw.model.stored import StoredCase
from busbw.model.training import TrainingRun
from busbw.model.verdict import (
    Answer,
    Ceiling,
    Reference,
    SessionVerdict,
    Straggler,
    Summary,
    Verdict,
)
from busbw.model.words import Device, FailureKind, FoundBy, Outcome, SessionOutcome
from busbw.report.results import results
from busbw.stats.launches import quantiles_s

from . import build

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "docs" / "results.schema.json").read_text(encoding="utf-8")
)
DEFINITIONS = SCHEMA["$defs"]
VALID = jsonschema.Draft202012Validator(SCHEMA)

# What stands in the document as it is; a case and a verdict are written with other fields.
VALUES: dict[str, Any] = {
    "environment": Environment,
    "environment_key": EnvironmentKey,
    "plan": Plan,
    "summary": Summary,
    "run": Run,
    "training": TrainingRun,
    "proof": Proof,
    "failure": Failure,
    "published": Reference,
    "answer": Answer,
}

# Words for what was compiled and not measured: no such document has them.
OF_COMPILING = {"CHANGED", "COMPILE_ERROR"}


def _case(payload_bytes: int) -> Case:
    return build.case(payload_bytes=payload_bytes, ranks=8, mesh="2x4")


def _run() -> Run:
    """A launch of which all is known that a clock, a device or a compiler can tell."""
    return build.run(
        1.0e-5,
        1.1e-5,
        launch="1.jax",
        injected="delay:5%@1M",
        injected_ratio=1.06,
        clocks_s={"host": 1.0e-5, "device": 0.9e-5},
        dispatch_s=2.0e-5,
        first_call_s=0.1,
        rank_times_s=(0.8e-5, 0.9e-5),
        process_times_s=(0.9e-5, 1.0e-5),
        over_processes_s={"slowest": 1.0e-5, "median": 0.95e-5, "fastest": 0.9e-5},
        process_own_s=(1.0e-4, 2.1e-4),
        phases_s={"sampling": 0.2},
        peak_memory_bytes=1 << 20,
        compiled_memory_bytes=1 << 14,
        training=build.training_run(reductions={"CollectiveReduceV2": 4}, reduced_bytes=143660),
    )


def _failure(kind: FailureKind, **more: Any) -> Failure:
    return Failure(
        kind=kind, message="what happened", launch=LaunchId.parse("1.jax"), log="the end", **more
    )


def _summary() -> Summary:
    return Summary(
        times_s=(1.0e-5, 1.1e-5),
        median_s=1.05e-5,
        best_s=1.0e-5,
        worst_s=1.1e-5,
        spread=0.07,
        algbw_gb_per_s=0.1,
        busbw_gb_per_s=0.175,
    )


Kind = tuple[Verdict, Measurement | None]


def _judged(spec: Spec) -> Kind:
    """A run that has a baseline, and a figure that somebody published."""
    case = _case(spec.payload_bytes)
    verdict = Verdict(
        spec=spec,
        outcome=Outcome.REGRESSED,
        failed=True,
        text="slower",
        case=case,
        now=_summary(),
        baseline=_summary(),
        ratio=2.0,
        ratio_interval=(1.9, 2.1),
        ratio_error=0.02,
        limit=1.1,
        modes=((1.0e-5,), (1.1e-5,)),
        ceiling=Ceiling(
            bytes_per_s=450e9, most_bytes_per_s=788e9, text="links", sure=True, in_switch=True
        ),
        provisional=True,
        straggler=Straggler(process=1, ratio=2.1, host="b", rank=3),
        reference=Reference(source="a paper", oom=False, algbw_gb_per_s=50.0, doubt="old"),
    )
    return verdict, Measurement(case=case, runs=(_run(), _run()))


def _out_of_memory(spec: Spec) -> Kind:
    """A failure of which everything is known, where others were out of memory too."""
    case = _case(spec.payload_bytes)
    failure = _failure(
        FailureKind.OUT_OF_MEMORY,
        found=FoundBy.PREDICTED,
        needed_bytes=3 << 30,
        available_bytes=1 << 30,
        capacity_bytes=2 << 30,
        process_bytes=1 << 28,
    )
    verdict = Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=False,
        expected=True,
        text="expected",
        case=case,
        failure=failure,
        reference=Reference(source="a paper", oom=True),
    )
    return verdict, Measurement(case=case, failures=(failure,))


def _killed(spec: Spec) -> Kind:
    """One launch that gave times and one that was killed."""
    case = _case(spec.payload_bytes)
    failure = _failure(FailureKind.KILLED, exit_code=-9)
    verdict = Verdict(
        spec=spec, outcome=Outcome.FAILED, failed=True, text="killed", case=case, failure=failure
    )
    return verdict, Measurement(case=case, runs=(_run(),), failures=(failure,))


def _skipped(spec: Spec) -> Kind:
    """A case that could not be resolved here, so that nothing was measured."""
    return Verdict(spec=spec, outcome=Outcome.SKIPPED, failed=False, text="not reached"), None


def _document(*kinds: Callable[[Spec], Kind], session: bool = True) -> dict[str, Any]:
    """The results of one case of each of `kinds`, as they are read from the file."""
    specs = [build.spec(payload_bytes=1024 << index) for index in range(len(kinds))]
    pairs = [kind(spec) for kind, spec in zip(kinds, specs)]
    document = results(
        began=build.BEGAN,
        environment=Environment(
            key=EnvironmentKey(device_kind="TPU v2", ranks=8, mesh="2x4"),
            device=Device.TPU,
            why="named",
            versions={"jax": {"jax": "1"}},
            flags={"XLA_FLAGS": ""},
            framework_paths={"jax": "/somewhere/jax"},
            commit="0123456789ab",
            load=0.5,
            clock_mhz=2400.0,
        ),
        plan=Plan(),
        session=SessionVerdict(
            outcomes=(SessionOutcome.MACHINE_SHIFT, SessionOutcome.DRIFT),
            text="measured",
            stack=Answer(text="nothing slower", is_slower=None),
            machine=Answer(text="1.1 x", is_slower=True),
        )
        if session
        else None,
        verdicts=[verdict for verdict, _ in pairs],
        measurements={verdict.spec: found for verdict, found in pairs if found is not None},
        measuring_s=1.5,
        spent_s={"starting": 1.0, "measuring": 0.5},
        quantiles_s={
            verdict.spec: [quantiles_s(run) for run in found.runs]
            for verdict, found in pairs
            if found is not None
        },
    )
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def _complaints(document: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALID.iter_errors(document)]


def test_the_schema_is_itself_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("kind", [_judged, _out_of_memory, _killed, _skipped])
def test_a_case_of_every_kind_is_valid(kind: Callable[[Spec], Kind]) -> None:
    assert _complaints(_document(kind)) == []


def test_a_document_of_all_kinds_is_valid() -> None:
    assert _complaints(_document(_judged, _out_of_memory, _killed, _skipped)) == []


def test_a_session_without_cases_or_verdict_is_valid() -> None:
    assert _complaints(_document(session=False)) == []


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
        pytest.param(("environment", "clock_mhz"), 0, id="a processor that stands still"),
        pytest.param(("cases", 0, "ratio_error"), -0.1, id="an error below 0"),
        pytest.param(("cases", 0, "modes"), [[]], id="a mode of no launch"),
        pytest.param(("cases", 0, "outcome"), "FASTER", id="an unknown outcome"),
        pytest.param(("cases", 0, "failed"), None, id="no word on whether it failed"),
        pytest.param(("cases", 0, "case", "payload"), "1 KiB", id="a payload in other words"),
        pytest.param(("cases", 0, "measured", "median_s"), -1.0, id="a time below 0"),
        pytest.param(("cases", 0, "measured", "extra"), 1.0, id="an unknown key in a summary"),
        pytest.param(("cases", 0, "ceiling", "bytes_per_s"), 0, id="a ceiling on the floor"),
        pytest.param(("cases", 0, "ceiling", "share"), "half", id="a share in words"),
        pytest.param(("cases", 0, "ratio_interval"), [1.0], id="half an interval"),
        pytest.param(("cases", 0, "launches", 0, "injected_ratio"), 0, id="no time at all"),
        pytest.param(("cases", 0, "launches", 0, "samples_s"), [], id="a launch without samples"),
        pytest.param(("cases", 0, "published", "oom"), "no", id="a word for a truth value"),
        pytest.param(("cases", 1, "failure", "kind"), "TIRED", id="an unknown kind of failure"),
        pytest.param(("cases", 1, "failure", "found"), "guessed", id="an unknown way of finding"),
    ],
)
def test_a_broken_document_is_refused(path: tuple[str | int, ...], value: object) -> None:
    document: Any = _document(_judged, _out_of_memory)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert _complaints(document) != []


@pytest.mark.parametrize("key", sorted(SCHEMA["properties"]))
def test_a_document_that_lacks_a_key_is_refused(key: str) -> None:
    document = copy.deepcopy(_document(_judged))
    del document[key]
    assert _complaints(document) == [f"$: {key!r} is a required property"]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_s_fields_are_the_schema_s_properties(name: str) -> None:
    fields = [field.name for field in dataclasses.fields(VALUES[name])]
    assert list(DEFINITIONS[name]["properties"]) == fields


def test_a_case_is_written_with_its_payload_in_words() -> None:
    fields = [field.name for field in dataclasses.fields(StoredCase)]
    assert list(DEFINITIONS["case"]["properties"]) == [*fields, "payload"]


def test_a_session_is_written_with_its_word() -> None:
    fields = [field.name for field in dataclasses.fields(SessionVerdict)]
    assert list(DEFINITIONS["session"]["properties"]) == ["outcome", *fields]


def test_a_ceiling_is_written_with_the_share_that_was_reached() -> None:
    fields = [field.name for field in dataclasses.fields(Ceiling)]
    assert list(DEFINITIONS["ceiling"]["properties"]) == [*fields, "share"]


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("environment", "device", Device),
        ("session", "outcome", SessionOutcome),
        ("verdict", "outcome", Outcome),
        ("failure", "kind", FailureKind),
        ("failure", "found", FoundBy),
    ],
)
def test_the_words_that_the_schema_accepts_are_those_of_the_model_for_what_is_measured(
    name: str, key: str, words: type[enum.Enum]
) -> None:
    accepted = [word for word in DEFINITIONS[name]["properties"][key]["enum"] if word is not None]
    assert accepted == [word.value for word in words if word.name not in OF_COMPILING]


@pytest.mark.parametrize("name", [*DEFINITIONS, "the document"])
def test_an_object_has_all_its_keys_and_no_others(name: str) -> None:
    found = DEFINITIONS.get(name, SCHEMA)
    assert found["additionalProperties"] is False
    assert found["required"] == list(found["properties"])
    assert all("description" in part for part in found["properties"].values())
