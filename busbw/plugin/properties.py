"""A verdict's numbers as properties of a test report: JUnit XML carries them."""

from __future__ import annotations

import statistics

from busbw.model import CompiledVerdict, Measurement, Verdict


def properties_of(verdict: Verdict) -> list[tuple[str, object]]:
    """Name and value of every number that the verdict has; the unit is in the name."""
    found: list[tuple[str, object]] = [("outcome", verdict.outcome.value)]
    if verdict.case is not None:
        found += [("payload_bytes", verdict.case.payload_bytes), ("ranks", verdict.case.ranks)]
    if verdict.now is not None:
        found += [("median_s", verdict.now.median_s), ("best_s", verdict.now.best_s)]
        if verdict.spec.workload.is_bare:
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


def training_properties_of(measurement: Measurement) -> list[tuple[str, object]]:
    """What training under a strategy gave, medians over launches; nothing for other cases."""
    runs = [run.training for run in measurement.runs if run.training is not None]
    if not runs:
        return []
    later_s = [epoch_s for run in runs for epoch_s in run.epochs_s[1:]]
    return [
        ("epoch_s", statistics.median(later_s)),
        ("first_epoch_s", statistics.median(run.epochs_s[0] for run in runs)),
        ("accuracy", statistics.median(run.accuracy for run in runs)),
    ]


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
