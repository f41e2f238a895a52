"""`python -m busbw estimate --curve`: results and baselines of busbw as curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw import wire
from busbw.baselines.document import Status, dumps
from busbw.baselines.timed import Document, Entry, StoredSession
from busbw.model.machine import EnvironmentKey, Protocol
from busbw.model.words import MIB, payload_text
from busbw.report.results import results as report_results
from tests import build

from .estimates import estimate, refused, rows

# A ring of four over 4 GB/s with 10 us a step: 60 us + S / (4 GB/s / 1.5).
TIMES = {size: 60e-6 + 1.5 * size / 4e9 for size in (1024, 65536, MIB, 16 * MIB, 64 * MIB)}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The results of a session."""
    verdicts = [
        build.verdict(
            spec=build.spec(payload_bytes=size),
            case=build.case(payload_bytes=size),
            now=build.summary(times_s=(time_s, 2 * time_s, time_s / 2), median_s=time_s),
        )
        for size, time_s in TIMES.items()
    ]
    document = report_results(
        began=build.BEGAN,
        environment=build.environment(),
        plan=build.plan(),
        session=None,
        verdicts=verdicts,
        measurements={},
        measuring_s=1.0,
        spent_s={},
        quantiles_s={},
    )
    file = tmp_path / "results.json"
    file.write_text(json.dumps(document))
    return file


def _baseline(*dtypes: str) -> Document:
    key = EnvironmentKey(device_kind="cpu", ranks=4, cores=2)
    entries = [
        Entry(
            dtype=dtype,
            reduce_op="sum",
            placement="in_place",
            payload=payload_text(size),
            payload_bytes=size,
            status=Status.OK,
            pinned_us=1e6 * time_s,
            pinned_date=build.DATE,
            sessions=(
                StoredSession(
                    date=build.DATE, at=f"{build.DATE}T03:00:00Z", times_us=(1e6 * time_s,)
                ),
            ),
            protocol=Protocol.parse("host/chain2"),
        )
        for dtype in dtypes
        for size, time_s in TIMES.items()
    ]
    return Document(
        environment=key,
        framework="jax",
        collective="all_reduce",
        strategy="psum",
        entries=tuple(entries),
    )


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    file = tmp_path / "jax.all_reduce.psum.json"
    file.write_text(dumps(_baseline("float32")))
    return file


def test_a_training_step_s_baseline_is_no_curve_of_an_all_reduce(tmp_path: Path) -> None:
    file = tmp_path / "jax.dense_step.all_reduce.psum.json"
    file.write_text(dumps(_baseline("float32")))
    refused("holds no time of an all-reduce", f"--curve={file}", "--gradient-bytes=1MiB")


@pytest.mark.parametrize("kind", ["results", "baseline"])
def test_a_measured_curve_gives_its_own_time_and_that_of_other_methods(
    kind: str, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(kind)
    found = {one["method"]: one for one in rows(f"--curve={file}", "--gradient-bytes=16MiB")}
    measured = found["measured all-reduce"]
    assert (measured["ranks"], measured["hosts"], measured["how"]) == (4, 1, "measured")
    assert measured["communication_s"] == pytest.approx(TIMES[16 * MIB])
    # What the times were made of: a ring over 4 GB/s with 10 us a step.
    ring = found["ring all-reduce"]
    assert ring["communication_s"] == pytest.approx(TIMES[16 * MIB], rel=0.02)
    tree = found["tree all-reduce"]
    assert tree["communication_s"] == pytest.approx(4 * (10e-6 + 16 * MIB / 4e9), rel=0.02)


def test_between_and_beyond_the_payloads_it_is_said_how(results: Path) -> None:
    for size, how, rough in (
        ("2MiB", "interpolated", 0.1),
        ("1GiB", "by latency and bandwidth", 0.02),
    ):
        (measured,) = (
            one
            for one in rows(f"--curve={results}", f"--gradient-bytes={size}")
            if one["method"] == "measured all-reduce"
        )
        exact_s = 60e-6 + 1.5 * (2 * MIB if size == "2MiB" else 2**30) / 4e9
        assert measured["how"] == how
        assert measured["communication_s"] == pytest.approx(exact_s, rel=rough)


def test_a_curve_answers_with_the_bus_bandwidth_that_is_needed(results: Path) -> None:
    found = rows(
        f"--curve={results}", "--gradient-bytes=64MiB", "--compute=10ms", "--want-efficiency=0.9"
    )
    (measured,) = (one for one in found if one["method"] == "measured all-reduce")
    wanted_s = 10e-3 / 9
    assert measured["wanted_bytes_per_s"] == pytest.approx(1.5 * 64 * MIB / wanted_s)


def test_of_many_curves_three_are_named(tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    file.write_text(dumps(_baseline("float32", "bfloat16", "float16", "int32")))
    refused("; and 1 other", f"--curve={file}", "--gradient-bytes=1MiB")


def test_several_curves_in_a_file_want_a_choice(tmp_path: Path) -> None:
    file = tmp_path / "both.json"
    file.write_text(dumps(_baseline("float32", "bfloat16")))
    refused("several curves", f"--curve={file}", "--gradient-bytes=1MiB")
    refused("none of that name", f"--curve={file}", "--gradient-bytes=1MiB", "--curve-case=int8")
    answer = estimate(f"--curve={file}", "--gradient-bytes=1MiB", "--curve-case=jax bfloat16")
    assert answer.code == 0 and "bfloat16" in answer.out


def test_other_ranks_than_were_measured_arerefused(results: Path) -> None:
    refused("was measured on 4", f"--curve={results}", "--gradient-bytes=1MiB", "--ranks=8")


def _changed(file: Path, *place: str | int, to: Any) -> None:
    document = json.loads(file.read_text())
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = to
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("place", "to", "says"),
    [
        (
            ("version",),
            99,
            "'busbw results' of version 99; accepted is 'busbw results' of version 1: ",
        ),
        (("document",), 4, "this says 4 of version 1; accepted is 'busbw results' of "),
        (("environment",), None, "environment: expected an object"),
        (("environment", "key", "ranks"), "4", "environment.key.ranks: expected a whole number"),
        (("cases",), {}, "cases: expected a list"),
        (("cases", 1, "case", "payload_bytes"), "1K", "cases[1].case.payload_bytes"),
        (("cases", 1, "measured", "times_s"), [-1.0], "cases[1].measured.times_s"),
        (("cases",), [], "holds no time of an all-reduce"),
        (("cases", 1, "case", "mesh"), "2x", "cases[1].case: mesh: '2x' is not a mesh"),
        (("cases", 1, "case", "ranks"), 1, "one rank is no collective"),
        (("cases", 1, "measured", "times_s"), [1.7e308] * 2, "cases[1].measured.times_s[0]: exp"),
        (("environment", "key", "hosts"), 0, "environment.key.hosts: expected 1 to 1000000, got 0"),
        (("environment", "key", "mesh"), "x", "environment.key.mesh: 'x' is not a mesh"),
    ],
)
def test_damaged_results_arerefused_by_file_and_place(
    results: Path, place: tuple[str | int, ...], to: Any, says: str
) -> None:
    _changed(results, *place, to=to)
    refused(says, f"--curve={results}", "--gradient-bytes=1MiB")
    refused(str(results), f"--curve={results}", "--gradient-bytes=1MiB")


def test_damaged_baselines_arerefused_by_file_and_place(baseline: Path) -> None:
    _changed(baseline, "entries", 0, "sessions", 0, "times_us", to=[-1.0])
    says = f"{baseline}: document.entries[0].sessions[0].times_us[0]"
    refused(says, f"--curve={baseline}", "--gradient-bytes=1MiB")


def test_any_other_file_isrefused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps(wire.to_json(build.plan())))
    refused("neither results", f"--curve={file}", "--gradient-bytes=1MiB")


def test_failed_and_foreign_cases_are_not_part_of_the_curve(results: Path) -> None:
    _changed(results, "cases", 0, "outcome", to="FAILED")
    _changed(results, "cases", 1, "case", "collective", to="all_gather")
    (note,) = (
        one
        for one in estimate(f"--curve={results}", "--gradient-bytes=1MiB", "--json").document[
            "notes"
        ]
        if one.startswith("curve:")
    )
    assert "3 payloads from 1048576" in note
