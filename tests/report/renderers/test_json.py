"""Tables as JSON."""

from __future__ import annotations

import json

from busbw.report.renderers import rendered
from busbw.report.session import session_tables
from tests import build

from .tables import TABLE


def test_each_row_is_an_object_with_raw_values_by_ids_that_hold_the_units() -> None:
    assert json.loads("\n".join(rendered("json", TABLE))) == [
        {"payload_bytes": 4096, "median_s": 1e-3, "busbw_gb_per_s": 1.5, "outcome": "PASS"},
        {"payload_bytes": 2**20, "median_s": None, "busbw_gb_per_s": None, "outcome": "FAILED"},
    ]


def test_the_table_of_a_session_has_seconds_and_bytes() -> None:
    (table,) = session_tables([build.verdict(ratio=1.5)], {}, verbose=True)
    (row,) = json.loads("\n".join(rendered("json", table)))
    assert (row["payload_bytes"], row["best_s"], row["median_s"]) == (4096, 9e-4, 1e-3)
    assert (row["ratio"], row["outcome"]) == (1.5, "PASS")
