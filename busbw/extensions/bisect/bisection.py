"""Bisect the releases of a package: find the criterion, test releases, and print the answer."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.extensions.bisect.criterion import ERROR_RISK, FAILURES, Criterion, find_criterion
from busbw.extensions.bisect.progress import Progress, TestedRelease
from busbw.extensions.bisect.releases import Environments
from busbw.extensions.bisect.search import SearchResult, Status, search_releases
from busbw.extensions.bisect.sessions import SessionRunner
from busbw.extensions.stacks.uv import StackError
from busbw.model.words import Outcome, plural

# A problem may occur only sometimes, so the bad release has several sessions to show it.
_MOST_SESSIONS = 5


def report_progress(text: str) -> None:
    """Print a sentence on the progress to stderr."""
    print(f"busbw: {text}", file=sys.stderr, flush=True)


@dataclass(kw_only=True)
class Bisection:
    """A bisection of the releases of a package.

    `releases` are in order from the good to the bad release. If `is_fixed`, the good release is the
    newest, and the bisection finds the release that fixed the problem. Otherwise the bad release is
    the newest, and the bisection finds the release that caused the problem.
    """

    package: str
    releases: Sequence[str]
    is_fixed: bool
    sessions: SessionRunner
    progress: Progress
    environments: Environments

    def run(self) -> int:
        """Find the release and print it; return the exit code.

        The exit code is 1 if the bad release shows no problem that the good release lacks. The
        environments of all releases that the answer does not name are removed.
        """
        good, bad = self.releases[0], self.releases[-1]
        criterion = self.progress.contents.criterion or self._find_criterion(good, bad)
        if criterion is None:
            self.environments.remove_unneeded((), self.releases)
            print(f"{self.package} {bad} does not differ from {good} beyond the noise")
            return 1
        report_progress(f"criterion: {', '.join(criterion.cases)} {criterion.problem}, as in {bad}")
        result = search_releases(
            self.releases, lambda release: self._test_release(release, criterion)
        )
        for test in self.progress.contents.tested:
            print(f"{self.package} {test.release}: {test.status.value}: {test.reason}")
        print(self._answer_sentence(result, criterion))
        print(f"again: {self._reproducing_command(result)}")
        self.environments.remove_unneeded(
            (result.last_good_release, result.first_bad_release), self.releases
        )
        return 0

    def _find_criterion(self, good_release: str, bad_release: str) -> Criterion | None:
        """Measure both releases, and return the problem that only the bad release shows.

        Returns None if the sessions of the bad release show no such problem.
        """
        report_progress(f"the good release, {self.package} {good_release}")
        good_python = self.environments.build_interpreter(good_release)
        result = self.sessions.run_alone(self._build_python_option(good_release))
        report_progress(f"the bad release, {self.package} {bad_release}")
        stack_option = self._build_python_option(bad_release)
        failures = [v for v in result.verdicts.values() if v.outcome in FAILURES]
        for verdict in failures:
            print(f"{self.package} {good_release} fails itself: {verdict.headline()}")
        # A problem that occurs only sometimes may yet occur in a case that passes with the good
        # release. If there is no such case, or programs are compared, one session is enough.
        is_run_once = self.sessions.is_compiled or len(failures) == len(result.verdicts)
        criterion = None
        for _ in range(1 if is_run_once else _MOST_SESSIONS):
            criterion = find_criterion(result, self.sessions.run_against(good_python, stack_option))
            if criterion is not None:
                break
        if criterion is not None and criterion.is_failure and not self.sessions.is_compiled:
            criterion = self.sessions.measure_failure_rate(criterion, stack_option)
        if criterion is not None and criterion.outcome is Outcome.REGRESSED:
            criterion = self.sessions.measure_time_ratio(criterion, good_python, stack_option)
        self.progress.save(criterion=criterion)
        return criterion

    def _build_python_option(self, release: str) -> str:
        """Build the environment of a release if it is missing, and return the option to use it."""
        return f"--python={self.sessions.framework}={self.environments.build_interpreter(release)}"

    def _test_release(self, release: str, criterion: Criterion) -> Status:
        """Test a release, unless an earlier run of the same command did so; return its status.

        Environments that the further search does not need are removed.
        """
        tested = self.progress.contents.tested
        for test in tested:
            if test.release == release:
                return test.status
        report_progress(f"{self.package} {release}")
        try:
            good_python = self.environments.build_interpreter(self.releases[0])
            stack_option = self._build_python_option(release)
            status, reason = self.sessions.decide_status(criterion, good_python, stack_option)
        except StackError as error:
            status, reason = Status.UNTESTABLE, str(error)
        report_progress(f"{self.package} {release}: {status.value}: {reason}")
        tested += (TestedRelease(release=release, status=status, reason=reason),)
        self.progress.save(tested=tested)
        # The answer lies between the good release and the bad release that were tested last.
        decided = [test for test in tested if test.status is not Status.UNTESTABLE]
        latest = {test.status: test.release for test in decided}
        needed = {self.releases[0], self.releases[-1], *latest.values()}
        self.environments.remove_unneeded(needed, self.releases)
        return status

    def _reproducing_command(self, result: SearchResult) -> str:
        """Return a command that compares both releases of `result`, to show the problem again."""
        words = ["busbw", "run", f"--frameworks={self.sessions.framework}", *self.sessions.options]
        words.append(self._build_python_option(result.first_bad_release))
        if self.sessions.is_compiled:
            words.append(f"--baselines={self.sessions.baselines_folder}")
        else:
            good_python = self.environments.build_interpreter(result.last_good_release)
            words.append(f"--against={self.sessions.framework}={good_python}")
        return shlex.join(words)

    def _answer_sentence(self, result: SearchResult, criterion: Criterion) -> str:
        """Return the sentence with the result of the bisection."""
        last_good, first_bad = result.last_good_release, result.first_bad_release
        text = (
            f"first {criterion.problem} release: {self.package} {first_bad}; "
            f"{last_good} is the last good one"
        )
        if self.is_fixed:
            text = (
                f"first release without it: {self.package} {last_good}; "
                f"{first_bad} is the last one with it"
            )
        if result.untestable:
            text += f", or one of {', '.join(result.untestable)}, which cannot be tested"
        tested = self.progress.contents.tested
        untestable = sum(test.status is Status.UNTESTABLE for test in tested)
        releases = plural(len(self.releases), "release")
        text += f"; {len(tested) + 2} of {releases} tried, {untestable} untestable"
        if self.sessions.is_compiled:
            return text
        chance = 100 * ERROR_RISK * (len(tested) + 2 - untestable)
        return f"{text}; chance of a wrong answer <= {chance:.1g} %"
