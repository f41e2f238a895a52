"""How the fake compiler writes a collective: a file each, found because it bears its name.

Each has one function, ``lower(case, result)``: the instruction's right-hand side without what all
have in common; `result` is the shape that a rank gets.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

from busbw.collectives import COLLECTIVES
from busbw.model import Case, FailureKind
from busbw.worker.backends.base import MeasuringError


def lower(case: Case) -> str:
    """The instruction of `case`. Raises MeasuringError UNAVAILABLE where it has no file here."""
    if importlib.util.find_spec(f"{__name__}.{case.collective}") is None:
        raise MeasuringError(FailureKind.UNAVAILABLE, f"the fake has no {case.collective}")
    one: Callable[[Case, str], str] = importlib.import_module(f"{__name__}.{case.collective}").lower
    collective = COLLECTIVES[case.collective]
    size = collective.output_bytes(case.payload_bytes, case.group_size)
    return f"%{collective.hlo}.1 = {one(case, f'f32[{size // 4}]{{0}}')}"


def groups(case: Case) -> str:
    """Over which ranks, as XLA lists them."""
    listed = ",".join("{" + ",".join(map(str, one)) + "}" for one in case.groups)
    return f"channel_id=1, replica_groups={{{listed}}}"
