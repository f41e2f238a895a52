"""The verdicts of a soak: a wrong element, or an upper bound for the rate of wrong results."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw.judge.validity import out_of_memory_verdict
from busbw.model.case import Case, Spec
from busbw.model.field_types import Natural, NotNegative
from busbw.model.launch import NO_LAUNCH, Failure, LaunchId
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, bytes_text, plural
from busbw.report.figures import Figure

from .worker import SoakRun, WrongElement

NAME = "soak"
_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """The amount of a case that has been soaked so far, over all launches.

    `soaked_s` is the time in seconds. `compared_bytes` are the compared bytes of all processes.
    `mismatch` is the first wrong element, which the process number `process` of the launch `launch`
    found. `failure` is any other reason to stop soaking the case. `mismatch` and `failure` are None
    while the soak of the case continues.
    """

    iterations: Natural = 0
    compared_bytes: Natural = 0
    soaked_s: NotNegative = 0.0
    mismatch: WrongElement | None = None
    launch: LaunchId = NO_LAUNCH
    process: Natural = 0
    failure: Failure | None = None

    @property
    def is_over(self) -> bool:
        """Whether the soak of the case has stopped."""
        return self.mismatch is not None or self.failure is not None

    def with_reply(self, reply: SoakRun | Failure, process: int = 0) -> Tally:
        """Return the tally with the reply of the process number `process` added.

        All processes of a launch run the same iterations, which are counted only for process 0.
        """
        if isinstance(reply, Failure):
            return self if self.failure else replace(self, failure=reply)
        is_first = process == 0
        tally = replace(
            self,
            iterations=self.iterations + (reply.iterations if is_first else 0),
            compared_bytes=self.compared_bytes + reply.compared_bytes,
            soaked_s=self.soaked_s + (reply.seconds if is_first else 0.0),
        )
        if reply.mismatch is None or self.mismatch is not None:
            return tally
        before = tally.iterations - reply.iterations
        mismatch = replace(reply.mismatch, iteration=before + reply.mismatch.iteration)
        return replace(tally, mismatch=mismatch, launch=reply.launch, process=process)


def judge_soaked_case(spec: Spec, case: Case, tally: Tally, hosts: Sequence[str] = ()) -> Verdict:
    """Return the verdict on a case of a soak.

    `hosts` has the name of the host of each process; empty if all processes run on this host.
    """
    failure, outcome = tally.failure, Outcome.FAILED
    if tally.mismatch is not None:
        text = mismatch_text(tally.mismatch, hosts[tally.process] if hosts else "")
        kind = FailureKind.WRONG_RESULT
        failure = Failure(kind=kind, message=text, launch=tally.launch)
    if failure is not None and failure.kind is FailureKind.OUT_OF_MEMORY:
        verdict = out_of_memory_verdict(spec, failure, " (nothing was compared)", failed=False)
        return replace(verdict, case=case, extra={NAME: tally})
    if failure is not None and failure.kind is FailureKind.OTHER_DTYPE:
        text, outcome, failure = failure.message, Outcome.SKIPPED, None
    elif failure is not None:
        text = f"{failure.kind.text}: {failure.first_line}"
    elif tally.iterations:
        text, outcome = compared_text([tally]), Outcome.PASS
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
    verdicts: Sequence[Verdict], tallies: Mapping[Case, Tally]
) -> SessionVerdict:
    """Return the verdict on a soak: FAILED if a case failed, and otherwise PASS or NO_VERDICT.

    The outcome is NO_VERDICT if a case had no iteration, or if nothing was compared.
    """
    failed = sum(verdict.failed for verdict in verdicts)
    missing = sum(map(_lacks_iterations, tallies.values()))
    outcome, cases = SessionOutcome.NO_VERDICT, plural(len(verdicts), "case")
    text = f"{plural(len(tallies), 'case')}, {amount_text(tallies.values())}"
    if failed:
        outcome, text = SessionOutcome.FAILED, f"{failed} of {cases} failed; {text}"
    elif missing:
        text = f"{plural(missing, 'case')} without an iteration; {text}"
    elif not any(tally.iterations for tally in tallies.values()):
        text = f"no result was compared: {cases} skipped"
    else:
        outcome = SessionOutcome.PASS
        text = f"{plural(len(tallies), 'case')}, {compared_text(tallies.values())}"
    return SessionVerdict(outcomes=(outcome,), text=text)


def _lacks_iterations(tally: Tally) -> bool:
    """Return whether a case had no iteration for which the session must have no verdict.

    A case whose dtype the compiler replaced is excused: the requested program does not exist on
    this device, so that the case is SKIPPED.
    """
    other = tally.failure is not None and tally.failure.kind is FailureKind.OTHER_DTYPE
    return not tally.iterations and not other


def compared_text(tallies: Collection[Tally]) -> str:
    """Return the amount that was compared, and an upper bound for the rate of wrong results.

    The bound is the upper end of the exact interval of Clopper and Pearson (1934) without an event.
    If a share p of iterations were wrong, a wrong result would have been seen with the probability
    1 - (1 - p)^iterations. Iterations are assumed to be independent.
    """
    iterations = sum(tally.iterations for tally in tallies)
    share = -math.expm1(math.log1p(-_CONFIDENCE) / iterations)
    bound = f"error rate below 1 in {float(f'{1 / share:.2g}'):,.{int(share > 0.1)}f}"
    amount = amount_text(tallies)
    return f"{amount}, no corruption; {bound}, {100 * _CONFIDENCE:.0f} % confidence"


def amount_text(tallies: Collection[Tally]) -> str:
    """Return a text such as ``1.1 million iterations, 2.4 TiB compared``."""
    count = sum(tally.iterations for tally in tallies)
    compared_bytes = sum(tally.compared_bytes for tally in tallies)
    iterations = plural(count, "iteration")
    if count >= 10**6:
        iterations = f"{count / 10**6:.2g} million iterations"
    return f"{iterations}, {bytes_text(compared_bytes)} compared"


def mismatch_text(mismatch: WrongElement, host: str) -> str:
    """Return a text with the wrong element and the bits in which it is wrong.

    `host` is the name of the host on which the element was found; empty on a single host.
    """
    bits, where = mismatch.bits, f" ({host})" if host else ""
    return (
        f"rank {mismatch.rank}{where}, element {mismatch.element}, iteration "
        f"{mismatch.iteration}: {mismatch.actual:#x}, expected {mismatch.expected:#x} "
        f"(bit{'s' * (len(bits) > 1)} {', '.join(map(str, bits))})"
    )


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
