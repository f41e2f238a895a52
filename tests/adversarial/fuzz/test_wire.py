"""The channel between driver and worker in both directions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw import wire
from busbw.driver import transport
from busbw.judge.case import JudgingSettings, judge_case
from busbw.judge.policy import POLICIES
from busbw.model.case import Case
from busbw.model.launch import Failure, MeasurementPlan, Run
from busbw.model.machine import Probe
from busbw.model.words import DeviceClass
from busbw.report.session import session_tables
from busbw.report.table import render
from busbw.worker.serve import request_value
from tests.helpers import build
from tests.helpers.damage import bounded, documents, fuzzed
from tests.helpers.results_files import results
from tests.unit.judge.rules import limit_of

CASE = build.case()
TERMS = JudgingSettings(policy=POLICIES[DeviceClass.CPU], case_count=1, planned_launch_count=3)
RUN = build.run(
    *(1e-3, 1.1e-3),
    clocks_s={"host": 1e-3, "device": 9e-4},
    dispatch_s=1e-5,
    rank_times_s=(1e-3, 2e-3),
)
DEVICES = build.device_set(DeviceClass.TPU, mesh="2x4")
# What answers a request, by its kind.
VALID: dict[type, list[Any]] = {
    type(None): [None],
    Probe: [build.probe(DEVICES, build.device_set(), gpu="no driver")],
    Run: [RUN, build.out_of_memory(needed_bytes=5)],
    bool: [True, build.failure()],
}


def _reply(value: object) -> dict[str, Any]:
    return {"reply": type(value).__name__, "value": wire.to_json(value)}


def _judged(reply: Run | Failure) -> None:
    """Judge and render an answer that was accepted as valid."""
    runs = (reply,) if isinstance(reply, Run) else ()
    failures = (reply,) if isinstance(reply, Failure) else ()
    measured = replace(build.measurement(), case=CASE, runs=runs, failures=failures)
    for baseline in (None, build.baseline(1e-3, 1.1e-3), build.baseline()):
        limit = limit_of(baseline, measured, TERMS.policy)
        verdict = judge_case(build.spec(), measured, baseline, limit, TERMS).verdict
        assert verdict.explain()
        assert render("text", *session_tables([verdict], ()))
        assert json.dumps(results(verdict, measurements={verdict.spec: measured}), allow_nan=False)


@pytest.mark.parametrize("kind", VALID)
@fuzzed
@given(data=st.data())
def test_any_line_from_a_worker_is_a_usable_reply_or_refused(
    kind: type, data: st.DataObject
) -> None:
    line = data.draw(documents(*map(_reply, VALID[kind])))
    with bounded():
        try:
            reply = transport.parse_reply(line, kind)
        except wire.WireError as error:
            assert str(error)
        else:
            assert isinstance(reply.answer, kind | Failure)
            if isinstance(reply.answer, Run | Failure):
                _judged(reply.answer)


REQUEST = {
    "request": "measure",
    "case": wire.to_json(CASE),
    "plan": wire.to_json(build.plan()),
    "key": wire.to_json(build.key()),
}


@fuzzed
@given(content=documents(REQUEST))
def test_any_object_from_the_driver_is_a_request_or_refused(content: bytes) -> None:
    with bounded():
        try:
            request = wire.parse_json(content)
            if isinstance(request, dict):
                request_value(request, "request", str)
                request_value(request, "case", Case)
                request_value(request, "plan", MeasurementPlan)
        except wire.WireError as error:
            assert str(error)
