"""The order of summation, which signatures tell: a gate, and the payloads at which it changes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence

from busbw.judge.findings import Finding
from busbw.model.case import Spec
from busbw.model.launch import Measurement, Run
from busbw.model.stored import setup_changes
from busbw.model.verdict import Verdict
from busbw.model.words import payload_text, plural
from busbw.report.table import Column, Table, TextLine, rows_of
from busbw.session.state import Measured

NAME = "signature"


def finding_at(measured: Measured, spec: Spec, verdict: Verdict) -> Finding:
    """Return a note on another order of summation, a failure with --require-signature.

    A signature that is missing on one side alone is a failure, too. A case that is compared with
    nothing has none.
    """
    # A soak measures nothing.
    if spec not in measured.measurements:
        return Finding()
    runs, before = measured.measurements[spec].runs, _before(measured, spec)
    signature, versions = before or ("", {})
    since = setup_changes(versions, runs[0].versions) if before is not None and runs else ()
    text = change_text(runs, signature, since)
    if before is None or "require_signature" not in measured.options.extra:
        return Finding(notes=(text,) if text else ())
    after = signature_of(runs)
    if not text and runs and bool(signature) is not bool(after):
        text = f"no signature to compare: {signature or 'none'} -> {after or 'none'}"
    return Finding(failure=text)


def signature_of(runs: Sequence[Run]) -> str:
    """Return the signature that all launches have; empty without a signature, or with several."""
    signatures = {str(run.extra.get(NAME, "")) for run in runs}
    return signatures.pop() if len(signatures) == 1 else ""


def change_text(runs: Sequence[Run], before: str, since: Sequence[str]) -> str:
    """Return how the order of additions changed, or that launches differ; empty for no change.

    Args:
        runs: The launches of the case.
        before: The signature that the case had, empty for none.
        since: The changes of the stack since then.

    """
    signatures = sorted({str(run.extra[NAME]) for run in runs if run.extra.get(NAME)})
    if len(signatures) > 1:
        count = plural(len(runs), "launch")
        return f"no signature: {count} added up in several orders: {', '.join(signatures)}"
    if before and signatures and before not in signatures:
        same = "the same stack: a fault, or an order that is chosen by chance"
        stack = ", ".join(since) or same
        return f"another order of additions ({stack}): {before} -> {signatures[0]}"
    return ""


def _before(measured: Measured, spec: Spec) -> tuple[str, Mapping[str, str]] | None:
    """Return the signature of the reference or of the baseline, and the versions with it."""
    job, baseline = measured.jobs[spec], measured.jobs[spec].stored.baseline
    reference = measured.references[spec].runs if measured.is_paired else ()
    if reference:
        return signature_of(reference), reference[0].versions
    if baseline is not None and baseline.case.protocol == job.case.protocol:
        newest = baseline.records[-1]
        return str(newest.extra.get(NAME, "")), newest.versions
    return None


def order_tables(measurements: Iterable[Measurement]) -> list[Table]:
    """Return a table of the payloads from which on the order of summation changes, or nothing.

    A case whose launches differ, or that has no signature, counts for no change.
    """
    orders_by_group: dict[str, list[tuple[int, str]]] = {}
    for measurement in measurements:
        orders = {str(run.extra.get(NAME, "")).partition(" ")[2] for run in measurement.runs}
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
        Column("group", fits=True, left_aligned=True),
        Column("orders", left_aligned=True, gap=2),
    )
    title = TextLine("order of summation, by payload:")
    return [Table(title=title, columns=columns, rows=rows_of(rows), indent=4)] if rows else []
