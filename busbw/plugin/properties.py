"""A verdict's numbers as properties of a test report: JUnit XML carries them."""

from __future__ import annotations

from busbw.model import CompiledVerdict, Verdict


def properties_of(verdict: Verdict) -> list[tuple[str, object]]:
    """Name and value of every number that the verdict has; the unit is in the name."""
    found: list[tuple[str, object]] = [("outcome", verdict.outcome.value)]
    if verdict.case is not None:
        found += [("payload_bytes", verdict.case.payload_bytes), ("ranks", verdict.case.ranks)]
    if verdict.now is not None:
        found += [("median_s", verdict.now.median_s), ("best_s", verdict.now.best_s)]
        if not verdict.spec.step:
            found += [
                ("algbw_gb_per_s", verdict.now.algbw_gb_per_s),
                ("busbw_gb_per_s", verdict.now.busbw_gb_per_s),
            ]
        if verdict.now.dispatch_s is not None:
            found.append(("dispatch_s", verdict.now.dispatch_s))
    if verdict.ceiling_share is not None:
        found.append(("ceiling_share", verdict.ceiling_share))
    if verdict.baseline is not None:
        found.append(("baseline_median_s", verdict.baseline.median_s))
    if verdict.ratio is not None:
        found.append(("ratio", verdict.ratio))
    if verdict.limit is not None:
        found.append(("limit", verdict.limit))
    return found


def compiled_properties_of(verdict: CompiledVerdict) -> list[tuple[str, object]]:
    """Name and value of what was compiled; the unit is in the name."""
    found: list[tuple[str, object]] = [
        ("outcome", verdict.outcome.value),
        ("topology", verdict.spec.topology),
    ]
    if verdict.release:
        found.append(("compiler", verdict.release))
    if verdict.case is not None:
        found += [("payload_bytes", verdict.case.payload_bytes), ("ranks", verdict.case.ranks)]
    if verdict.now is not None:
        found += [
            ("algorithm", verdict.now.algorithm_text),
            ("temporary_bytes", verdict.now.temporary_bytes),
            ("peak_bytes", verdict.now.peak_bytes),
        ]
    return found
