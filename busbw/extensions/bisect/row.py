"""A row of releases: the good one and the bad one, what is looked for, and which of them did it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw.extensions.stacks.uv import StackError
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural

from .releases import Environments
from .search import Bisection, Shown, Span, every
from .state import State, Tried
from .steps import RISK, Criterion, Sessions, StepError, criterion_of

# In how many sessions the bad one may show what it shows now and then.
_LOOKS = 5
_FLIPPED = {
    Shown.GOOD: Shown.BAD,
    Shown.BAD: Shown.GOOD,
    Shown.UNTESTABLE: Shown.UNTESTABLE,
}
_BROKEN = (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Outcome.COMPILE_ERROR)
_MOVED = (*_BROKEN, Outcome.REGRESSED, Outcome.IMPROVED, Outcome.CHANGED)


@dataclass(kw_only=True)
class Row:
    """The releases of `package` from the first to the last, and what is known of them.

    `fixed`: the last one is good. `say` takes progress, `tell` the answer.
    """

    package: str
    releases: Sequence[str]
    fixed: bool
    every: bool
    sessions: Sessions
    state: State
    environments: Environments
    say: Callable[[str], None]
    tell: Callable[[str], None]

    @property
    def _ends(self) -> tuple[str, str]:
        """The good one and the bad one."""
        first, last = self.releases[0], self.releases[-1]
        return (last, first) if self.fixed else (first, last)

    def answer(self) -> int:
        """Return the exit code; the environments that the answer does not name are removed."""
        if self.every:
            return self._every()
        good, bad = self._ends
        found = self._criterion(good, bad)
        if found is None:
            self.environments.keep((), self.releases)
            self.tell(f"{self.package} {bad} shows nothing that {good} does not: there is no step")
            return 1
        self.say(f"looked for: {', '.join(found.cases)} {found.what}, as {bad} shows")

        def decide(stack: tuple[str, ...]) -> tuple[Shown, str]:
            return self.sessions.decided(found, self.environments.of(good), *stack)

        def test(at: int) -> Shown:
            shown = self._shown(self.releases[at], good, decide)
            return _FLIPPED[shown] if self.fixed else shown

        # As the first one, and as the last one.
        known = {0: Shown.GOOD, len(self.releases) - 1: Shown.BAD}
        span = Bisection(count=len(self.releases), test=test, known=known).run()
        self._tell_tried()
        sentence = self._sentence(span, found)
        self.tell(sentence)
        self.tell(f"again: {self._command(span)}")
        named = self.releases[span.last_good], self.releases[span.first_bad]
        self.environments.keep(named, self.releases)
        self._keep(answer=sentence)
        return 0

    def _criterion(self, good: str, bad: str) -> Criterion | None:
        """What the bad one shows and the good one does not, as far as it is not known yet."""
        if self.state.known.criterion is not None:
            return self.state.known.criterion
        self.say(f"the good one, {self.package} {good}")
        known = self.environments.of(good)
        of_good = self.sessions.alone(*self._stack(known))
        self.say(f"the bad one, {self.package} {bad}")
        stack = self._stack(self.environments.of(bad))
        found, fails = None, [one for one in of_good.verdicts.values() if one.outcome in _BROKEN]
        for one in fails:
            self.tell(f"{self.package} {good} fails itself: {one.headline()}")
        # What shows now and then may show in cases that the good one does not fail.
        once = self.sessions.is_compiled or len(fails) == len(of_good.verdicts)
        for _ in range(1 if once else _LOOKS):
            found = found or criterion_of(of_good, self.sessions.beside(known, *stack))
        if found is not None and found.is_failure and not self.sessions.is_compiled:
            found = self.sessions.rate(found, *stack)
        if found is not None and found.outcome is Outcome.REGRESSED:
            found = self.sessions.ratio(found, known, *stack)
        self._keep(criterion=found)
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
        self.say(f"{self.package} {release}, beside {against}")
        try:
            shown, why = decide(self._stack(self.environments.of(release)))
        except StackError as error:
            shown, why = Shown.UNTESTABLE, str(error)
        self.say(f"{self.package} {release}: {shown.value}: {why}")
        tried = Tried(release=release, against=against, shown=shown.value, why=why)
        self._keep(tried=(*self.state.known.tried, tried))
        self.environments.keep(self._needed(release), self.releases)
        return shown

    def _needed(self, release: str) -> set[str]:
        """With it the ends, and those between which the answer still lies."""
        found = {release, *self._ends}
        for shown in (Shown.GOOD, Shown.BAD):
            alike = [one.release for one in self.state.known.tried if one.shown == shown.value]
            found.update(alike[-1:])
        return found

    def _every(self) -> int:
        def test(before: int, now: int) -> Shown:
            old, new = self.releases[before], self.releases[now]
            return self._shown(new, old, lambda stack: self._step(old, stack))

        changed = every(range(len(self.releases)), test)
        self.environments.keep((), self.releases)
        self._tell_tried()
        untestable = sum(one.shown == Shown.UNTESTABLE.value for one in self.state.known.tried)
        among = f"{plural(len(self.releases), 'release')} of {self.package}"
        self.tell(f"{plural(len(changed), 'step')} among {among}, {untestable} untestable")
        return int(untestable == len(self.releases) - 1)

    def _step(self, old: str, stack: tuple[str, ...]) -> tuple[Shown, str]:
        """Whether anything changed beside the release before, in either direction."""
        sessions, known = self.sessions, self.environments.of(old)
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

    def _keep(self, **changes: Any) -> None:
        self.state.keep(launches=self.sessions.launches, **changes)

    def _tell_tried(self) -> None:
        for one in self.state.known.tried:
            self.tell(f"{self.package} {one.release} beside {one.against}: {one.shown}: {one.why}")

    def _command(self, span: Span) -> str:
        """Return the command that shows the step, measured or compared with the good release."""
        one, other = self.releases[span.first_bad], self.releases[span.last_good]
        now, before = (other, one) if self.fixed else (one, other)
        words = ["busbw", "run", f"--frameworks={self.sessions.framework}", *self.sessions.options]
        words += self._stack(self.environments.of(now))
        if self.sessions.is_compiled:
            words.append(f"--baselines={self.sessions.baselines}")
        else:
            words.append(f"--against={self.sessions.framework}={self.environments.of(before)}")
        return shlex.join(words)

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
        sure = ""
        if not self.sessions.is_compiled:
            wrong = 100 * RISK * (len(span.tried) - untestable)
            sure = f", {launches}; chance of a wrong answer <= {wrong:.1g} %"
        return f"{what}{between}; {tried}, {untestable} untestable{sure}"


def _interval(one: Verdict) -> str:
    text = one.headline()
    if one.ratio is None or one.ratio_interval is None:
        return text
    low, high = one.ratio_interval
    return f"{one.spec.id}: {one.outcome.value} {one.ratio:.3f} x ({low:.3f} to {high:.3f})"
