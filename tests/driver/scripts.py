"""What driver tests ask for: cases and starters of the fake back end, with a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport
from busbw.driver.schedules import Stack
from busbw.driver.transport import Request, Starter
from busbw.model.case import Case
from busbw.model.launch import Injection, Plan
from busbw.model.machine import EnvironmentKey
from tests import build

PLAN = Plan(launches=1, samples=2)

# The world of the fake back end where no script says otherwise.
KEY = build.key(device_kind="Fake CPU")


def starter(python: str = sys.executable, **script: object) -> Starter:
    """How to start a worker with the fake back end, which plays `script`."""
    return Starter(
        python=python, framework="fake", ranks=4, environment={"BUSBW_FAKE": json.dumps(script)}
    )


def stack(begin: Starter | None = None, injection: Injection | None = None) -> Stack:
    """Of the fake back end: as `begin` says, or with no script."""
    return Stack(starters={"fake": begin or starter()}, injection=injection)


def executor(bundle: Bundle, on_note: Callable[[str], None] = lambda note: None) -> Executor:
    """Starts workers on this host."""
    return Executor(LocalTransport(bundle), on_note)


def measure(payload_bytes: int = 1024, key: EnvironmentKey = KEY) -> Request:
    """The request to measure one case."""
    return Request("measure", {"case": case(payload_bytes), "plan": PLAN, "key": key})


def case(payload_bytes: int, framework: str = "fake") -> Case:
    """An all-reduce on four ranks."""
    return build.case(
        framework=framework, strategy="fake", payload_bytes=payload_bytes, protocol="host/fake"
    )


def keyed(*cases: Case, key: EnvironmentKey = KEY) -> dict[Case, EnvironmentKey]:
    """These cases, all resolved on one world."""
    return dict.fromkeys(cases, key)
