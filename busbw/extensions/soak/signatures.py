"""Compare the order of summation of a case with its reference, and list the orders by payload.

A signature is a hash of a sum's result, and the orders of summation that give this result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from busbw.judge.decision import Finding
from busbw.model.case import CaseSpec
from busbw.model.launch import Measurement, Run
from busbw.model.stored import Record, setup_changes
from busbw.model.verdict import Verdict
from busbw.model.words import payload_text, plural
from busbw.report.table import Column, Table, TextLine, make_rows
from busbw.session.state import MeasuredSession

SIGNATURE_VALUE = "signature"
# The type of a signature, such as ``5e1c09af ring``.
Signature = str

_ORDER_COLUMNS = (
    Column("group", is_fitted_to_cells=True, left_aligned=True),
    Column("orders", left_aligned=True, gap=2),
)


def signature_finding(
    measured_session: MeasuredSession, spec: CaseSpec, verdict: Verdict
) -> Finding:
    """Return the finding on the order of summation of the case `spec`.

    If the order changed or varies between launches, the finding contains a note or, with
    --require-signature, a failure. With this option, a signature that only the session or only the
    reference has is a failure, too. A case without a reference never fails.
    """
    # The cases of a soak have no measurements.
    if spec not in measured_session.measurements:
        return Finding()
    runs = measured_session.measurements[spec].runs
    reference = _reference_launches(measured_session, spec)
    is_required = bool(reference) and "require_signature" in measured_session.options.extra
    text = order_problem_text(runs, reference, is_required=is_required)
    if is_required:
        return Finding(failure=text)
    return Finding(notes=(text,) if text else ())


def order_problem_text(
    runs: Sequence[Run], reference: Sequence[Run | Record], *, is_required: bool = False
) -> str:
    """Return a sentence on a changed order of summation, or on an order that varies by launch.

    The text is empty if the order did not change.

    Args:
        runs: The runs of the case, a run for each launch.
        reference: The launches of the reference; empty without a reference.
        is_required: Whether a signature that is missing on one of both sides is a problem, too.

    """
    signatures = _find_signatures(runs)
    old_signatures = _find_signatures(reference)
    if len(signatures) > 1:
        count = plural(len(runs), "launch")
        return f"no signature: {count} added up in several orders: {', '.join(signatures)}"
    if not runs or not reference or signatures == old_signatures:
        return ""
    old_signature = "none" if len(old_signatures) > 1 else old_signatures[0]
    if "none" in (old_signature, signatures[0]) and not is_required:
        return ""
    stack_changes = ", ".join(setup_changes(reference[0].versions, runs[0].versions))
    stack = stack_changes or "the same stack: a fault, or an order that is chosen by chance"
    return f"another order of additions ({stack}): {old_signature} -> {signatures[0]}"


def _find_signatures(launches: Iterable[Run | Record]) -> list[str]:
    """Return the different signatures of `launches`; a launch without a signature has ``none``."""
    return sorted({str(launch.extra.get(SIGNATURE_VALUE) or "none") for launch in launches})


def _reference_launches(
    measured_session: MeasuredSession, spec: CaseSpec
) -> Sequence[Run | Record]:
    """Return the reference of a case, for the comparison of signatures.

    Returns the runs of the other stack if two stacks are interleaved, and otherwise the newest
    session of the baseline. The result is empty without a baseline of the same protocol.
    """
    if measured_session.options.is_paired:
        return measured_session.references[spec].runs
    job = measured_session.jobs[spec]
    baseline = job.baseline_search.baseline
    if baseline is None or baseline.case.protocol != job.case.protocol:
        return ()
    return baseline.records[-1:]


def order_tables(measurements: Iterable[Measurement]) -> list[Table]:
    """Return a table with the orders of summation, and the payloads from which they are used.

    The table has a row for each family of cases in which the order changes with the payload: no
    order is possible at all payloads. The list is empty without such a family. Cases without a
    signature, with launches in different orders, or with a result that any order gives are left
    out.
    """
    keys: list[tuple[str, int, str]] = []
    for measurement in measurements:
        signatures = _find_signatures(measurement.runs)
        order = signatures[0].partition(" ")[2] if len(signatures) == 1 else ""
        if order not in ("", "any order"):
            keys.append((measurement.case.family_name, measurement.case.payload_bytes, order))
    starts: dict[str, list[str]] = defaultdict(list)
    common_orders: dict[str, set[str]] = defaultdict(set)
    for family, payload_bytes, order in sorted(keys):
        orders = set(order.split(" or "))
        # The signatures of successive payloads can name different orders with an order in common.
        if not common_orders[family] & orders:
            starts[family].append(f"{order} from {payload_text(payload_bytes)}")
        common_orders[family] = common_orders[family] & orders or orders
    rows = [
        {"group": family, "orders": ", ".join(texts)}
        for family, texts in starts.items()
        if len(texts) > 1
    ]
    if not rows:
        return []
    return [
        Table(
            title=TextLine("order of summation, by payload:"),
            columns=_ORDER_COLUMNS,
            rows=make_rows(rows),
            indent=4,
        )
    ]
