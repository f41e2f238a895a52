"""Bisect the releases of a package: find the criterion, test releases, and print the answer."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.extensions.bisect.criterion import FAILURES, RISK, Criterion, find_criterion
from busbw.extensions.bisect.progress import Progress, Tested
from busbw.extensions.bisect.releases import Environments
from busbw.extensions.bisect.search import Span, Status, search
from busbw.extensions.bisect.sessions import Sessions
from busbw.extensions.stacks.uv import StackError
from busbw.model.words import Outcome, plural

# A problem may occur only sometimes, so the bad release has several sessions to show it.
_MOST_SESSIONS = 5


def report(text: str) -> None:
    """Print a sentence on the progress to stderr."""
    print(f"busbw: {text}", file=sys.stderr, flush=True)


@dataclass(kw_only=True)
class Bisection:
    """A bisection of the `releases` of a package, in order from the good to the bad release.

    If `is_fixed`, the good release is the newest, and the bisection finds the release that fixed
    the problem. Otherwise the bad release is the newest, and the bisection finds the release that
    caused the problem.
    """

    package: str
    releases: Sequence[str]
    is_fixed: bool
    sessions: Sessions
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
            self.environments.keep((), self.releases)
            print(f"{self.package} {bad} shows nothing that {good} does not: there is no step")
            return 1
        report(f"criterion: {', '.join(criterion.cases)} {criterion.word}, as in {bad}")
        span = search(self.releases, lambda release: self._test(release, criterion))
        for test in self.progress.contents.tested:
            print(f"{self.package} {test.release}: {test.status.value}: {test.reason}")
        print(self._sentence(span, criterion))
        print(f"again: {self._command(span)}")
        self.environments.keep((span.last_good, span.first_bad), self.releases)
        return 0

    def _find_criterion(self, good: str, bad: str) -> Criterion | None:
        """Measure the good and the bad release, and return the problem that only the bad one has.

        Returns None if the sessions of the bad release show no such problem.
        """
        report(f"the good release, {self.package} {good}")
        good_python = self.environments.python(good)
        result = self.sessions.run_alone(self._python_option(good))
        report(f"the bad release, {self.package} {bad}")
        stack = self._python_option(bad)
        failures = [v for v in result.verdicts.values() if v.outcome in FAILURES]
        for verdict in failures:
            print(f"{self.package} {good} fails itself: {verdict.headline()}")
        # A problem that occurs only sometimes may yet occur in a case that passes with the good
        # release. If there is no such case, or programs are compared, one session is enough.
        once = self.sessions.is_compiled or len(failures) == len(result.verdicts)
        criterion = None
        for _ in range(1 if once else _MOST_SESSIONS):
            criterion = find_criterion(result, self.sessions.run_against(good_python, stack))
            if criterion is not None:
                break
        if criterion is not None and criterion.is_failure and not self.sessions.is_compiled:
            criterion = self.sessions.with_rate(criterion, stack)
        if criterion is not None and criterion.outcome is Outcome.REGRESSED:
            criterion = self.sessions.with_ratio(criterion, good_python, stack)
        self.progress.keep(criterion=criterion)
        return criterion

    def _python_option(self, release: str) -> str:
        return f"--python={self.sessions.framework}={self.environments.python(release)}"

    def _test(self, release: str, criterion: Criterion) -> Status:
        """Test a release, unless an earlier run of the same command did so; return its status.

        Environments that the further search does not need are removed.
        """
        tested = self.progress.contents.tested
        for test in tested:
            if test.release == release:
                return test.status
        report(f"{self.package} {release}")
        try:
            good_python = self.environments.python(self.releases[0])
            stack = self._python_option(release)
            status, reason = self.sessions.decide(criterion, good_python, stack)
        except StackError as error:
            status, reason = Status.UNTESTABLE, str(error)
        report(f"{self.package} {release}: {status.value}: {reason}")
        tested += (Tested(release=release, status=status, reason=reason),)
        self.progress.keep(tested=tested)
        # The answer lies between the good release and the bad release that were tested last.
        decided = [test for test in tested if test.status is not Status.UNTESTABLE]
        latest = {test.status: test.release for test in decided}
        needed = {self.releases[0], self.releases[-1], *latest.values()}
        self.environments.keep(needed, self.releases)
        return status

    def _command(self, span: Span) -> str:
        """Return a command that shows the problem again: it compares the two releases of `span`."""
        words = ["busbw", "run", f"--frameworks={self.sessions.framework}", *self.sessions.options]
        words.append(self._python_option(span.first_bad))
        if self.sessions.is_compiled:
            words.append(f"--baselines={self.sessions.baselines}")
        else:
            good_python = self.environments.python(span.last_good)
            words.append(f"--against={self.sessions.framework}={good_python}")
        return shlex.join(words)

    def _sentence(self, span: Span, criterion: Criterion) -> str:
        """Return the sentence with the result of the bisection."""
        good, bad = f"{self.package} {span.last_good}", f"{self.package} {span.first_bad}"
        text = f"first {criterion.word} release: {bad}; {span.last_good} is the last good one"
        if self.is_fixed:
            text = f"first release without it: {good}; {span.first_bad} is the last one with it"
        if span.untestable:
            text += f", or one of {', '.join(span.untestable)}, which cannot be tested"
        tested = self.progress.contents.tested
        untestable = sum(test.status is Status.UNTESTABLE for test in tested)
        releases = plural(len(self.releases), "release")
        text += f"; {len(tested) + 2} of {releases} tried, {untestable} untestable"
        if self.sessions.is_compiled:
            return text
        chance = 100 * RISK * (len(tested) + 2 - untestable)
        return f"{text}; chance of a wrong answer <= {chance:.1g} %"
