"""`busbw bisect PACKAGE --good=V --bad=V -- OPTIONS`: which release did it.

Each release is an environment of its own; what a step shows is decided by a session with OPTIONS.
What is known is kept after every step, so that the same command goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.bisect.flags import FlagsError, flags_in, tried
from busbw.bisect.releases import ReleaseError, environment, releases_of
from busbw.bisect.search import Bisection, Shown, Span, every
from busbw.bisect.state import State, StateError
from busbw.bisect.steps import Criterion, Sessions, StepError, criterion_of
from busbw.frameworks import FRAMEWORKS
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural
from busbw.session import forms
from busbw.session.folders import stack_cache_of
from busbw.session.option import Option, file_option, folder_option, takes
from busbw.stacks.lock import StackError

from . import Commands, UsageError, add_command, command_error, usage_error

ORDER, PASSES_ON = 1, True
_DESCRIPTION = """
Find the first release of PACKAGE that shows what --bad shows and --good does not: slower in turn
with the good one, another program (--topology), a wrong value, a crash, no memory. OPTIONS are
those of `busbw run`. Exit code 0: it was found.
"""

_OPTIONS = (
    Option(name="package", nargs="*", help="such as jaxlib, libtpu, tensorflow, jax-cuda13-pjrt"),
    Option(name="good", **takes("VERSION"), help="a release that is as it should be"),
    Option(name="bad", **takes("VERSION"), help="a release that is not"),
    file_option("flags", "in place of releases: what each flag in FILE does, one in a line"),
    Option(
        name="fixed", flag=True, help="--good is the later one: find the release that mended it"
    ),
    Option(name="every", flag=True, help="try all releases, and name every step"),
    Option(name="pre", flag=True, help="try release candidates, too"),
    Option(
        name="with",
        **takes("PIN"),
        repeated=True,
        help="install this, too, such as jax==0.7.0; may be repeated",
    ),
    Option(
        name="python",
        **takes("PYTHON", default=sys.executable),
        help="the Python of the environments",
    ),
    Option(
        name="framework",
        parse=forms.word(tuple(FRAMEWORKS)),
        choices=tuple(FRAMEWORKS),
        help="what measures; default: tensorflow for its packages, else jax",
    ),
    folder_option("stack_cache", "where environments are kept; default: the user's cache folder"),
    file_option("state", "where what is known is kept; default: in the cache, by the words"),
    file_option("log", "append what the sessions print to this file"),
)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "bisect",
        run,
        *_OPTIONS,
        help="which release did it",
        description=_DESCRIPTION,
    )


def run(options: argparse.Namespace) -> int:
    with usage_error(StateError, ReleaseError, FlagsError), command_error(StackError, StepError):
        if options.flags is not None:
            return _flags(options)
        return _Run.of(options).answer()


def _flags(options: argparse.Namespace) -> int:
    """What each flag does; exit code 1 where one changes something, or is refused."""
    if options.package or options.good or options.bad:
        raise UsageError("--flags: accepted is it alone, or PACKAGE with --good and --bad")
    flags = flags_in(options.flags)
    with tempfile.TemporaryDirectory(prefix="busbw-bisect.") as baselines:
        sessions = Sessions(
            framework=options.framework or "jax",
            options=options.passed,
            baselines=Path(baselines),
            is_compiled=_is_compiled(options.passed),
            log=_log(options.log),
        )
        found = []
        for one in tried(sessions, flags):
            print(f"{one.text}: {one.does}{': ' if one.how else ''}{one.how}", flush=True)
            found.append(one)
    each = found[1:] if len(flags) > 1 else found
    counts = Counter(one.does for one in each)
    print(
        f"of {plural(len(each), 'flag')} " + ", ".join(f"{n} {does}" for does, n in counts.items())
    )
    return int(any(one.does != "nothing" for one in each))


def _is_compiled(words: Sequence[str]) -> bool:
    return any(word.startswith("--topology") for word in words)


@dataclass(kw_only=True)
class _Run:
    """One bisection: the releases from the first to the last, and what is known of them."""

    package: str
    releases: Sequence[str]
    fixed: bool
    every: bool
    sessions: Sessions
    state: State
    environment_of: Callable[[str], str]

    @classmethod
    def of(cls, options: argparse.Namespace) -> _Run:
        if len(options.package) != 1 or not (options.good and options.bad):
            raise UsageError(
                "accepted is one PACKAGE, such as jaxlib, with --good and --bad, or --flags=FILE; "
                "and after -- OPTIONS"
            )
        (package,) = options.package
        first, last = options.good, options.bad
        if options.fixed:
            first, last = last, first
        listed = releases_of(package, options.python)
        found = listed.between(first, last, pre=options.pre)
        if listed.foreign:
            _say(f"not for this Python: {', '.join(listed.foreign)}; see --python")
        cache = stack_cache_of(options.stack_cache)
        asked = (package, first, last, *(getattr(options, "with") or ()), options.python)
        asked = (*asked, *[flag for flag in ("fixed", "every", "pre") if getattr(options, flag)])
        asked = (*asked, "--", *options.passed)
        name = hashlib.sha256("\0".join(asked).encode()).hexdigest()[:16]
        state = State(path=options.state or cache / "bisect" / f"{name}.json", asked=asked)
        baselines = state.path.with_suffix(".baselines")
        baselines.mkdir(parents=True, exist_ok=True)
        state.read()
        if state.tried:
            _say(f"goes on with {plural(len(state.tried), 'step')} of {state.path}")
        framework = options.framework or _framework_of(package)
        return cls(
            package=package,
            releases=found,
            fixed=options.fixed,
            every=options.every,
            sessions=Sessions(
                framework=framework,
                options=options.passed,
                baselines=baselines,
                is_compiled=_is_compiled(options.passed),
                log=_log(options.log),
                launches=state.launches,
            ),
            state=state,
            environment_of=lambda version: environment(
                cache, package, version, getattr(options, "with") or (), options.python
            ),
        )

    @property
    def _ends(self) -> tuple[str, str]:
        """The good one and the bad one."""
        first, last = self.releases[0], self.releases[-1]
        return (last, first) if self.fixed else (first, last)

    def answer(self) -> int:
        if self.every:
            return self._every()
        good, bad = self._ends
        found = self._criterion(good, bad)
        if found is None:
            print(f"{self.package} {bad} shows nothing that {good} does not: there is no step")
            return 1
        _say(f"looked for: {', '.join(found.cases)} {found.what}, as {bad} shows")
        against = self.environment_of(good)

        def test(at: int) -> Shown:
            shown = self._shown(
                self.releases[at], good, lambda stack: self.sessions.decided(found, against, *stack)
            )
            return _FLIPPED[shown] if self.fixed else shown

        # As the first one, and as the last one.
        known = {0: Shown.GOOD, len(self.releases) - 1: Shown.BAD}
        span = Bisection(count=len(self.releases), test=test, known=known).run()
        self._print_tried()
        print(self._sentence(span, found))
        return 0

    def _criterion(self, good: str, bad: str) -> Criterion | None:
        """What the bad one shows and the good one does not, as far as it is not known yet."""
        if self.state.criterion is not None:
            return self.state.criterion
        _say(f"the good one, {self.package} {good}")
        known = self.environment_of(good)
        of_good = self.sessions.alone(*self._stack(known))
        _say(f"the bad one, {self.package} {bad}")
        stack = self._stack(self.environment_of(bad))
        found = None
        for _ in range(1 if self.sessions.is_compiled else _LOOKS):
            found = found or criterion_of(of_good, self.sessions.beside(known, *stack))
        if found is not None and found.is_failure and not self.sessions.is_compiled:
            found = self.sessions.rate(found, *stack)
        if found is not None and found.outcome is Outcome.REGRESSED:
            found = self.sessions.ratio(found, known, *stack)
        self.state.criterion = found
        self._keep()
        return found

    def _stack(self, python: str) -> tuple[str, ...]:
        return (f"--python={self.sessions.framework}={python}",)

    def _shown(
        self,
        release: str,
        against: str,
        decide: Callable[[tuple[str, ...]], tuple[Shown, str]],
    ) -> Shown:
        shown = self.state.shown(release, against)
        if shown is not None:
            return shown
        _say(f"{self.package} {release}, beside {against}")
        try:
            shown, why = decide(self._stack(self.environment_of(release)))
        except StackError as error:
            shown, why = Shown.UNTESTABLE, str(error)
        _say(f"{self.package} {release}: {shown.value}: {why}")
        self.state.launches = self.sessions.launches
        self.state.add(release, against, shown, why)
        return shown

    def _every(self) -> int:
        def test(before: int, now: int) -> Shown:
            old, new = self.releases[before], self.releases[now]
            return self._shown(new, old, lambda stack: self._step(old, stack))

        changed = every(range(len(self.releases)), test)
        self._print_tried()
        steps = plural(len(changed), "step")
        print(f"{steps} among {plural(len(self.releases), 'release')} of {self.package}")
        return 0

    def _step(self, old: str, stack: tuple[str, ...]) -> tuple[Shown, str]:
        """Whether anything changed beside the release before, in either direction."""
        sessions, known = self.sessions, self.environment_of(old)
        try:
            if sessions.is_compiled:
                sessions = replace(sessions, baselines=sessions.baselines / old)
                if not sessions.baselines.exists():
                    sessions.baselines.mkdir()
                    sessions.alone(*self._stack(known))
            answer = sessions.beside(known, *stack)
        except StepError as error:
            return Shown.UNTESTABLE, str(error)
        self.sessions.launches = max(self.sessions.launches, sessions.launches)
        moved = [one for one in answer.verdicts.values() if one.outcome in _MOVED]
        if any(one.outcome in _BROKEN for one in moved) or not answer.verdicts:
            return Shown.UNTESTABLE, "; ".join(one.headline() for one in moved)
        said = [_interval(one) for one in moved or answer.verdicts.values() if moved or one.ratio]
        return (Shown.BAD if moved else Shown.GOOD), "; ".join(said) or "nothing changed"

    def _keep(self) -> None:
        self.state.launches = self.sessions.launches
        self.state.keep()

    def _print_tried(self) -> None:
        for one in self.state.tried:
            print(f"{self.package} {one.release} beside {one.against}: {one.shown}: {one.why}")

    def _sentence(self, span: Span, found: Criterion) -> str:
        last, first = self.releases[span.last_good], self.releases[span.first_bad]
        untestable = sum(one is Shown.UNTESTABLE for one in span.tried.values())
        what = f"first release without it: {self.package} {first}; {last} is the last one with it"
        if not self.fixed:
            what = (
                f"first {found.what} release: {self.package} {first}; {last} is the last good one"
            )
        between = ""
        if span.between:
            names = ", ".join(self.releases[at] for at in span.between)
            between = f", or one of {names}, which cannot be tested"
        tried = f"{len(span.tried)} of {plural(len(self.releases), 'release')} tried"
        launches = plural(self.sessions.launches, "launch")
        asked = "" if self.sessions.is_compiled else f", {launches}"
        return f"{what}{between}; {tried}, {untestable} untestable{asked}"


# In how many sessions the bad one may show what it shows now and then.
_LOOKS = 5
_FLIPPED = {
    Shown.GOOD: Shown.BAD,
    Shown.BAD: Shown.GOOD,
    Shown.UNTESTABLE: Shown.UNTESTABLE,
}
_BROKEN = (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Outcome.COMPILE_ERROR)
_MOVED = (*_BROKEN, Outcome.REGRESSED, Outcome.IMPROVED, Outcome.CHANGED)


def _interval(one: Verdict) -> str:
    text = one.headline()
    if one.ratio is None or one.ratio_interval is None:
        return text
    low, high = one.ratio_interval
    return f"{one.spec.id}: {one.outcome.value} {one.ratio:.3f} x ({low:.3f} to {high:.3f})"


def _framework_of(package: str) -> str:
    return "tensorflow" if package.startswith(("tensorflow", "keras")) else "jax"


def _log(path: Path | None) -> Callable[[str], None]:
    def log(text: str) -> None:
        if path is not None:
            with path.open("a") as file:
                file.write(text)

    return log


def _say(words: str) -> None:
    print(f"busbw: {words}", file=sys.stderr, flush=True)
