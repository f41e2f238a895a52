"""The order of summation, which signatures tell: a gate, and the payloads at which it changes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable

from busbw.judge.findings import Finding
from busbw.judge.summation_order import signature_of
from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.verdict import Verdict
from busbw.model.words import payload_text
from busbw.report.table import Column, Table, TextLine, rows_of
from busbw.session.judgement import order_change
from busbw.session.state import Measured


def finding_at(measured: Measured, spec: Spec, verdict: Verdict) -> Finding:
    """Return a failure for another order of summation, with --require-signature.

    A signature that is missing on one side alone is a failure, too. A case that is compared with
    nothing has none.
    """
    if not measured.settings.extra["require_signature"]:
        return Finding()
    text, before = order_change(measured, spec)
    if before is None:
        return Finding()
    runs = measured.measurements[spec].runs
    after = signature_of(runs)
    if not text and runs and bool(before) is not bool(after):
        text = f"no signature to compare: {before or 'none'} -> {after or 'none'}"
    return Finding(failure=text)


def order_tables(measurements: Iterable[Measurement]) -> list[Table]:
    """Return a table of the payloads from which on the order of summation changes, or nothing.

    A case whose launches differ, or that has no signature, counts for no change.
    """
    orders_by_group: dict[str, list[tuple[int, str]]] = {}
    for measurement in measurements:
        orders = {run.signature.partition(" ")[2] for run in measurement.runs}
        if len(orders) == 1 and "" not in orders:
            case = measurement.case
            group = orders_by_group.setdefault(case.group_name, [])
            group.append((case.payload_bytes, orders.pop()))
    rows = []
    for name, payloads in orders_by_group.items():
        alike = itertools.groupby(sorted(payloads), key=operator.itemgetter(1))
        starts = [f"{order} from {payload_text(next(cases)[0])}" for order, cases in alike]
        rows += [{"group": name, "orders": ", ".join(starts)}] if len(starts) > 1 else []
    columns = (
        Column("group", fits=True, left_aligned=True),
        Column("orders", left_aligned=True, gap=2),
    )
    title = TextLine("order of summation, by payload:")
    return [Table(title=title, columns=columns, rows=rows_of(rows), indent=4)] if rows else []
