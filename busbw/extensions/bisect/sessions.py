"""Run sessions with the user's options in the environment of a release, and judge the release.

The user names a good release and a bad release. Another release counts as bad if it has the problem
that the bad release has and the good release lacks. Times of a release are compared with times of
the good release, measured in the same session (`--against`). Compiled programs are compared with
the stored programs of the good release. A failure, such as a wrong value, a crash or too little
memory, shows without a comparison.
"""

from __future__ import annotations

import enum
import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw import storage
from busbw.cli import print_progress
from busbw.extensions.stacks.environments import StackError, run_command
from busbw.judge.paired import pair_launches
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural
from busbw.report.results import Results, read_results
from busbw.stats.launches import estimate_mean, log_ratio_of_samples

FAILURES = (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Outcome.COMPILE_ERROR)
_UNDECIDABLE = (Outcome.SKIPPED, Outcome.INCOMPARABLE)
# The problems that are no failures, by the outcome that shows them.
_PROBLEM_BY_OUTCOME = {Outcome.REGRESSED: "slow", Outcome.CHANGED: "changed"}
# The probability that a test calls a good release bad, or a bad release good. A bisection tests
# about eight releases, and its answer should be wrong with a probability of at most 1 %.
ERROR_RISK = 0.01 / 8
# The most sessions in which the time of a release is measured.
_MAX_TIMING_SESSIONS = 12
# The rate of a failure is known well enough after this number of failures. If the failure is rare,
# the sessions end after this number of launches.
_ENOUGH_FAILURES, _MAX_LAUNCHES = 5, 60
# The log ratio of the bad release is precise enough if its standard error is at most this fraction
# of it.
_MAX_RELATIVE_ERROR = 0.08


class Status(enum.StrEnum):
    """The status of a tested release.

    A GOOD release lacks the problem, a BAD release has the problem, and an UNTESTABLE release could
    not be tested.
    """

    GOOD = "good"
    BAD = "bad"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionResult:
    """The result of a session: the verdicts on its cases, and how often the cases were measured.

    Attributes:
        verdicts: The verdict on each case, by the id of the case.
        log_ratios: Maps the id of a case to a log ratio for each pair of launches: log(time of the
            candidate / time of the reference). Empty if the session had no reference.
        launch_count: The number of launches of the candidate; 0 if the session compiles.
        failed_launch_count: The number of launches in which a case failed, for the case with the
            most failures.

    """

    verdicts: Mapping[str, Verdict]
    log_ratios: Mapping[str, Sequence[float]] = field(default_factory=dict)
    launch_count: int = 0
    failed_launch_count: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """The problem that makes a release bad: a release is bad if one of `cases` has the problem.

    Attributes:
        cases: The ids of the cases that show the problem.
        problem: The problem in words: ``slow``, ``changed`` (another compiled program), or a
            failure such as ``wrong result``.
        rate: For a failure, the fraction of the launches of the bad release that fail, from 0 to 1.
        ratio: For a slow release, the time of the bad release divided by the time of the good
            release.

    """

    cases: tuple[str, ...]
    problem: str
    rate: float = 1.0
    ratio: float = 1.0

    @property
    def is_failure(self) -> bool:
        """Whether the problem is a failure, and not a slower or changed case."""
        return self.problem not in _PROBLEM_BY_OUTCOME.values()

    @property
    def needed_launch_count(self) -> int:
        """The number of launches without a failure after which a release counts as good.

        Assume that launches of a release fail at half the rate of the bad release. Then the
        probability that this number of launches all succeed is at most ERROR_RISK.
        """
        return math.ceil(math.log(ERROR_RISK) / math.log1p(-self.rate / 2)) if self.rate < 1 else 1

    def status_of_times(self, log_ratios: Sequence[float]) -> Status | None:
        """Return the status of a release by its times: GOOD, BAD, or None if undecided.

        `log_ratios` has log(time of the release / time of the good release) of each pair of
        launches. The limit is halfway between the times of the good and the bad release, on a
        logarithmic scale. Returns None if the times are too few or too noisy to decide.
        """
        if len(log_ratios) < 2:
            return None
        mean, limit_log_ratio = estimate_mean(log_ratios), math.log(self.ratio) / 2
        if mean.lower_bound(ERROR_RISK) > limit_log_ratio:
            return Status.BAD
        return Status.GOOD if mean.upper_bound(ERROR_RISK) < limit_log_ratio else None

    def judge_session(self, result: SessionResult) -> tuple[Status, str]:
        """Return the status of a release by a session, and a sentence on the case that decides.

        `result` is the result of the session. The first of these rules that applies decides:

        - BAD, if a case of the criterion has the problem.
        - UNTESTABLE, if a case of the criterion is skipped, is not comparable, or fails in another
          way, or if the session lacks a case of the criterion.
        - GOOD otherwise.
        """
        verdicts = [result.verdicts[case] for case in self.cases if case in result.verdicts]
        for verdict in verdicts:
            if _problem_text(verdict) == self.problem:
                return Status.BAD, verdict.headline()
        for verdict in verdicts:
            if verdict.outcome in (*FAILURES, *_UNDECIDABLE):
                return Status.UNTESTABLE, verdict.headline()
        if len(verdicts) < len(self.cases):
            return Status.UNTESTABLE, "the session lacks a case of the criterion"
        return Status.GOOD, verdicts[0].headline()


def find_criterion(good_result: SessionResult, bad_result: SessionResult) -> Criterion | None:
    """Return the problem that the session of the bad release has, but not that of the good release.

    If there are several problems, a failure is preferred to a slower or changed case. Returns None
    if there is no problem.
    """
    good_failures = {case for case, v in good_result.verdicts.items() if v.outcome in FAILURES}
    problems = {
        case: problem
        for case, verdict in bad_result.verdicts.items()
        if case not in good_failures and (problem := _problem_text(verdict))
    }
    for problem in problems.values():
        if problem not in _PROBLEM_BY_OUTCOME.values():
            cases = tuple(case for case in problems if problems[case] == problem)
            return Criterion(cases=cases, problem=problem)
    if not problems:
        return None
    # Another release may have made the less slow cases slow, so the slowest case is the criterion.
    worst = max(problems, key=lambda case: bad_result.verdicts[case].ratio or 0.0)
    ratio = bad_result.verdicts[worst].ratio or 1.0
    return Criterion(cases=(worst,), problem=problems[worst], ratio=ratio)


def _problem_text(verdict: Verdict) -> str:
    """Return the problem of a case by its verdict, such as ``slow``; empty without a problem."""
    if verdict.outcome not in FAILURES:
        return _PROBLEM_BY_OUTCOME.get(verdict.outcome, "")
    kind = verdict.failure.kind.value if verdict.failure else verdict.outcome.value
    return kind.replace("_", " ").lower()


@dataclass(kw_only=True)
class SessionRunner:
    """A runner of sessions (`busbw run`) that test releases of a package or compiler flags.

    In all methods `tested_python` is the path of the interpreter in the environment of the tested
    release, and `good_python` is the path of the interpreter in the environment of the good
    release. All methods that run sessions raise StackError if a session has no verdict.

    Attributes:
        framework: The framework to measure or to compile for.
        options: The user's options of `busbw run`.
        baselines_folder: The folder for the compiled programs of the good release.
        is_compiling: Whether sessions compile programs, and compare these programs with those of
            the good release. Otherwise sessions measure times.
        subject: The release or the flags that the present sessions test, for lines of progress.
        session_count: The number of sessions of the subject so far.

    """

    framework: str
    options: Sequence[str]
    baselines_folder: Path
    is_compiling: bool
    subject: str = ""
    session_count: int = 0

    def begin_subject(self, subject: str) -> None:
        """Print `subject`, the release or flags to test next, and reset the count of sessions."""
        print_progress(subject)
        self.subject, self.session_count = subject, 0

    def run_alone(self, tested_python: str) -> SessionResult:
        """Run a session that measures or compiles with a single release, and compares nothing.

        If `is_compiling`, the compiled programs are stored, so that later sessions can compare with
        them. Raises StackError if the session has no verdict.
        """
        return self._run_session(
            f"--python={self.framework}={tested_python}",
            *(("--update-baselines",) if self.is_compiling else ()),
        )

    def comparison_options(self, good_python: str, tested_python: str) -> tuple[str, str]:
        """Return the options with which `busbw run` compares a release with the good release.

        With these options a session measures both releases alternately. If `is_compiling`, the
        session compares the programs of the release with the stored programs of the good release.
        """
        reference = f"--against={self.framework}={good_python}"
        if self.is_compiling:
            reference = f"--baselines={self.baselines_folder}"
        return f"--python={self.framework}={tested_python}", reference

    def run_comparison(self, good_python: str, tested_python: str) -> SessionResult:
        """Run a session that compares a release with the good release, and return its result.

        Raises StackError if the session has no verdict.
        """
        return self._run_session(*self.comparison_options(good_python, tested_python))

    def run_with_variables(self, variables: Mapping[str, str]) -> SessionResult:
        """Run a session that shows the effect of environment variables, and return its result.

        `variables` maps names to values. The session measures alternately with and without the
        variables. If `is_compiling`, the session compiles with the variables, and compares with the
        stored programs. Raises StackError if the session has no verdict.
        """
        if self.is_compiling:
            return self._run_session(environment={**os.environ, **variables})
        return self._run_session(*(f"--try-env={name}={text}" for name, text in variables.items()))

    def decide_status(
        self, criterion: Criterion, good_python: str, tested_python: str
    ) -> tuple[Status, str]:
        """Run sessions until the status of a release is clear; return the status and a reason.

        A release whose status does not become clear is UNTESTABLE. The reason is a text for the
        user. Raises StackError if a session has no verdict.
        """
        if criterion.is_failure and not self.is_compiling:
            return self._decide_by_failures(criterion, tested_python)
        if criterion.problem == "slow":
            return self._decide_by_times(criterion, good_python, tested_python)
        return criterion.judge_session(self.run_comparison(good_python, tested_python))

    def _decide_by_times(
        self, criterion: Criterion, good_python: str, tested_python: str
    ) -> tuple[Status, str]:
        """Run sessions until the times show whether a release is good or bad.

        Returns the status of the release and a reason in words. A release that is still undecided
        after _MAX_TIMING_SESSIONS sessions is UNTESTABLE.
        """
        log_ratios: list[float] = []
        for _ in range(_MAX_TIMING_SESSIONS):
            result = self.run_comparison(good_python, tested_python)
            status, headline = criterion.judge_session(result)
            if status is Status.UNTESTABLE:
                return status, headline
            log_ratios += result.log_ratios.get(criterion.cases[0], ())
            decided_status = criterion.status_of_times(log_ratios)
            if decided_status is not None:
                ratio = math.exp(estimate_mean(log_ratios).mean)
                pairs = plural(len(log_ratios), "pair")
                return decided_status, f"{ratio:.3f} x in {pairs} of launches"
        return Status.UNTESTABLE, f"undecided by {plural(len(log_ratios), 'pair')} of launches"

    def _decide_by_failures(self, criterion: Criterion, tested_python: str) -> tuple[Status, str]:
        """Run sessions of a release until the release fails, or until enough launches succeed.

        Returns the status of the release and a reason in words. A release that fails in another way
        than the criterion is UNTESTABLE.
        """
        launches = 0
        while True:
            result = self.run_alone(tested_python)
            status, headline = criterion.judge_session(result)
            launches += max(1, result.launch_count)
            if status is not Status.GOOD or launches >= criterion.needed_launch_count:
                return status, f"{headline}; {plural(launches, 'launch')}"

    def with_measured_failure_rate(self, criterion: Criterion, bad_python: str) -> Criterion:
        """Run sessions of the bad release; return `criterion` with the release's rate of failures.

        The rate is the number of failed launches divided by the number of launches. In each
        session, only the launches in which the case with the most failures failed, in any way,
        count as failed.
        """
        failed = launches = 0
        while failed < _ENOUGH_FAILURES and launches < _MAX_LAUNCHES:
            result = self.run_alone(bad_python)
            failed += result.failed_launch_count
            launches += max(1, result.launch_count)
        # The release failed before these sessions, so its rate is not 0.
        return replace(criterion, rate=max(1, failed) / launches)

    def with_measured_time_ratio(
        self, criterion: Criterion, good_python: str, bad_python: str
    ) -> Criterion:
        """Measure the bad and the good release; return `criterion` with the ratio of their times.

        Sessions are repeated until the ratio is precise enough to judge other releases by it, but
        at most _MAX_TIMING_SESSIONS times.
        """
        log_ratios: list[float] = []
        for _ in range(_MAX_TIMING_SESSIONS):
            result = self.run_comparison(good_python, bad_python)
            log_ratios += result.log_ratios.get(criterion.cases[0], ())
            if len(log_ratios) > 1:
                mean = estimate_mean(log_ratios)
                criterion = replace(criterion, ratio=math.exp(mean.mean))
                if mean.standard_error < _MAX_RELATIVE_ERROR * mean.mean:
                    break
        return criterion

    def _run_session(
        self, *session_options: str, environment: Mapping[str, str] = os.environ
    ) -> SessionResult:
        """Run a session with `session_options`, print its duration, and return its result.

        The user's options are added. `environment` maps the names of all environment variables of
        the session to their values. Raises StackError if the session has no verdict, or if it does
        not end in time and is killed.
        """
        begin_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="busbw-bisect.") as folder:
            path = Path(folder, "results.json")
            command = [
                *(sys.executable, "-m", "busbw", "run", f"--frameworks={self.framework}"),
                *(f"--results={path}", f"--baselines={self.baselines_folder}"),
                *("-p", "no:cacheprovider", *session_options, *self.options),
            ]
            try:
                # Only the exit codes 0 and 1 are those of a session with a verdict.
                run_command(command, environment=environment, exit_codes=(0, 1))
            finally:
                self.session_count += 1
                duration_s = time.monotonic() - begin_s
                print_progress(f"{self.subject}: session {self.session_count}: {duration_s:.1f} s")
            with storage.reraise_as(StackError, ValueError, where="the results of the session: "):
                results = read_results(storage.read(path))
        verdicts = {verdict.spec.id: verdict for verdict in results.verdicts}
        if not isinstance(results, Results):
            return SessionResult(verdicts=verdicts)
        measurements, references = results.measurements, results.references
        return SessionResult(
            verdicts=verdicts,
            log_ratios={
                spec.id: [
                    log_ratio_of_samples(reference.samples_s, run.samples_s)
                    for reference, run in pair_launches(references[spec].runs, measurement.runs)
                ]
                for spec, measurement in measurements.items()
                if spec in references
            },
            # A launch measures all cases, so the case with the most launches shows their number.
            launch_count=max((case.launch_count for case in measurements.values()), default=0),
            failed_launch_count=max(
                (len(case.failures) for case in measurements.values()), default=0
            ),
        )
