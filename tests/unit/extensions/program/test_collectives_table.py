"""The table of a program's collectives."""

from __future__ import annotations

import dataclasses

import pytest

from busbw.extensions.program.table import collectives_table, traffic_bytes
from busbw.extensions.program.worker_values import CollectiveUse

SUM = CollectiveUse(
    kind="all_reduce", dtype="float32", payload_bytes=1 << 20, ranks=8, reduce_op="sum", times=3
)


@pytest.mark.parametrize(
    ("changed", "traffic"),
    [
        ({}, 3 * 2 * 7 / 8 * 2**20),
        ({"ranks": 1, "groups": 8}, 0),
        ({"ranks": 0, "groups": 0}, None),
        ({"per_iteration": True}, None),
        ({"kind": "ragged-all-to-all"}, None),
    ],
    ids=["a ring", "groups of one", "unknown groups", "unknown count", "no factor"],
)
def test_the_traffic_of_a_collective_is_the_number_of_bytes_that_a_ring_sends(
    changed: dict[str, object], traffic: float | None
) -> None:
    assert traffic_bytes(dataclasses.replace(SUM, **changed)) == traffic  # type: ignore[arg-type]


def test_the_note_below_the_table_of_collectives_counts_no_bytes_of_groups_of_one_rank() -> None:
    alone = dataclasses.replace(SUM, ranks=1, groups=8)
    assert collectives_table((SUM, alone)).notes == (
        "a step: 3.0 MiB of payloads, 5.2 MiB over each rank's link in rings",
    )
