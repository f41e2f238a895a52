"""The verdicts of a soak: a wrong element, or an upper bound for the rate of wrong results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw.judge.validity import out_of_memory_verdict
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, bytes_text, plural
from busbw.report.figures import Figure

from .worker import Tally

NAME = "soak"
_CONFIDENCE = 0.95


def judge_soaked_case(spec: CaseSpec, case: Case, tally: Tally, failure: Failure | None) -> Verdict:
    """Return the verdict on a case of a soak.

    `failure` is the reason why the soak of the case stopped; None if it did not stop.
    """
    outcome = Outcome.FAILED
    if failure is not None and failure.kind is FailureKind.OUT_OF_MEMORY:
        verdict = out_of_memory_verdict(spec, failure, " (nothing was compared)", failed=False)
        return replace(verdict, case=case, extra={NAME: tally})
    if failure is not None and failure.kind is FailureKind.OTHER_DTYPE:
        text, outcome, failure = failure.message, Outcome.SKIPPED, None
    elif failure is not None:
        text = f"{failure.kind.text}: {failure.first_line}"
    elif tally.iterations:
        text, outcome = compared_text(tally), Outcome.PASS
    else:
        text, outcome = "there was no time for an iteration", Outcome.SKIPPED
    return Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.FAILED,
        text=text,
        case=case,
        failure=failure,
        extra={NAME: tally},
    )


def judge_soak_session(
    verdicts: Sequence[Verdict], tallies: Mapping[Case, Tally], failures: Mapping[Case, Failure]
) -> SessionVerdict:
    """Return the verdict on a soak: FAILED if a case failed, and otherwise PASS or NO_VERDICT.

    The outcome is NO_VERDICT if a case had no iteration, or if nothing was compared. A case whose
    dtype the compiler replaced may have no iteration: the requested program does not exist on this
    device, so that the case is SKIPPED.
    """
    failed = sum(verdict.failed for verdict in verdicts)
    excused = {case for case, fail in failures.items() if fail.kind is FailureKind.OTHER_DTYPE}
    missing = sum(not tally.iterations for case, tally in tallies.items() if case not in excused)
    total, count = sum(tallies.values(), Tally()), plural(len(tallies), "case")
    outcome, cases = SessionOutcome.NO_VERDICT, plural(len(verdicts), "case")
    text = f"{count}, {amount_text(total)}"
    if failed:
        outcome, text = SessionOutcome.FAILED, f"{failed} of {cases} failed; {text}"
    elif missing:
        text = f"{plural(missing, 'case')} without an iteration; {text}"
    elif not total.iterations:
        text = f"no result was compared: {cases} skipped"
    else:
        outcome, text = SessionOutcome.PASS, f"{count}, {compared_text(total)}"
    return SessionVerdict(outcomes=(outcome,), text=text)


def compared_text(tally: Tally) -> str:
    """Return the amount that was compared, and an upper bound for the rate of wrong results.

    The bound is the upper end of the exact interval of Clopper and Pearson (1934) without an event.
    If a share p of iterations were wrong, a wrong result would have been seen with the probability
    1 - (1 - p)^iterations. Iterations are assumed to be independent.
    """
    share = -math.expm1(math.log1p(-_CONFIDENCE) / tally.iterations)
    bound = f"error rate below 1 in {float(f'{1 / share:.2g}'):,.{int(share > 0.1)}f}"
    return f"{amount_text(tally)}, no corruption; {bound}, {100 * _CONFIDENCE:.0f} % confidence"


def amount_text(tally: Tally) -> str:
    """Return a text such as ``1.1 million iterations, 2.4 TiB compared``."""
    iterations = plural(tally.iterations, "iteration")
    if tally.iterations >= 10**6:
        iterations = f"{tally.iterations / 10**6:.2g} million iterations"
    return f"{iterations}, {bytes_text(tally.compared_bytes)} compared"


def _tally_figure(id: str, heading: str, **options: Any) -> Figure:
    """Return the column that shows the field `id` of the tally."""

    def compute(verdict: Verdict) -> Any:
        return getattr(verdict.extra[NAME], id)

    return Figure(id, heading, is_fitted_to_cells=True, compute=compute, **options)


FIGURES = (
    _tally_figure("iterations", "iterations", text="{:,}".format),
    _tally_figure("compared_bytes", "compared", text=bytes_text, width=9),
    _tally_figure("soaked_s", "time", unit="s", text="{:.0f}".format, width=5),
)
