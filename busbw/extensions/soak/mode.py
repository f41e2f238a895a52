"""Run and judge a soak: a session that compares every result, and times nothing.

Some errors occur in all iterations of a launch, and other errors occur only after hours. So each
launch soaks all cases, one after the other, and launches follow each other until the time is over.
The verdict on a case names a wrong element, or gives an upper bound for the rate of wrong results.
Results are compared in workers, by the module `worker_comparison`.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.schedules import RoundRunner, Side
from busbw.driver.transport import Request
from busbw.judge.decision import apply_findings
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, Measurement
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, bytes_text, plural
from busbw.report.figures import declare_figure_of_field
from busbw.session.measure import Display, make_observers, observed_values, round_runner_arguments
from busbw.session.options import Options
from busbw.session.run import Mode, measuring_mode, run_under_machine_lock
from busbw.session.state import JudgedSession, MeasuredSession

from .findings import health_finding
from .worker_comparison import Tally

SOAK_VALUE = "soak"
_CONFIDENCE = 0.95

# In a launch a case is soaked for at most the longer time. When the duration of --soak is over, the
# other cases of the launch are soaked for at most the shorter time.
_MAX_CASE_S = 60.0
_MIN_CASE_S = 0.1

# The outcomes of cases with a failure. A case with any other failure is FAILED.
_OUTCOMES_BY_FAILURE = {
    FailureKind.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
    FailureKind.OTHER_DTYPE: Outcome.SKIPPED,
}


def requested_mode(options: Options) -> Mode | None:
    """Return the mode that soaks the cases of a session, or None without --soak."""
    if SOAK_VALUE not in options.extra:
        return None
    return replace(
        measuring_mode(replace(options, require_baselines=False)),
        run_cases=partial(run_under_machine_lock, run_resolved=soak_and_judge),
    )


def soak_and_judge(
    resolved_session: MeasuredSession, executor: Executor, display: Display
) -> JudgedSession:
    """Soak the cases of a session, and return the session with the verdicts on its cases.

    After an interrupt, the verdicts so far are shown, and KeyboardInterrupt is raised again.

    Args:
        resolved_session: The session before measuring, whose option --soak gives the duration.
        executor: Starts the launches.
        display: Shows the progress, and the verdicts after an interrupt.

    """
    observers = make_observers(resolved_session, executor)
    arguments = round_runner_arguments(resolved_session, executor, display, observers)
    # The time that is left is shown in place of the round.
    arguments.pop("on_progress")
    runner = SoakRunner(
        **arguments,
        duration_s=resolved_session.options.extra[SOAK_VALUE],
        display=display,
    )
    try:
        runner.run()
    except KeyboardInterrupt:
        for verdict in judge_soak(resolved_session, runner).verdicts.values():
            display.write_line(f"{verdict.spec.id}: {verdict.headline()}")
        raise
    return judge_soak(replace(resolved_session, extra=observed_values(observers)), runner)


@dataclass
class SoakRunner(RoundRunner):
    """The launches of a soak, each of which soaks all cases, and the results so far.

    Attributes:
        duration_s: The duration of the soak in seconds, from the first request on.
        display: Shows the case that is soaked, and the time that is left.
        tallies: Maps each case to how much was compared so far.

    """

    duration_s: float = 0.0
    display: Display = field(default_factory=Display)
    tallies: dict[Case, Tally] = field(default_factory=lambda: defaultdict(Tally))
    _end_s: float = math.inf

    def run(self) -> None:
        """Soak all cases again and again until the duration is over, or until all cases failed.

        A case that failed is not soaked again.
        """
        cases = list(self.cases)
        while cases and time.monotonic() < self._end_s:
            self.run_rounds(cases, 1)
            cases = [case for case in cases if not self._results[Side.CANDIDATE, case]]

    def _ask_and_store_result(
        self, side: Side, group: Group, case: Case, name: str
    ) -> Tally | Failure:
        """Soak a case in the workers of `group` for some time, and record and return the reply.

        The time is the duration of the soak divided by the number of cases, but at most
        _MAX_CASE_S seconds. A Tally is added to `tallies`, and a Failure to the results of `case`
        with the stack `side`. `name` is not used: it is the request that measuring would send.
        """
        self._end_s = min(self._end_s, time.monotonic() + self.duration_s)
        left_s = max(_MIN_CASE_S, self._end_s - time.monotonic())
        self.display.show_status(f"busbw: soaking {case.name}, {left_s:.0f} s left")
        seconds = min(left_s, _MAX_CASE_S, self.duration_s / len(self.cases))
        values = {"case": case, "plan": self.plan, "key": self.cases[case], "seconds": seconds}
        reply = group.ask(
            Request("soak", Tally, values), self.plan.timeout_s + seconds, f"soaking {case.name}"
        )
        if isinstance(reply, Failure):
            self._results[side, case].append(reply)
        else:
            self.tallies[case] += reply
        return reply


def judge_soak(soaked_session: MeasuredSession, runner: SoakRunner) -> JudgedSession:
    """Return a soaked session with its verdicts, including the notes on health counters.

    The returned session contains no measurements but those with failures, because a soak has no
    times.

    Args:
        soaked_session: The session with the extra values of the observers.
        runner: The runner that has soaked the cases of the session.

    """
    by_case = {measurement.case: measurement for measurement in runner.measurements()}
    failed: dict[CaseSpec, Measurement] = {}
    verdicts: dict[CaseSpec, Verdict] = {}
    for spec in soaked_session.specs:
        if spec in soaked_session.skipped_verdicts:
            verdicts[spec] = replace(
                soaked_session.skipped_verdicts[spec], extra={SOAK_VALUE: Tally()}
            )
            continue
        measurement = by_case[soaked_session.jobs[spec].case]
        if measurement.failures:
            failed[spec] = measurement
        verdict = judge_soaked_case(spec, measurement, runner.tallies[measurement.case])
        verdicts[spec] = apply_findings(verdict, [health_finding(soaked_session, spec, verdict)])
    total = sum(runner.tallies.values(), Tally())
    return JudgedSession(
        session_verdict=judge_soak_session(verdicts.values(), total),
        verdicts=verdicts,
        observations=replace(soaked_session, measurements=failed, measuring_s=total.soaked_s),
    )


def judge_soaked_case(spec: CaseSpec, measurement: Measurement, tally: Tally) -> Verdict:
    """Return the verdict on a case of a soak: PASS if iterations ran and no result was wrong.

    The case is SKIPPED if there was no time for an iteration.

    Args:
        spec: The case as it was selected.
        measurement: Has the case on the devices of the session and, if a failure such as a wrong
            result ended the soak of the case, the failure.
        tally: How much was compared.

    """
    failure = next(iter(measurement.failures), None)
    outcome = Outcome.SKIPPED
    text = "there was no time for an iteration"
    if failure is not None:
        outcome = _OUTCOMES_BY_FAILURE.get(failure.kind, Outcome.FAILED)
        text = f"{failure.kind.text}: {failure.first_line}"
    elif tally.iterations:
        outcome = Outcome.PASS
        text = no_corruption_text(tally)
    return Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.FAILED,
        text=text,
        case=measurement.case,
        failure=failure,
        extra={SOAK_VALUE: tally},
    )


def judge_soak_session(verdicts: Collection[Verdict], total: Tally) -> SessionVerdict:
    """Return the verdict on a soak: FAILED if a case failed, and otherwise PASS or NO_VERDICT.

    The outcome is NO_VERDICT if a case ran out of memory, or if no case passed. A SKIPPED case does
    not prevent PASS. A case is SKIPPED if this device cannot run it in the requested dtype.

    Args:
        verdicts: The verdicts on all selected cases.
        total: How much was compared in all cases together.

    """
    counts = Counter(verdict.outcome for verdict in verdicts)
    outcome = SessionOutcome.NO_VERDICT
    amount = amount_text(total)
    if counts[Outcome.FAILED]:
        outcome = SessionOutcome.FAILED
    elif counts[Outcome.PASS] and not counts[Outcome.OUT_OF_MEMORY]:
        outcome = SessionOutcome.PASS
        amount = no_corruption_text(total)
    others = [f"{count} {other.value}" for other, count in counts.items() if other != Outcome.PASS]
    text = ", ".join([plural(len(verdicts), "case"), *others, amount])
    return SessionVerdict(outcomes=(outcome,), text=text)


def no_corruption_text(tally: Tally) -> str:
    """Return a text with the compared amount, and an upper bound for the rate of wrong results.

    `tally` has one iteration or more, all with right results. The bound is the upper end of the
    confidence interval of Clopper and Pearson (1934) for 0 wrong results. If a share p of all
    iterations gave wrong results, a wrong result would have been seen with the probability
    1 - (1 - p)^iterations. Iterations are assumed to be independent.
    """
    share = -math.expm1(math.log1p(-_CONFIDENCE) / tally.iterations)
    bound = f"error rate below 1 in {float(f'{1 / share:.2g}'):,.0f}"
    return f"{amount_text(tally)}, no corruption; {bound}, {100 * _CONFIDENCE:.0f} % confidence"


def amount_text(tally: Tally) -> str:
    """Return how much was compared, such as ``1.1 million iterations, 2.6 TB compared``."""
    iterations = plural(tally.iterations, "iteration")
    if tally.iterations >= 1e6:
        iterations = f"{tally.iterations / 1e6:,.1f} million iterations"
    return f"{iterations}, {large_bytes_text(tally.compared_bytes)} compared"


def large_bytes_text(byte_count: int) -> str:
    """Return a number of bytes as a text such as ``2.6 TB``.

    Below 10^12 bytes the text is that of `bytes_text`, which has no TB.
    """
    return f"{byte_count / 1e12:.1f} TB" if byte_count >= 1e12 else bytes_text(byte_count)


_tally_figure = partial(
    declare_figure_of_field, lambda verdict: verdict.extra[SOAK_VALUE], is_fitted_to_cells=True
)
FIGURES = (
    _tally_figure("iterations", "iterations", text="{:,}".format),
    _tally_figure("compared_bytes", "compared", text=large_bytes_text, width=9),
    _tally_figure("soaked_s", "time", unit="s", text="{:.0f}".format, width=5),
)
