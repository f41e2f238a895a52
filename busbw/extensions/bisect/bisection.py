"""Bisect the releases of a package: find the criterion, test releases, and print the answer.

A bisection searches a sequence of releases for the first release that has the problem of the last
release. The progress is written after every release, so that the same command continues the
bisection. The module `sessions` runs the sessions. uv lists the releases, and builds an environment
with a release, in which the versions of the other packages fit the release.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from busbw import storage, wire
from busbw.cli import print_progress
from busbw.extensions.bisect.sessions import (
    ERROR_RISK,
    FAILURES,
    Criterion,
    SessionRunner,
    Status,
    find_criterion,
)
from busbw.extensions.stacks.environments import (
    PYLOCK_OPTIONS,
    StackError,
    build_once,
    install_packages,
    resolve_requirements,
)
from busbw.model.words import plural
from busbw.session.option import UsageError

# A problem may occur only sometimes, so the bad release has several sessions to show it.
_MAX_CRITERION_SESSIONS = 5
# The file with the progress, in the folder of a bisection.
_PROGRESS_NAME = "progress.json"


def releases_between(package: str, first: Version, last: Version, python: str) -> tuple[str, ...]:
    """Return all versions of `package` from `first` to `last`, the oldest version first.

    Only versions that the interpreter at the path `python` can install are returned. Pre-releases
    are included if `first` or `last` is a pre-release. Raises StackError if the index of packages
    lacks `first` or `last`.
    """
    allowed = "allow" if first.is_prerelease or last.is_prerelease else "disallow"
    options = ("--resolution=lowest", f"--prerelease={allowed}")
    releases = [_resolve_version(f"{package}=={first}", python)]
    newest = _resolve_version(f"{package}=={last}", python)
    while releases[-1] != newest:
        newer = f"{package}>={releases[-1]},!={releases[-1]},<={newest}"
        releases.append(_resolve_version(newer, python, *options))
    return tuple(releases)


def _resolve_version(requirement: str, python: str, *options: str) -> str:
    """Return the version of a package that uv chooses for `requirement`, such as ``jax>=0.7``.

    `python` is the path of the interpreter, and `options` are options of ``uv pip compile``. Raises
    StackError if no version satisfies the requirement.
    """
    text = resolve_requirements([requirement], python, "--no-deps", *options)
    return text.strip().partition("==")[2]


def search_releases(
    releases: Sequence[str], test_release: Callable[[str], Status]
) -> Sequence[str]:
    """Search a sequence of releases for the first release with the problem.

    Args:
        releases: The versions in order. The first version is known to be good and the last version
            is known to be bad, so that neither is tested.
        test_release: Returns the status of a release, and is called at most once for each release.
            If a release is untestable, a release near it is tested instead.

    Returns:
        A part of `releases`: the last good release, the untestable releases after it, and the first
        bad release. Without untestable releases, the part has two releases.

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
    return releases[low : high + 1]


@dataclass(frozen=True, kw_only=True, slots=True)
class TestedRelease:
    """A tested release (a version), its status, and the reason for the status as a sentence."""

    release: str
    status: Status
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BisectionProgress:
    """The progress of a bisection, as its file contains it.

    Attributes:
        document: The name of the file's format.
        command: The command line of the bisection, split into words, for people who read the file.
        criterion: The problem to search for. None before the good and the bad release are compared,
            and also if the comparison shows no problem.
        tested: The tested releases, in the order of their tests.

    """

    document: str = "busbw bisect 3"
    command: tuple[str, ...]
    criterion: Criterion | None = None
    tested: tuple[TestedRelease, ...] = ()


@dataclass(kw_only=True)
class Bisection:
    """A bisection of the releases of a package.

    Attributes:
        package: The name of the package, such as ``jaxlib``.
        releases: The versions in order, from the good release to the bad release.
        is_fixed: Whether to search for the release that fixed a problem. Then the good release is
            newer than the bad release. Otherwise the bisection searches for the release that caused
            a problem, and the bad release is newer.
        sessions: The runner of the sessions that test a release.
        folder: The folder with the progress, and with the environment of each release.
        progress: The progress so far.
        pinned_requirements: Requirements of further packages to install, such as ``jax==0.7.0``.
        interpreter: The path of the Python with which the environments are made.

    """

    package: str
    releases: Sequence[str]
    is_fixed: bool
    sessions: SessionRunner
    folder: Path
    progress: BisectionProgress
    pinned_requirements: Sequence[str]
    interpreter: str

    def read_progress(self) -> None:
        """Load the progress of an earlier run of the same command from the file, if it exists.

        Untestable releases are left out, so that these releases are tested again: a download may
        have failed, or a disk may have been full. Raises UsageError if the file cannot be read.
        """
        path = self.folder / _PROGRESS_NAME
        if path.exists():
            with storage.reraise_as(UsageError, ValueError, where=f"{path}: "):
                progress = wire.from_json(
                    BisectionProgress, wire.parse_json(storage.read(path)), "progress"
                )
            tested = (test for test in progress.tested if test.status is not Status.UNTESTABLE)
            self.progress = replace(progress, tested=tuple(tested))

    def _save_progress(self, **changes: Any) -> None:
        """Set fields of the progress to the values in `changes`, by field name; write the file."""
        self.progress = replace(self.progress, **changes)
        text = json.dumps(wire.to_json(self.progress), indent=1) + "\n"
        storage.write(self.folder / _PROGRESS_NAME, text)

    def run(self) -> int:
        """Search for the release that caused or fixed the problem, and print the answer.

        Returns the exit code: 1 if the bad release shows no problem that the good release lacks,
        and otherwise 0. Only the environments of the last good and the first bad release are kept.
        """
        good, bad = self.releases[0], self.releases[-1]
        criterion = self.progress.criterion or self._find_criterion(good, bad)
        if criterion is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            print(f"{self.package} {bad} does not differ from {good} beyond the noise")
            return 1
        print_progress(f"criterion: {', '.join(criterion.cases)} {criterion.problem}, as in {bad}")
        last_good, *untestable, first_bad = search_releases(
            self.releases, lambda release: self._test_release(release, criterion)
        )
        for test in self.progress.tested:
            print(f"{self.package} {test.release}: {test.status.value}: {test.reason}")
        print(self._answer_sentence(last_good, untestable, first_bad, criterion))
        pythons = self._build_environment(last_good), self._build_environment(first_bad)
        words = ["busbw", "run", f"--frameworks={self.sessions.framework}", *self.sessions.options]
        print(f"again: {shlex.join([*words, *self.sessions.comparison_options(*pythons)])}")
        for release in set(self.releases).difference((last_good, first_bad)):
            shutil.rmtree(self.folder / release, ignore_errors=True)
        return 0

    def _find_criterion(self, good_release: str, bad_release: str) -> Criterion | None:
        """Run sessions of both releases, and return the problem that only the bad release has.

        Returns None if the sessions show no such problem. Also saves the criterion in the progress.
        """
        sessions = self.sessions
        sessions.begin_subject(f"the good release, {self.package} {good_release}")
        good_python = self._build_environment(good_release)
        result = sessions.run_alone(good_python)
        sessions.begin_subject(f"the bad release, {self.package} {bad_release}")
        bad_python = self._build_environment(bad_release)
        for verdict in result.verdicts.values():
            if verdict.outcome in FAILURES:
                print(f"{self.package} {good_release} fails itself: {verdict.headline()}")
        criterion = None
        for _ in range(1 if sessions.is_compiling else _MAX_CRITERION_SESSIONS):
            criterion = find_criterion(result, sessions.run_comparison(good_python, bad_python))
            if criterion is not None:
                break
        if criterion is not None and criterion.is_failure and not sessions.is_compiling:
            criterion = sessions.with_measured_failure_rate(criterion, bad_python)
        if criterion is not None and criterion.problem == "slow":
            criterion = sessions.with_measured_time_ratio(criterion, good_python, bad_python)
        self._save_progress(criterion=criterion)
        return criterion

    def _test_release(self, release: str, criterion: Criterion) -> Status:
        """Test a release by `criterion`, save the progress, and return the status of the release.

        A release that an earlier run of the same command tested is not tested again.
        """
        for test in self.progress.tested:
            if test.release == release:
                return test.status
        self.sessions.begin_subject(f"{self.package} {release}")
        try:
            status, reason = self.sessions.decide_status(
                criterion,
                self._build_environment(self.releases[0]),
                self._build_environment(release),
            )
        except StackError as error:
            status, reason = Status.UNTESTABLE, str(error)
        print_progress(f"{self.package} {release}: {status.value}: {reason}")
        test = TestedRelease(release=release, status=status, reason=reason)
        self._save_progress(tested=(*self.progress.tested, test))
        return status

    def _build_environment(self, release: str) -> str:
        """Build the environment with a release, and return the path of the environment's Python.

        An environment that exists is not built again. Raises StackError, with uv's message, if uv
        fails.
        """

        def build(new: Path) -> None:
            requirements = self._requirements(release)
            lock = resolve_requirements(requirements, self.interpreter, *PYLOCK_OPTIONS)
            install_packages(new, lock, self.interpreter)

        build_once(self.folder / release, build)
        return f"{self.folder / release}/bin/python"

    def _requirements(self, release: str) -> list[str]:
        """Return the requirements (PEP 508) from which the environment of `release` is built.

        If the package needs JAX, a requirement of JAX is added, unless the user pins JAX.
        """
        requirements = [f"{self.package}=={release}", *self.pinned_requirements]
        if "jax" in {Requirement(pin).name for pin in self.pinned_requirements}:
            return requirements
        if self.package.startswith("jax-"):
            return [*requirements, f"jax=={release}"]
        return [*requirements, "jax"] if self.package in ("jaxlib", "libtpu") else requirements

    def _answer_sentence(
        self, last_good: str, untestable: Sequence[str], first_bad: str, criterion: Criterion
    ) -> str:
        """Return the sentence that tells the user the result of the bisection.

        `last_good`, `untestable` and `first_bad` are versions. `untestable` are the versions
        between the last good and the first bad release, none of which could be tested.
        """
        between = (
            f" or one of {', '.join(untestable)}, which cannot be tested" if untestable else ""
        )
        text = (
            f"first bad release: {self.package} {first_bad}{between} ({criterion.problem}); "
            f"last good release: {last_good}"
        )
        if self.is_fixed:
            text = (
                f"first good release: {self.package} {last_good}{between}; "
                f"last bad release: {first_bad} ({criterion.problem})"
            )
        # The good and the bad release of the command line were decided, too.
        tested = len(self.progress.tested) + 2
        decided = sum(test.status is not Status.UNTESTABLE for test in self.progress.tested) + 2
        text += (
            f"; {tested} of {plural(len(self.releases), 'release')} tested, "
            f"{tested - decided} untestable"
        )
        if self.sessions.is_compiling:
            return text
        return f"{text}; chance of a wrong answer <= {100 * ERROR_RISK * decided:.1g} %"
