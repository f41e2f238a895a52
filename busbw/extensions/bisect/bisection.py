"""Bisect the releases of a package: find the criterion, test releases, and print the answer.

A bisection searches a sequence of releases for the first release that has the problem of the last
release. The progress is written after every release, so that the same command continues the
bisection. The module `sessions` runs the sessions, and `releases` builds the environments.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import storage, wire
from busbw.cli import print_progress
from busbw.extensions.bisect.criterion import (
    ERROR_RISK,
    FAILURES,
    Criterion,
    Status,
    find_criterion,
)
from busbw.extensions.bisect.releases import Environments
from busbw.extensions.bisect.sessions import SessionRunner
from busbw.extensions.stacks.environments import StackError
from busbw.model.words import Outcome, plural
from busbw.session.option import UsageError

# A problem may occur only sometimes, so the bad release has several sessions to show it.
_MAX_CRITERION_SESSIONS = 5

DOCUMENT_FORMAT = "busbw bisect 2"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """The result of a search: the last release without the problem, and the first release with it.

    Attributes:
        last_good_release: The version of the last release without the problem.
        first_bad_release: The version of the first release with the problem.
        untestable: The versions of the releases between these two, which cannot be tested.

    """

    last_good_release: str
    first_bad_release: str
    untestable: tuple[str, ...]


def search_releases(releases: Sequence[str], test_release: Callable[[str], Status]) -> SearchResult:
    """Search a sequence of releases, from good to bad, for the point where the problem begins.

    Args:
        releases: The versions in order. The first release is good and the last release is bad, and
            neither is tested.
        test_release: Returns the status of a release, and is called at most once for each release.
            If a release is untestable, a release near it is tested instead.

    """
    low, high = 0, len(releases) - 1
    untestable: set[int] = set()
    while candidates := set(range(low + 1, high)) - untestable:
        middle = min(candidates, key=lambda index: (abs(2 * index - low - high), index))
        status = test_release(releases[middle])
        if status is Status.GOOD:
            low = middle
        elif status is Status.BAD:
            high = middle
        else:
            untestable.add(middle)
    between = tuple(releases[low + 1 : high])
    return SearchResult(
        last_good_release=releases[low], first_bad_release=releases[high], untestable=between
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TestedRelease:
    """A tested release (a version), its status, and the reason for the status as a sentence."""

    release: str
    status: Status
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressDocument:
    """The contents of the file with the progress of a bisection.

    Attributes:
        document: The format of the file, DOCUMENT_FORMAT.
        command: The command line of the bisection, split into words.
        criterion: The problem to search for. None until the good and the bad release were compared,
            and if the bad release shows no problem.
        tested: The tested releases, in the order of their tests.

    """

    document: str = DOCUMENT_FORMAT
    command: tuple[str, ...]
    criterion: Criterion | None = None
    tested: tuple[TestedRelease, ...] = ()


@dataclass
class Progress:
    """The progress of a bisection, and the file that keeps the progress.

    Attributes:
        path: The path of the file.
        contents: The present progress, which `read` and `save` replace.

    """

    path: Path
    contents: ProgressDocument

    @property
    def baselines_folder(self) -> Path:
        """The folder beside the progress file, for the compiled programs of the good release."""
        return self.path.with_suffix(".baselines")

    def read(self) -> None:
        """Replace the contents by the progress in the file, if the file exists.

        Untestable releases are left out, so that these releases are tested again: a download may
        have failed, or a disk may have been full. Raises UsageError if the file cannot be read, or
        has the progress of another command.
        """
        # A symbolic link that leads to itself counts as a file, so that reading it raises an error
        # now: the progress could not be written there later.
        if not os.path.lexists(os.path.realpath(self.path)):
            return
        try:
            document = wire.from_json(
                ProgressDocument, wire.parse_json(storage.read(self.path)), "progress"
            )
        except (wire.WireError, storage.InputError) as error:
            raise UsageError(f"{self.path}: {error}") from error
        if (document.document, document.command) != (DOCUMENT_FORMAT, self.contents.command):
            raise UsageError(
                f"{self.path} is of another bisection ({' '.join(document.command)[:200]}); remove "
                "it, or give another --state"
            )
        tested = (test for test in document.tested if test.status is not Status.UNTESTABLE)
        self.contents = replace(document, tested=tuple(tested))

    def save(self, **changes: Any) -> None:
        """Replace fields of the contents by the values in `changes`, and write the file."""
        self.contents = replace(self.contents, **changes)
        storage.write(self.path, json.dumps(wire.to_json(self.contents), indent=1) + "\n")


@dataclass(kw_only=True)
class Bisection:
    """A bisection of the releases of a package.

    Attributes:
        package: The name of the package, such as ``jaxlib``.
        releases: The versions in order, from the good release to the bad release.
        is_fixed: Whether to search for the release that fixed a problem: the good release is the
            newest. Otherwise the bisection searches for the release that caused the problem, and
            the bad release is the newest.
        sessions: The runner of the sessions that test a release.
        progress: The progress so far, and its file.
        environments: The environments with a release each.

    """

    package: str
    releases: Sequence[str]
    is_fixed: bool
    sessions: SessionRunner
    progress: Progress
    environments: Environments

    def run(self) -> int:
        """Search for the release, and print the answer; return the exit code.

        The exit code is 0, or 1 if the bad release shows no problem that the good release lacks.
        The environments of all releases that the answer does not name are removed.
        """
        good, bad = self.releases[0], self.releases[-1]
        criterion = self.progress.contents.criterion or self._find_criterion(good, bad)
        if criterion is None:
            self.environments.remove_unneeded((), self.releases)
            print(f"{self.package} {bad} does not differ from {good} beyond the noise")
            return 1
        print_progress(f"criterion: {', '.join(criterion.cases)} {criterion.problem}, as in {bad}")
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
        """Run sessions of both releases, and return the problem that only the bad release shows.

        Returns None if the sessions of the bad release show no such problem. Saves the criterion in
        the progress.
        """
        print_progress(f"the good release, {self.package} {good_release}")
        good_python = self.environments.build_environment(good_release)
        result = self.sessions.run_alone(self._build_python_option(good_release))
        print_progress(f"the bad release, {self.package} {bad_release}")
        stack_option = self._build_python_option(bad_release)
        failures = [v for v in result.verdicts.values() if v.outcome in FAILURES]
        for verdict in failures:
            print(f"{self.package} {good_release} fails itself: {verdict.headline()}")
        # A problem that occurs only sometimes may yet occur in a case that passes with the good
        # release. If there is no such case, or programs are compared, one session is enough.
        is_run_once = self.sessions.is_compiling or len(failures) == len(result.verdicts)
        criterion = None
        for _ in range(1 if is_run_once else _MAX_CRITERION_SESSIONS):
            criterion = find_criterion(result, self.sessions.run_against(good_python, stack_option))
            if criterion is not None:
                break
        if criterion is not None and criterion.is_failure and not self.sessions.is_compiling:
            criterion = self.sessions.with_measured_failure_rate(criterion, stack_option)
        if criterion is not None and criterion.outcome is Outcome.REGRESSED:
            criterion = self.sessions.with_measured_time_ratio(criterion, good_python, stack_option)
        self.progress.save(criterion=criterion)
        return criterion

    def _build_python_option(self, release: str) -> str:
        """Build a release's environment if missing; return the --python option that uses it."""
        return f"--python={self.sessions.framework}={self.environments.build_environment(release)}"

    def _test_release(self, release: str, criterion: Criterion) -> Status:
        """Test a release by `criterion`, save the progress, and return the status of the release.

        A release that an earlier run of the same command tested is not tested again. Environments
        that the rest of the search does not need are removed.
        """
        tested = self.progress.contents.tested
        for test in tested:
            if test.release == release:
                return test.status
        print_progress(f"{self.package} {release}")
        try:
            good_python = self.environments.build_environment(self.releases[0])
            stack_option = self._build_python_option(release)
            status, reason = self.sessions.decide_status(criterion, good_python, stack_option)
        except StackError as error:
            status, reason = Status.UNTESTABLE, str(error)
        print_progress(f"{self.package} {release}: {status.value}: {reason}")
        tested += (TestedRelease(release=release, status=status, reason=reason),)
        self.progress.save(tested=tested)
        # The answer lies between the good release and the bad release that were tested last.
        decided = [test for test in tested if test.status is not Status.UNTESTABLE]
        latest = {test.status: test.release for test in decided}
        needed = {self.releases[0], self.releases[-1], *latest.values()}
        self.environments.remove_unneeded(needed, self.releases)
        return status

    def _reproducing_command(self, result: SearchResult) -> str:
        """Return a command line that compares both releases of `result`, to show the problem."""
        words = ["busbw", "run", f"--frameworks={self.sessions.framework}", *self.sessions.options]
        words.append(self._build_python_option(result.first_bad_release))
        if self.sessions.is_compiling:
            words.append(f"--baselines={self.sessions.baselines_folder}")
        else:
            good_python = self.environments.build_environment(result.last_good_release)
            words.append(f"--against={self.sessions.framework}={good_python}")
        return shlex.join(words)

    def _answer_sentence(self, result: SearchResult, criterion: Criterion) -> str:
        """Return the sentence that tells the user the result of the bisection."""
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
        if self.sessions.is_compiling:
            return text
        chance = 100 * ERROR_RISK * (len(tested) + 2 - untestable)
        return f"{text}; chance of a wrong answer <= {chance:.1g} %"
