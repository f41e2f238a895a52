"""Sweeps: of many cases of one test the gate has the first, and `tox -e exhaustive` has the others.

Only for cases that take a session or a program each. No test lives here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sweep(cases: Iterable[Any], *, in_gate: int = 1) -> list[Any]:
    """Return the `cases` of a parametrized test, all but the first `in_gate` marked exhaustive.

    A tuple has a value for each name.
    """
    all_cases = list(cases)
    return [*all_cases[:in_gate], *map(_marked, all_cases[in_gate:])]


def _marked(case: Any) -> Any:
    mark = pytest.mark.exhaustive
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, mark], id=case.id)
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=mark)
