"""What driver tests ask for: cases and starters of the fake back end, with a script."""

from __future__ import annotations

import json
import sys

from busbw.driver import Starter
from busbw.model import Case, Plan

PLAN = Plan(launches=1, samples=2)


def starter(python: str = sys.executable, **script: object) -> Starter:
    """How to start a worker with the fake back end, which plays `script`."""
    return Starter(
        python=python, framework="fake", ranks=4, environment={"BUSBW_FAKE": json.dumps(script)}
    )


def case(payload_bytes: int, framework: str = "fake") -> Case:
    """An all-reduce on four ranks."""
    return Case(
        framework=framework,
        payload_bytes=payload_bytes,
        collective="all_reduce",
        strategy="fake",
        dtype="float32",
        reduce_op="sum",
        ranks=4,
        mesh="",
        placement="in_place",
        protocol="fake",
    )
