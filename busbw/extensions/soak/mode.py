"""A soak as a session mode: the tests that measure compare every result, and time nothing.

Cases are soaked by turns until the time is over. Some errors occur in all iterations of a launch,
and other errors occur only after hours. So a launch soaks for a few times as long as it took to
start, and then the next launch starts. The verdict on a case names a wrong element, or gives an
upper bound for the rate of wrong results. Results are compared in workers, by the module `worker`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.schedules import Side
from busbw.driver.transport import Request
from busbw.judge.decision import merge_findings
from busbw.judge.validity import out_of_memory_verdict
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, LaunchId, Measurement
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, bytes_text, plural
from busbw.report.figures import Figure
from busbw.session.judge import findings_of_extensions
from busbw.session.machine import worker_spec_of
from busbw.session.measure import Display, make_observers, observed_values
from busbw.session.options import Options
from busbw.session.run import Mode, measuring_mode, run_under_machine_lock
from busbw.session.state import JudgedSession, MeasuredSession

from .worker import Tally

SOAK_VALUE = "soak"
_CONFIDENCE = 0.95

# A launch soaks for this many times the duration of its start. A case is soaked for _TURN_S
# seconds before the next case, and for at least _MIN_TURN_S seconds.
_SOAK_TIME_PER_START_TIME, _TURN_S, _MIN_TURN_S = 4.0, 2.0, 0.1


def mode_of(options: Options) -> Mode | None:
    """Return the session mode of a soak; None without --soak."""
    if SOAK_VALUE not in options.extra:
        return None
    return replace(
        measuring_mode(replace(options, require_baselines=False)),
        run_cases=partial(
            run_under_machine_lock,
            run_resolved=lambda session, executor, display: Soak(session, executor, display).run(),
        ),
    )


class Soak:
    """A soak: the cases of a session are run, and their results compared, for a given duration.

    Attributes:
        resolved_session: The cases and the devices. Its option --soak gives the duration.
        executor: Starts the launches.
        display: Shows the progress.
        tallies: Maps each case to the amount that was compared so far.
        failures: Maps each case whose soak stopped to the reason.

    """

    def __init__(
        self, resolved_session: MeasuredSession, executor: Executor, display: Display
    ) -> None:
        self.resolved_session, self.executor, self.display = resolved_session, executor, display
        self.tallies = {job.case: Tally() for job in resolved_session.jobs.values()}
        self.failures: dict[Case, Failure] = {}
        self._observers = make_observers(resolved_session, executor)
        self._end_s = 0.0
        self._launch_count = 0

    def run(self) -> JudgedSession:
        """Soak all cases, and return the session with their verdicts.

        After an interrupt, the verdicts so far are shown, and KeyboardInterrupt is raised again.
        """
        begun_s, executor, display = time.monotonic(), self.executor, self.display
        self._end_s = begun_s + self.resolved_session.options.extra[SOAK_VALUE]
        try:
            with executor:
                while cases := self._unfinished_cases():
                    self._soak_launch(self._next_case(cases).framework)
        except KeyboardInterrupt:
            for verdict in self._verdicts(self.resolved_session).values():
                display.write_line(f"{verdict.spec.id}: {verdict.headline()}")
            raise
        finally:
            soaked_s = time.monotonic() - begun_s
            display.write_line(f"busbw: soaked for {soaked_s:.0f} s")
        return self._judge(soaked_s)

    def _unfinished_cases(self, framework: str = "") -> list[Case]:
        """Return the cases that are to be soaked further, because no failure stopped them.

        After the duration of --soak, only the cases without an iteration are soaked. `framework`
        limits the result to the cases of a framework; empty for all frameworks.
        """
        is_late = time.monotonic() >= self._end_s
        return [
            case
            for case, tally in self.tallies.items()
            if framework in ("", case.framework)
            and case not in self.failures
            and not (is_late and tally.iterations)
        ]

    def _next_case(self, cases: Sequence[Case]) -> Case:
        """Return the case that was soaked for the shortest time.

        If several cases were soaked for the same time, return the case with the largest payload.
        """
        return min(cases, key=lambda case: (self.tallies[case].soaked_s, -case.payload_bytes))

    def _soak_launch(self, framework: str) -> None:
        """Soak the unfinished cases of `framework` by turns, in a new launch.

        If the launch does not start, all these cases fail.
        """
        self._launch_count += 1
        launch = LaunchId(round_number=self._launch_count, framework=framework)
        begun_s, executor = time.monotonic(), self.executor
        ranks = max(job.key.ranks for job in self.resolved_session.jobs.values())
        device = self.resolved_session.machine.target.device
        worker_spec = worker_spec_of(
            self.resolved_session.options, framework, Side.CANDIDATE, device=device, ranks=ranks
        )
        with executor.time_phase("starting"):
            group = executor.open_group(worker_spec, launch)
        if isinstance(group, Failure):
            self.failures |= dict.fromkeys(self._unfinished_cases(framework), group)
            return
        start_s = time.monotonic() - begun_s
        if self._launch_count == 1:
            # The first start, however long it took, is not part of the requested time.
            self._end_s += start_s
        end_s = time.monotonic() + max(_TURN_S, _SOAK_TIME_PER_START_TIME * start_s)
        self._call_observers(None)
        with executor.time_phase("measuring"):
            while time.monotonic() < end_s and (cases := self._unfinished_cases(framework)):
                self._soak_case(group, self._next_case(cases))
                if group.has_ended:
                    return
        executor.close_group(group)

    def _soak_case(self, group: Group, case: Case) -> None:
        """Soak `case` for about _TURN_S seconds in the workers of `group`, and record the result.

        The compared amount is added to `tallies`. A failure is stored in `failures`, and the case
        is then not soaked again. Observers are called at the end.
        """
        left_s = max(0.0, self._end_s - time.monotonic())
        tally = self.tallies[case]
        amount = amount_text(sum(self.tallies.values(), Tally()))
        self.display.show_status(f"busbw: soaking: {amount}, {left_s:.0f} s left")
        seconds = max(_MIN_TURN_S, min(_TURN_S, left_s))
        plan = self.resolved_session.plan
        key = next(job.key for job in self.resolved_session.jobs.values() if job.case == case)
        values = {"case": case, "plan": plan, "key": key, "seconds": seconds}
        request = Request("soak", Tally, {**values, "iterations": tally.iterations})
        reply = group.ask(request, plan.timeout_s + seconds, f"soaking {case.name}")
        if isinstance(reply, Failure):
            self.failures[case] = reply
        else:
            self.tallies[case] = tally + reply
        self._call_observers(case)

    def _call_observers(self, case: Case | None) -> None:
        """Call all observers after `case`, or before the first case of a launch with None."""
        for observer in self._observers.values():
            observer.observe(case)

    def _verdicts(self, observed: MeasuredSession) -> dict[CaseSpec, Verdict]:
        """Return the verdict on each selected case, with the findings of extensions.

        `observed` is the session with the extra values of the observers.
        """
        verdicts = {
            spec: replace(verdict, extra={SOAK_VALUE: Tally()})
            for spec, verdict in observed.skipped_verdicts.items()
        }
        for spec, job in observed.jobs.items():
            failure = self.failures.get(job.case)
            verdict = judge_soaked_case(spec, job.case, self.tallies[job.case], failure)
            findings = findings_of_extensions(observed, spec, verdict)
            verdicts[spec] = merge_findings(verdict, findings)
        return {spec: verdicts[spec] for spec in observed.specs}

    def _judge(self, soaked_s: float) -> JudgedSession:
        """Return the session with its verdicts, after a soak of `soaked_s` seconds.

        Of the measurements, the session contains only failures, because a soak has no times.
        """
        extra = observed_values(self._observers)
        observed = replace(self.resolved_session, measuring_s=soaked_s, extra=extra)
        verdicts = self._verdicts(observed)
        failures = {
            spec: Measurement(case=job.case, failures=(failure,))
            for spec, job in observed.jobs.items()
            if (failure := verdicts[spec].failure) is not None
        }
        return JudgedSession(
            session_verdict=judge_soak_session(
                list(verdicts.values()), self.tallies, self.failures
            ),
            verdicts=verdicts,
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
    outcome = Outcome.FAILED
    if failure is not None and failure.kind is FailureKind.OUT_OF_MEMORY:
        verdict = out_of_memory_verdict(spec, failure, " (nothing was compared)", failed=False)
        return replace(verdict, case=case, extra={SOAK_VALUE: tally})
    if failure is not None and failure.kind is FailureKind.OTHER_DTYPE:
        text, outcome, failure = failure.message, Outcome.SKIPPED, None
    elif failure is not None:
        text = f"{failure.kind.text}: {failure.first_line}"
    elif tally.iterations:
        text, outcome = no_corruption_text(tally), Outcome.PASS
    else:
        text, outcome = "there was no time for an iteration", Outcome.SKIPPED
    return Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.FAILED,
        text=text,
        case=case,
        failure=failure,
        extra={SOAK_VALUE: tally},
    )


def judge_soak_session(
    verdicts: Sequence[Verdict], tallies: Mapping[Case, Tally], failures: Mapping[Case, Failure]
) -> SessionVerdict:
    """Return the verdict on a soak: FAILED if a case failed, and otherwise PASS or NO_VERDICT.

    The outcome is NO_VERDICT if a case had no iteration, or if nothing was compared. A case whose
    dtype the compiler replaced may have no iteration: the requested program does not exist on this
    device, so that the case is SKIPPED.

    Args:
        verdicts: The verdicts on all selected cases.
        tallies: Maps each case that could run to the amount that was compared.
        failures: Maps each case whose soak stopped to the reason.

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
        outcome, text = SessionOutcome.PASS, f"{count}, {no_corruption_text(total)}"
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
    """Return the compared amount in words, such as ``1.1 million iterations, 2.4 TiB compared``."""
    iterations = plural(tally.iterations, "iteration")
    if tally.iterations >= 10**6:
        iterations = f"{tally.iterations / 10**6:.2g} million iterations"
    return f"{iterations}, {bytes_text(tally.compared_bytes)} compared"


def _tally_figure(id: str, heading: str, **options: Any) -> Figure:
    """Return the column with the title `heading`, which shows the field `id` of a case's Tally.

    `options` are further arguments of Figure.
    """

    def compute(verdict: Verdict) -> Any:
        return getattr(verdict.extra[SOAK_VALUE], id)

    return Figure(id, heading, is_fitted_to_cells=True, compute=compute, **options)


FIGURES = (
    _tally_figure("iterations", "iterations", text="{:,}".format),
    _tally_figure("compared_bytes", "compared", text=bytes_text, width=9),
    _tally_figure("soaked_s", "time", unit="s", text="{:.0f}".format, width=5),
)
