"""A soak as a session mode: the tests that measure compare every result, and time nothing.

Cases are soaked by turns until the time is over. Some errors occur in all iterations of a launch,
and other errors occur only after hours. So a launch soaks for a few times as long as it took to
start, and then the next launch starts. The verdict on a case names a wrong element, or gives an
upper bound for the rate of wrong results. Results are compared in workers, by the module
`worker_comparison`.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.schedules import RoundRunner, Side
from busbw.driver.transport import Request
from busbw.judge.decision import merge_findings
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, Measurement
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, bytes_text, plural
from busbw.report.figures import declare_figure_of_field
from busbw.session.judge import findings_of_extensions
from busbw.session.measure import Display, make_observers, observed_values, runner_arguments
from busbw.session.options import Options
from busbw.session.run import Mode, measuring_mode, run_under_machine_lock
from busbw.session.state import JudgedSession, MeasuredSession

from .worker_comparison import Tally

SOAK_VALUE = "soak"
_CONFIDENCE = 0.95

# A launch soaks for this many times the mean duration of a start.
_SOAK_TIME_PER_START_TIME = 4.0
# A case is soaked for this time before the next case. When the duration of --soak is over, a case
# without an iteration is soaked for the shorter time.
_TURN_S = 2.0
_MIN_TURN_S = 0.1

# The outcomes of cases with a failure. A case with any other failure is FAILED.
_OUTCOMES = {
    FailureKind.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
    FailureKind.OTHER_DTYPE: Outcome.SKIPPED,
}


def mode_of(options: Options) -> Mode | None:
    """Return the session mode of a soak; None without --soak."""
    if SOAK_VALUE not in options.extra:
        return None
    return replace(
        measuring_mode(replace(options, require_baselines=False)),
        run_cases=partial(run_under_machine_lock, run_resolved=soak_and_judge),
    )


def soak_and_judge(
    resolved_session: MeasuredSession, executor: Executor, display: Display
) -> JudgedSession:
    """Soak the cases of a session, and return the session with their verdicts.

    After an interrupt, the verdicts so far are shown, and KeyboardInterrupt is raised again.

    Args:
        resolved_session: The cases and the devices. Its option --soak gives the duration.
        executor: Starts the launches.
        display: Shows the progress.

    """
    observers = make_observers(resolved_session, executor)
    arguments = runner_arguments(resolved_session, executor, display, observers)
    runner = SoakRunner(**arguments, duration_s=resolved_session.options.extra[SOAK_VALUE])
    begun_s = time.monotonic()
    try:
        runner.run()
    except KeyboardInterrupt:
        for verdict in judge_soak(resolved_session, runner).verdicts.values():
            display.write_line(f"{verdict.spec.id}: {verdict.headline()}")
        raise
    soaked_s = time.monotonic() - begun_s
    extra = observed_values(observers)
    return judge_soak(replace(resolved_session, measuring_s=soaked_s, extra=extra), runner)


@dataclass
class SoakRunner(RoundRunner):
    """The launches of a soak, each of which soaks its cases by turns, and the results so far.

    Attributes:
        duration_s: The time for which to soak in seconds, from the first iteration on.
        tallies: Maps each case to the amount that was compared so far.

    """

    duration_s: float = 0.0
    tallies: dict[Case, Tally] = field(default_factory=lambda: defaultdict(Tally))
    _end_s: float = math.inf

    def run(self) -> None:
        """Soak all cases until the duration is over, and each case has an iteration or failed."""
        while cases := self._unfinished_cases(self.cases):
            framework = cases[0].framework
            self.run_rounds([case for case in cases if case.framework == framework], 1)

    def _unfinished_cases(self, cases: Iterable[Case]) -> list[Case]:
        """Return those of `cases` that are to be soaked further, because no failure stopped them.

        The first case is the case that was soaked for the shortest time. When the duration is over,
        only cases without an iteration are soaked further.
        """
        is_late = time.monotonic() >= self._end_s
        unfinished = [
            case
            for case in cases
            if not self._results[Side.CANDIDATE, case]
            and not (is_late and self.tallies[case].iterations)
        ]
        return sorted(unfinished, key=lambda case: self.tallies[case].soaked_s)

    def _measure_cases(self, groups: Mapping[Side, Group], cases: Sequence[Case]) -> Sequence[Case]:
        group = groups[Side.CANDIDATE]
        mean_start_s = self.executor.spent_s["starting"] / self._round
        end_s = time.monotonic() + max(_TURN_S, _SOAK_TIME_PER_START_TIME * mean_start_s)
        self._notify_observers(None)
        unfinished = self._unfinished_cases(cases)
        while unfinished and time.monotonic() < end_s and not group.has_ended:
            self._soak_case(group, unfinished[0])
            unfinished = self._unfinished_cases(cases)
        # The next launch soaks all cases again, also after the end of a worker.
        return ()

    def _soak_case(self, group: Group, case: Case) -> None:
        """Soak `case` for about _TURN_S seconds in the workers of `group`, and record the result.

        The compared amount is added to `tallies`, or a failure to the results. A case with a
        failure is not soaked again. Observers are called at the end.
        """
        self._end_s = min(self._end_s, time.monotonic() + self.duration_s)
        left_s = max(0.0, self._end_s - time.monotonic())
        self.on_progress(f"busbw: soaking {case.name}, {left_s:.0f} s left")
        seconds = max(_MIN_TURN_S, min(_TURN_S, left_s))
        values = {"case": case, "plan": self.plan, "key": self.cases[case], "seconds": seconds}
        values["iterations"] = self.tallies[case].iterations
        request = Request("soak", Tally, values)
        reply = group.ask(request, self.plan.timeout_s + seconds, f"soaking {case.name}")
        if isinstance(reply, Failure):
            self._results[Side.CANDIDATE, case].append(reply)
        else:
            self.tallies[case] += reply
        self._notify_observers(case)


def judge_soak(observed: MeasuredSession, runner: SoakRunner) -> JudgedSession:
    """Return a soaked session with its verdicts, including the findings of extensions.

    Of the measurements, the session contains only those with failures, because a soak has no times.

    Args:
        observed: The session with the extra values of the observers.
        runner: The runner that has soaked the cases of the session.

    """
    failed = {result.case: result for result in runner.measurements() if result.failures}
    verdicts = {
        spec: replace(verdict, extra={SOAK_VALUE: Tally()})
        for spec, verdict in observed.skipped_verdicts.items()
    }
    failures: dict[CaseSpec, Measurement] = {}
    for spec, job in observed.jobs.items():
        failure = None
        if job.case in failed:
            failures[spec] = failed[job.case]
            failure = failures[spec].failures[0]
        verdict = judge_soaked_case(spec, job.case, runner.tallies[job.case], failure)
        verdicts[spec] = merge_findings(verdict, findings_of_extensions(observed, spec, verdict))
    total = sum(runner.tallies.values(), Tally())
    return JudgedSession(
        session_verdict=judge_soak_session(list(verdicts.values()), total),
        verdicts={spec: verdicts[spec] for spec in observed.specs},
        observations=replace(observed, measurements=failures),
    )


def judge_soaked_case(spec: CaseSpec, case: Case, tally: Tally, failure: Failure | None) -> Verdict:
    """Return the verdict on a case of a soak: PASS if iterations ran and no result was wrong.

    Args:
        spec: The case as it was selected.
        case: The case on the devices of the session.
        tally: The amount that was compared.
        failure: The reason why the soak of the case stopped, such as a wrong result; None if the
            soak did not stop.

    """
    outcome = Outcome.SKIPPED
    text = "there was no time for an iteration"
    if failure is not None:
        outcome = _OUTCOMES.get(failure.kind, Outcome.FAILED)
        text = f"{failure.kind.text}: {failure.first_line}"
    elif tally.iterations:
        outcome = Outcome.PASS
        text = no_corruption_text(tally)
    return Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.FAILED,
        text=text,
        case=case,
        failure=failure,
        extra={SOAK_VALUE: tally},
    )


def judge_soak_session(verdicts: Sequence[Verdict], total: Tally) -> SessionVerdict:
    """Return the verdict on a soak: FAILED if a case failed, and otherwise PASS or NO_VERDICT.

    The outcome is NO_VERDICT if a case ran out of memory, or if nothing was compared. A case whose
    dtype the compiler replaced may be SKIPPED: the requested program does not exist on this device.

    Args:
        verdicts: The verdicts on all selected cases.
        total: The amount that was compared of all cases.

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

    No result in `tally` may be wrong, and it must have at least an iteration. The bound is the
    upper end of the confidence interval of Clopper and Pearson (1934) for 0 wrong results: if a
    share p of iterations were wrong, a wrong result would have been seen with the probability
    1 - (1 - p)^iterations. Iterations are assumed to be independent.
    """
    share = -math.expm1(math.log1p(-_CONFIDENCE) / tally.iterations)
    bound = f"error rate below 1 in {float(f'{1 / share:.2g}'):,.{int(share > 0.1)}f}"
    return f"{amount_text(tally)}, no corruption; {bound}, {100 * _CONFIDENCE:.0f} % confidence"


def amount_text(tally: Tally) -> str:
    """Return the compared amount in words, such as ``1.1 million iterations, 2.6 TB compared``."""
    iterations = plural(tally.iterations, "iteration")
    if tally.iterations >= 10**6:
        iterations = f"{tally.iterations / 10**6:,.1f} million iterations"
    return f"{iterations}, {large_bytes_text(tally.compared_bytes)} compared"


def large_bytes_text(byte_count: int) -> str:
    """Return a number of bytes as text: from 10^12 bytes on in TB, which `bytes_text` lacks."""
    return f"{byte_count / 1e12:.1f} TB" if byte_count >= 10**12 else bytes_text(byte_count)


_tally_figure = partial(
    declare_figure_of_field, lambda verdict: verdict.extra[SOAK_VALUE], is_fitted_to_cells=True
)
FIGURES = (
    _tally_figure("iterations", "iterations", text="{:,}".format),
    _tally_figure("compared_bytes", "compared", text=large_bytes_text, width=9),
    _tally_figure("soaked_s", "time", unit="s", text="{:.0f}".format, width=5),
)
