"""Compare the order of summation of a case with its reference, and list the orders by payload.

A signature is a hash of a sum's result, and the orders of summation that give this result.
"""

from __future__ import annotations

import itertools
import operator
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
    old_signature, signature = common_signature(reference), common_signature(runs)
    has_both = bool(reference and runs)
    changes = setup_changes(reference[0].versions, runs[0].versions) if has_both else ()
    text = order_problem_text(runs, old_signature, changes)
    if not reference or "require_signature" not in measured_session.options.extra:
        return Finding(notes=(text,) if text else ())
    if not text and runs and bool(old_signature) is not bool(signature):
        text = f"no signature to compare: {old_signature or 'none'} -> {signature or 'none'}"
    return Finding(failure=text)


def common_signature(launches: Sequence[Run | Record]) -> str:
    """Return the signature that all launches share; empty if they do not share a signature."""
    signatures = {str(launch.extra.get(SIGNATURE_VALUE, "")) for launch in launches}
    return signatures.pop() if len(signatures) == 1 else ""


def order_problem_text(
    runs: Sequence[Run], reference_signature: str, stack_changes: Sequence[str]
) -> str:
    """Return a sentence on a changed order of summation, or on an order that varies by launch.

    The text is empty if the order did not change.

    Args:
        runs: The runs of the case, a run for each launch.
        reference_signature: The signature of the reference; empty if the reference has no
            signature.
        stack_changes: Texts on the changes of the stack since the reference was recorded.

    """
    signatures = sorted(
        {str(run.extra[SIGNATURE_VALUE]) for run in runs if run.extra.get(SIGNATURE_VALUE)}
    )
    if len(signatures) > 1:
        count = plural(len(runs), "launch")
        return f"no signature: {count} added up in several orders: {', '.join(signatures)}"
    if reference_signature and signatures and reference_signature not in signatures:
        same = "the same stack: a fault, or an order that is chosen by chance"
        stack = ", ".join(stack_changes) or same
        return f"another order of additions ({stack}): {reference_signature} -> {signatures[0]}"
    return ""


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

    The table has a row for each family of cases in which the order changes with the payload. The
    list is empty without such a family. Cases without a signature, or with launches in different
    orders, are left out.
    """
    orders_by_group: dict[str, list[tuple[int, str]]] = {}
    for measurement in measurements:
        orders = {
            str(run.extra.get(SIGNATURE_VALUE, "")).partition(" ")[2] for run in measurement.runs
        }
        if len(orders) == 1 and "" not in orders:
            case = measurement.case
            group = orders_by_group.setdefault(case.family_name, [])
            group.append((case.payload_bytes, orders.pop()))
    rows = []
    for name, payloads in orders_by_group.items():
        alike = itertools.groupby(sorted(payloads), key=operator.itemgetter(1))
        starts = [f"{order} from {payload_text(next(cases)[0])}" for order, cases in alike]
        rows += [{"group": name, "orders": ", ".join(starts)}] if len(starts) > 1 else []
    columns = (
        Column("group", is_fitted_to_cells=True, left_aligned=True),
        Column("orders", left_aligned=True, gap=2),
    )
    title = TextLine("order of summation, by payload:")
    return [Table(title=title, columns=columns, rows=make_rows(rows), indent=4)] if rows else []
