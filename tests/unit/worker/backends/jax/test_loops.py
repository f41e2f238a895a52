"""The programs of `tests.unit.extensions.program.loops`, compiled for each chip and counted."""

from __future__ import annotations

import pytest

from tests.helpers import frameworks as real
from tests.unit.extensions.compiled.test_user_programs_jax import _programs
from tests.unit.extensions.program.test_loops import EXPECTED, expected, rows_of

pytestmark = [real.needs("jax"), pytest.mark.exhaustive]

CHIPS = ("v4:2x2x2", "v5e:2x4", "v5p:2x2x2", "v6e:2x4", "tpu7x:2x2x1", "h100:8")
NAMES = {"v4:2x2x2": "v4", "v5p:2x2x2": "v5p"}


@pytest.mark.parametrize("topology", CHIPS)
def test_each_chip_runs_what_was_counted_by_hand(topology: str) -> None:
    if real.compilers([topology])[topology].devices is None:
        pytest.skip(f"there is no compiler for {topology} here")
    sources = {name: f"tests/unit/extensions/program/loops.py:{name}" for name in EXPECTED}
    compiled = _programs(sources, topology)
    for name in EXPECTED:
        rows = rows_of(compiled[name].uses)
        assert rows == expected(f"{name}.{NAMES.get(topology, topology)}"), name
