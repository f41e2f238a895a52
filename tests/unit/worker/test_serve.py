"""The worker's side of the channel: each request has exactly one reply, in order."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from busbw import wire
from busbw.model.launch import LaunchId
from busbw.worker.host import HostMemoryGuard
from busbw.worker.measure import MeasuringWorker
from busbw.worker.serve import serve
from tests.helpers import build
from tests.unit.worker.scripted import ScriptedBackend, ScriptedProgram

Reply = tuple[str, Any]

TURN, CLOSE = ({"request": name} for name in ("sample", "close"))


def _request(name: str, **changes: Any) -> dict[str, Any]:
    """Return a request that names a case."""
    plan = build.plan(samples=2, budget_s=1e6)
    whole = {"case": build.case(), "plan": plan, "key": build.key(), "injection": None}
    values = {word: wire.to_json(value) for word, value in {**whole, **changes}.items()}
    return {"request": name, **values}


def _replies(*requests: dict[str, Any], program: ScriptedProgram | None = None) -> list[Reply]:
    """Return all replies of a worker."""
    lines = io.StringIO("".join(json.dumps(request) + "\n" for request in requests))
    answers, launch = io.StringIO(), LaunchId.parse("2.1")
    backend = ScriptedBackend(program or ScriptedProgram(lambda _: 1.0))
    serve(
        lines,
        answers,
        MeasuringWorker(backend, launch, HostMemoryGuard(backend.all_gather)),
        launch,
    )
    replies = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert all(set(reply) == {"reply", "value"} for reply in replies)
    return [(reply["reply"], reply["value"]) for reply in replies]


@pytest.mark.parametrize(
    ("wrong_at", "names"),
    [(0, ["NoneType", "Failure"]), (4, ["NoneType", "bool", "bool", "Failure"])],
)
def test_a_worker_can_open_the_next_case_after_a_failed_case(
    wrong_at: int, names: list[str]
) -> None:
    requests = [_request("open"), TURN, TURN][: len(names) - 1]
    replies = _replies(
        *requests,
        _request("open"),
        TURN,
        CLOSE,
        program=ScriptedProgram(lambda _: 1.0, wrong_at=wrong_at),
    )
    assert [name for name, _ in replies] == [*names, "bool", "bool", "Run"]


def test_an_invalid_request_raises_an_error_that_names_the_invalid_key() -> None:
    with pytest.raises(wire.WireError, match=r"plan\.lunches: unknown key"):
        _replies({**_request("measure"), "plan": {"lunches": 3}})
