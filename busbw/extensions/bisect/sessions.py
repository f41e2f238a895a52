"""Run sessions with the user's options in the environment of a release, and judge the release."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import storage, wire
from busbw.driver.local import start_child
from busbw.extensions.bisect.criterion import Criterion, SessionResult, Status
from busbw.judge.paired import pair_launches
from busbw.model.words import Outcome, plural
from busbw.report.results import Results, read_results
from busbw.stats.launches import estimate_mean, log_ratio_of_samples

# How long an interrupted session may take to remove its files.
_GRACE_S = 10.0
# The exit codes of a session that has a verdict.
_EXIT_CODES_WITH_VERDICT = (0, 1)
# The most sessions in which the time of a release is measured.
_MAX_TIMING_SESSIONS = 12
# The rate of a failure is known well enough after this number of failures. If the failure is rare,
# the sessions end after this number of launches.
_ENOUGH_FAILURES, _MAX_LAUNCHES = 5, 60
# The log ratio of the bad release is precise enough if its standard error is at most this fraction
# of it.
_MAX_RELATIVE_ERROR = 0.08


class SessionError(Exception):
    """The error of a session that ended without a verdict, or whose results cannot be read.

    The message is the last line of the session's output that has an error, or else the last line.
    If the results cannot be read, the message is the reason.
    """


@dataclass(kw_only=True)
class SessionRunner:
    """A runner of sessions (`busbw run`) that test releases of a package or compiler flags.

    In all methods `stack_options` are options that select the environment of the tested release,
    such as ``--python=jax=PATH``, `good_python` is the path of the interpreter in the environment
    of the good release, and SessionError is raised if a session has no verdict.

    Attributes:
        framework: The framework to measure or to compile for.
        options: The user's options of `busbw run`.
        baselines_folder: The folder for the compiled programs of the good release.
        is_compiling: Whether sessions compile programs, and compare these programs with those of
            the good release. Otherwise sessions measure times.

    """

    framework: str
    options: Sequence[str]
    baselines_folder: Path
    is_compiling: bool

    def run_alone(self, *stack_options: str) -> SessionResult:
        """Run a session with a single release; store the compiled programs if `is_compiling`.

        Raises SessionError if the session has no verdict.
        """
        return self._run_session(
            *stack_options, *(("--update-baselines",) if self.is_compiling else ())
        )

    def run_against(self, good_python: str, *stack_options: str) -> SessionResult:
        """Run a session that compares a release with the good release.

        The session measures both releases alternately or, if `is_compiling`, compares the programs
        of the release with the stored programs. `good_python` is the path of the interpreter with
        the good release. Raises SessionError if the session has no verdict.
        """
        against = () if self.is_compiling else (f"--against={self.framework}={good_python}",)
        return self._run_session(*stack_options, *against)

    def run_with_variables(self, variables: Mapping[str, str]) -> SessionResult:
        """Run a session that shows the effect of environment variables, given by name.

        The session measures alternately with and without the variables or, if `is_compiling`,
        compares the programs with the stored programs. Raises SessionError if the session has no
        verdict.
        """
        if self.is_compiling:
            return self._run_session(environment={**os.environ, **variables})
        return self._run_session(*(f"--try-env={name}={text}" for name, text in variables.items()))

    def decide_status(
        self, criterion: Criterion, good_python: str, *stack_options: str
    ) -> tuple[Status, str]:
        """Run sessions until the status of a release is clear; return the status and its reason.

        A release is UNTESTABLE if a session has no verdict, or if the status does not become clear.
        """
        try:
            if criterion.is_failure and not self.is_compiling:
                return self._decide_failure(criterion, *stack_options)
            if criterion.outcome is Outcome.REGRESSED:
                return self._decide_by_times(criterion, good_python, *stack_options)
            result = self.run_against(good_python, *stack_options)
            return criterion.status_of_session(result) or Status.UNTESTABLE, criterion.reason_text(
                result
            )
        except SessionError as error:
            return Status.UNTESTABLE, str(error)

    def _decide_by_times(
        self, criterion: Criterion, good_python: str, *stack_options: str
    ) -> tuple[Status, str]:
        """Run sessions until the times show whether a release is good or bad.

        Returns the status of the release and its reason. A release is UNTESTABLE if the status is
        still unclear after _MAX_TIMING_SESSIONS sessions.
        """
        log_ratios: list[float] = []
        for _ in range(_MAX_TIMING_SESSIONS):
            result = self.run_against(good_python, *stack_options)
            if criterion.status_of_session(result) is Status.UNTESTABLE:
                return Status.UNTESTABLE, criterion.reason_text(result)
            log_ratios += result.log_ratios.get(criterion.cases[0], ())
            status = criterion.status_of_times(log_ratios)
            if status is not None:
                ratio = math.exp(statistics.fmean(log_ratios))
                return status, f"{ratio:.3f} x in {plural(len(log_ratios), 'pair')} of launches"
        return Status.UNTESTABLE, f"undecided by {plural(len(log_ratios), 'pair')} of launches"

    def _decide_failure(self, criterion: Criterion, *stack_options: str) -> tuple[Status, str]:
        """Run sessions of a release until the release fails, or until enough launches succeed.

        Returns the status of the release and its reason. The status is UNTESTABLE as soon as a
        session fails in another way than the criterion says.
        """
        launches = 0
        while True:
            result = self.run_alone(*stack_options)
            status = criterion.status_of_session(result)
            launches += max(1, result.launch_count)
            if status is not Status.GOOD or launches >= criterion.needed_launch_count:
                reason = f"{criterion.reason_text(result)}; {plural(launches, 'launch')}"
                return status or Status.UNTESTABLE, reason

    def with_measured_failure_rate(self, criterion: Criterion, *stack_options: str) -> Criterion:
        """Run sessions of the bad release, and return the criterion with the rate of failures.

        The rate is the fraction of launches that fail, in any way, in the case with the most
        failures.
        """
        failed = launches = 0
        while failed < _ENOUGH_FAILURES and launches < _MAX_LAUNCHES:
            result = self.run_alone(*stack_options)
            failed += result.failed_launch_count
            launches += max(1, result.launch_count)
        # The release failed before these sessions, so its rate is not 0.
        return replace(criterion, rate=max(1, failed) / launches)

    def with_measured_time_ratio(
        self, criterion: Criterion, good_python: str, *stack_options: str
    ) -> Criterion:
        """Measure the bad and the good release, and return the criterion with the ratio of times.

        Sessions are repeated until the ratio is precise enough to judge other releases by it, but
        at most `_MAX_TIMING_SESSIONS` times.
        """
        log_ratios: list[float] = []
        for _ in range(_MAX_TIMING_SESSIONS):
            result = self.run_against(good_python, *stack_options)
            log_ratios += result.log_ratios.get(criterion.cases[0], ())
            if len(log_ratios) > 1:
                mean = estimate_mean(log_ratios)
                criterion = replace(criterion, ratio=math.exp(mean.mean))
                if mean.standard_error < _MAX_RELATIVE_ERROR * mean.mean:
                    break
        return criterion

    def _run_session(
        self, *session_options: str, environment: Mapping[str, str] | None = None
    ) -> SessionResult:
        """Run a session with additional `session_options`, and return its result.

        `environment` has the environment variables of the session by name; None means the variables
        of this process. Raises SessionError if the session has no verdict.
        """
        with tempfile.TemporaryDirectory(prefix="busbw-bisect.") as folder:
            path = Path(folder, "results.json")
            command = [sys.executable, "-m", "busbw", "run", f"--frameworks={self.framework}"]
            command += [f"--results={path}", f"--baselines={self.baselines_folder}"]
            command += ["-p", "no:cacheprovider", *session_options, *self.options]
            code, output = _run_command(command, environment or os.environ)
            if code not in _EXIT_CODES_WITH_VERDICT or not path.exists():
                lines = [line.strip() for line in output.splitlines() if line.strip()]
                errors = [line for line in lines if line.startswith("ERROR")]
                raise SessionError((errors or lines or ["the session printed nothing"])[-1])
            try:
                results = read_results(storage.read(path))
            except (wire.WireError, storage.InputError) as error:
                raise SessionError(str(error)) from error
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
            launch_count=max((case.launches for case in measurements.values()), default=0),
            failed_launch_count=max(
                (len(case.failures) for case in measurements.values()), default=0
            ),
        )


def _run_command(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run the command of a session; return the exit code and the output (stdout and stderr).

    If this process is interrupted, the session gets SIGTERM, and _GRACE_S seconds to remove its
    files. Then the session is killed. If this process is killed, the session is killed, too.
    """
    streams = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    process = start_child(command, streams, environment)
    try:
        output, _ = process.communicate()
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        process.kill()
        process.wait()
    return process.returncode, output.decode(errors="replace")
