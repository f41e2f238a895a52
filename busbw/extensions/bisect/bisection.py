"""Bisect the releases of a package: find the criterion, test releases, and print the answer.

A bisection searches a sequence of releases for the first release that has the problem of the last
release. The progress is written after every release, so that the same command continues the
bisection. The module `sessions` runs the sessions. uv lists the releases, and builds an environment
with a release, in which the versions of the other packages fit the release.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Collection, Sequence
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

DOCUMENT_FORMAT = "busbw bisect 3"


def releases_between(package: str, first: Version, last: Version, python: str) -> tuple[str, ...]:
    """Return the versions from the first to the last version that the interpreter can install.

    The versions are in order, oldest first, and include the two given versions. `python` is the
    path of the interpreter. Pre-releases are included if one of the two given versions is a
    pre-release. Raises UsageError if the first version is not older than the last. Raises
    StackError if the index of packages lacks one of the two versions.
    """
    if first >= last:
        raise UsageError(f"{package}: {first} is not older than {last}")
    allowed = "allow" if first.is_prerelease or last.is_prerelease else "disallow"
    options = ("--resolution=lowest", f"--prerelease={allowed}")
    releases = [_resolve_version(f"{package}=={first}", python)]
    newest = _resolve_version(f"{package}=={last}", python)
    while releases[-1] != newest:
        newer = f"{package}>={releases[-1]},!={releases[-1]},<={newest}"
        releases.append(_resolve_version(newer, python, *options))
    return tuple(releases)


def _resolve_version(requirement: str, python: str, *options: str) -> str:
    """Return the version that uv chooses for a requirement of a package, such as ``jax>=0.7``.

    `python` is the path of the interpreter, and `options` are further options of uv. Raises
    StackError if no version satisfies the requirement.
    """
    text = resolve_requirements([requirement], python, "--no-deps", *options)
    return next(iter(Requirement(text.strip()).specifier)).version


def search_releases(
    releases: Sequence[str], test_release: Callable[[str], Status]
) -> Sequence[str]:
    """Search a sequence of releases, from good to bad, for the point where the problem begins.

    Args:
        releases: The versions in order. The first release is good and the last release is bad, and
            neither is tested.
        test_release: Returns the status of a release, and is called at most once for each release.
            If a release is untestable, a release near it is tested instead.

    Returns:
        The versions of the last release without the problem, of the untestable releases after that
        release, and of the first release with the problem.

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
class Progress:
    """The progress of a bisection, as its file contains it.

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


@dataclass(kw_only=True)
class Bisection:
    """A bisection of the releases of a package.

    An environment takes up to a gigabyte, so environments that are no longer needed are removed.

    Attributes:
        package: The name of the package, such as ``jaxlib``.
        releases: The versions in order, from the good release to the bad release.
        is_fixed: Whether to search for the release that fixed a problem: the good release is the
            newest. Otherwise the bisection searches for the release that caused the problem, and
            the bad release is the newest.
        sessions: The runner of the sessions that test a release.
        state: The path of the file with the progress.
        progress: The progress so far.
        cache: The cache folder of busbw, in which the environments are stored.
        pinned_requirements: Requirements of further packages to install, such as ``jax==0.7.0``.
        interpreter: The path of the Python with which the environments are made.

    """

    package: str
    releases: Sequence[str]
    is_fixed: bool
    sessions: SessionRunner
    state: Path
    progress: Progress
    cache: Path
    pinned_requirements: Sequence[str]
    interpreter: str

    def read_progress(self) -> None:
        """Replace the progress by the progress in the file, if the file exists.

        Untestable releases are left out, so that these releases are tested again: a download may
        have failed, or a disk may have been full. Raises UsageError if the file cannot be read, or
        has the progress of another command.
        """
        # A symbolic link that leads to itself counts as a file, so that reading it raises an error
        # now: the progress could not be written there later.
        if not os.path.lexists(os.path.realpath(self.state)):
            return
        with storage.reraise_as(UsageError, ValueError, where=f"{self.state}: "):
            progress = wire.from_json(
                Progress, wire.parse_json(storage.read(self.state)), "progress"
            )
        if (progress.document, progress.command) != (DOCUMENT_FORMAT, self.progress.command):
            raise UsageError(
                f"{self.state} is of another bisection ({' '.join(progress.command)[:200]}); "
                "remove it, or give another --state"
            )
        tested = (test for test in progress.tested if test.status is not Status.UNTESTABLE)
        self.progress = replace(progress, tested=tuple(tested))

    def _save_progress(self, **changes: Any) -> None:
        """Replace fields of the progress by the values in `changes`, and write the file."""
        self.progress = replace(self.progress, **changes)
        storage.write(self.state, json.dumps(wire.to_json(self.progress), indent=1) + "\n")

    def run(self) -> int:
        """Search for the release, and print the answer; return the exit code.

        The exit code is 0, or 1 if the bad release shows no problem that the good release lacks.
        The environments of all releases that the answer does not name are removed.
        """
        good, bad = self.releases[0], self.releases[-1]
        criterion = self.progress.criterion or self._find_criterion(good, bad)
        if criterion is None:
            self._remove_environments(needed=())
            print(f"{self.package} {bad} does not differ from {good} beyond the noise")
            return 1
        print_progress(f"criterion: {', '.join(criterion.cases)} {criterion.problem}, as in {bad}")
        last_good, *untestable, first_bad = search_releases(
            self.releases, lambda release: self._test_release(release, criterion)
        )
        for test in self.progress.tested:
            print(f"{self.package} {test.release}: {test.status.value}: {test.reason}")
        print(self._answer_sentence(last_good, untestable, first_bad, criterion))
        print(f"again: {self._reproducing_command(last_good, first_bad)}")
        self._remove_environments(needed=(last_good, first_bad))
        return 0

    def _find_criterion(self, good_release: str, bad_release: str) -> Criterion | None:
        """Run sessions of both releases, and return the problem that only the bad release shows.

        Returns None if the sessions of the bad release show no such problem. Saves the criterion in
        the progress.
        """
        self.sessions.begin_subject(f"the good release, {self.package} {good_release}")
        good_python = self._build_environment(good_release)
        result = self.sessions.run_alone(self._build_python_option(good_release))
        self.sessions.begin_subject(f"the bad release, {self.package} {bad_release}")
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
        if criterion is not None and criterion.problem == "slow":
            criterion = self.sessions.with_measured_time_ratio(criterion, good_python, stack_option)
        self._save_progress(criterion=criterion)
        return criterion

    def _build_python_option(self, release: str) -> str:
        """Build a release's environment if missing; return the --python option that uses it."""
        return f"--python={self.sessions.framework}={self._build_environment(release)}"

    def _test_release(self, release: str, criterion: Criterion) -> Status:
        """Test a release by `criterion`, save the progress, and return the status of the release.

        A release that an earlier run of the same command tested is not tested again. Environments
        that the rest of the search does not need are removed.
        """
        tested = self.progress.tested
        for test in tested:
            if test.release == release:
                return test.status
        self.sessions.begin_subject(f"{self.package} {release}")
        try:
            good_python = self._build_environment(self.releases[0])
            stack_option = self._build_python_option(release)
            status, reason = self.sessions.decide_status(criterion, good_python, stack_option)
        except StackError as error:
            status, reason = Status.UNTESTABLE, str(error)
        print_progress(f"{self.package} {release}: {status.value}: {reason}")
        tested += (TestedRelease(release=release, status=status, reason=reason),)
        self._save_progress(tested=tested)
        # The answer lies between the good release and the bad release that were tested last.
        latest = {test.status: test.release for test in tested}
        self._remove_environments(needed=(self.releases[0], self.releases[-1], *latest.values()))
        return status

    def _build_environment(self, version: str) -> str:
        """Return the path of the interpreter in the environment with the release `version`.

        Builds the environment if the environment does not exist. Raises StackError, with uv's
        message, if uv fails.
        """
        folder, requirements = self._environment_folder(version), self._requirements(version)

        def build(new: Path) -> None:
            lock = resolve_requirements(requirements, self.interpreter, *PYLOCK_OPTIONS)
            install_packages(new, lock, self.interpreter)

        build_once(folder, build)
        return f"{folder}/bin/python"

    def _remove_environments(self, needed: Collection[str]) -> None:
        """Remove the environments of all releases but those of the versions `needed`."""
        for version in set(self.releases).difference(needed):
            shutil.rmtree(self._environment_folder(version), ignore_errors=True)

    def _environment_folder(self, version: str) -> Path:
        """Return the path of the environment with the release `version`, which need not exist."""
        text = "\n".join([self.interpreter, *self._requirements(version)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.cache / "releases" / f"{self.package}-{version}-{digest}"

    def _requirements(self, version: str) -> list[str]:
        """Return the requirements (PEP 508) of the environment with the release `version`.

        An environment also needs JAX in a version that fits, unless the user pins JAX.
        """
        requirements = [f"{self.package}=={version}", *self.pinned_requirements]
        if "jax" in {Requirement(pin).name for pin in self.pinned_requirements}:
            return requirements
        if self.package.startswith("jax-"):
            return [*requirements, f"jax=={version}"]
        return [*requirements, "jax"] if self.package in ("jaxlib", "libtpu") else requirements

    def _reproducing_command(self, last_good: str, first_bad: str) -> str:
        """Return a command line that compares both releases of the answer, to show the problem."""
        framework = self.sessions.framework
        words = ["busbw", "run", f"--frameworks={framework}", *self.sessions.options]
        words.append(self._build_python_option(first_bad))
        if self.sessions.is_compiling:
            words.append(f"--baselines={self.sessions.baselines_folder}")
        else:
            words.append(f"--against={framework}={self._build_environment(last_good)}")
        return shlex.join(words)

    def _answer_sentence(
        self, last_good: str, untestable: Sequence[str], first_bad: str, criterion: Criterion
    ) -> str:
        """Return the sentence that tells the user the result of the bisection.

        `untestable` are the releases between the last good and the first bad release.
        """
        text = (
            f"first {criterion.problem} release: {self.package} {first_bad}; "
            f"{last_good} is the last good one"
        )
        if self.is_fixed:
            text = (
                f"first release without it: {self.package} {last_good}; "
                f"{first_bad} is the last one with it"
            )
        if untestable:
            text += f", or one of {', '.join(untestable)}, which cannot be tested"
        # The good and the bad release of the command line were decided, too.
        tested = len(self.progress.tested) + 2
        decided = sum(test.status is not Status.UNTESTABLE for test in self.progress.tested) + 2
        text += (
            f"; {tested} of {plural(len(self.releases), 'release')} tried, "
            f"{tested - decided} untestable"
        )
        if self.sessions.is_compiling:
            return text
        return f"{text}; chance of a wrong answer <= {100 * ERROR_RISK * decided:.1g} %"
