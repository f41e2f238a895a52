"""Which topologies the words for families mean."""

from __future__ import annotations

import pytest

from busbw.extensions.compiled.compilers import topologies_of


@pytest.mark.parametrize(
    ("text", "count", "first"),
    [
        ("all", 12, "v2:2x2"),
        ("tpu", 7, "v2:2x2"),
        ("gpu", 5, "a100:8"),
        ("v5e:2x4,tpu", 7, "v5e:2x4"),
    ],
)
def test_a_family_is_one_topology_of_each_chip_and_none_twice(
    text: str, count: int, first: str
) -> None:
    names = [topology.name for topology in topologies_of(text)]
    assert (len(names), names[0], len(set(names))) == (count, first, count)
