"""What a release shows: a session with the user's own options, and what of it is the criterion.

Times are decided in turn with a release that is known (`--against`), programs by what the compiler
made of them beside a stored result, and outcomes (a wrong value, a crash, no memory) by themselves.
What the bad release shows and the good one does not is the criterion.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw import storage
from busbw.driver.process import child
from busbw.judge.paired import pairs_of
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural
from busbw.report.reading import DocumentError, Session, read_results
from busbw.stats.launches import of_launches, shift_of_samples

from .search import Shown

# By the outcome of a case: what it shows.
_FAILED = (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Outcome.COMPILE_ERROR)
_SLOWER = (Outcome.REGRESSED, Outcome.CHANGED)
_UNKNOWN = (Outcome.SKIPPED, Outcome.INCOMPARABLE)
# How long an interrupted session may take to remove its files.
_GRACE_S = 10.0
# Exit codes of a session that has judged.
_JUDGED = (0, 1)
_MOST_AGAIN = 12
# How often it must have shown for its rate to be known, and in how many launches at most.
_KNOWN, _MOST_LAUNCHES = 5, 60
# The standard error of the bad one's ratio, as a share of it.
_EXACT = 0.08
# How often a release is taken for another kind; there are some in a bisection.
RISK = 0.01 / 8


class StepError(Exception):
    """A session that judged nothing; the message is its last words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The verdicts of one session by case, and the log ratio of each pair of launches.

    Of its candidate's launches some `failed`.
    """

    verdicts: Mapping[str, Verdict]
    shifts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    launches: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """What the bad release shows: one of these `cases` has this `outcome`, with this `kind`.

    `kind` is that of its failure, such as ``wrong_result``, where it failed; `rate` is the share of
    the bad release's launches that show it. `ratio` is what the bad one takes, where it is slow.
    """

    cases: tuple[str, ...]
    outcome: Outcome
    kind: str = ""
    rate: float = 1.0
    ratio: float = 1.0

    @property
    def what(self) -> str:
        if self.kind:
            return self.kind.replace("_", " ").lower()
        return {Outcome.REGRESSED: "slow", Outcome.CHANGED: "changed"}[self.outcome]

    @property
    def is_failure(self) -> bool:
        return self.outcome in _FAILED

    @property
    def launches(self) -> int:
        """After how many without it its absence is sure: a wrong guess has a chance of RISK.

        It may be half as frequent as it seemed.
        """
        share = min(0.999, self.rate / 2)
        return math.ceil(math.log(RISK) / math.log1p(-share)) if self.rate < 1 else 1

    def shown_by(self, shifts: Sequence[float]) -> Shown | None:
        """By which half of the way to the bad one's ratio the time is in, with a chance of RISK.

        None where it is not known yet.
        """
        if len(shifts) < 2:
            return None
        found, half = of_launches(shifts), math.log(self.ratio) / 2
        if found.lower(RISK) > half:
            return Shown.BAD
        return Shown.GOOD if found.upper(RISK) < half else None

    def shown(self, answer: Answer) -> Shown | None:
        """None: it is not decided, so that the session is asked again.

        One that fails otherwise says nothing, nor does one without a case of these.
        """
        found = [answer.verdicts[case] for case in self.cases if case in answer.verdicts]
        if any(one.outcome is self.outcome and _kind(one) == self.kind for one in found):
            return Shown.BAD
        others = {one.outcome for one in found}
        if len(found) < len(self.cases) or others.intersection((*_FAILED, *_UNKNOWN)):
            return Shown.UNTESTABLE
        return None if Outcome.NOISY in others and not self.is_failure else Shown.GOOD


def criterion_of(good: Answer, bad: Answer) -> Criterion | None:
    """None where the bad one shows nothing that the good one does not."""
    failed = {case: one for case, one in bad.verdicts.items() if one.outcome in _FAILED}
    fails = {case for case, one in good.verdicts.items() if one.outcome in _FAILED}
    new = {case: one for case, one in failed.items() if case not in fails}
    if new:
        first = next(iter(new.values()))
        alike = [c for c, one in new.items() if (one.outcome, _kind(one)) == _both(first)]
        return Criterion(cases=tuple(alike), outcome=first.outcome, kind=_kind(first))
    slower = [case for case, one in bad.verdicts.items() if one.outcome in _SLOWER]
    if not slower:
        return None
    # The one that is furthest away: others may be slower by another release.
    worst = max(slower, key=lambda case: bad.verdicts[case].ratio or 0.0)
    verdict = bad.verdicts[worst]
    return Criterion(cases=(worst,), outcome=verdict.outcome, ratio=verdict.ratio or 1.0)


def _kind(verdict: Verdict) -> str:
    if verdict.outcome not in _FAILED:
        return ""
    return verdict.failure.kind.value if verdict.failure else verdict.outcome.value.lower()


def _both(verdict: Verdict) -> tuple[Outcome, str]:
    return verdict.outcome, _kind(verdict)


@dataclass(kw_only=True)
class Sessions:
    """Runs `options` of `busbw run` with environments; `log` gets what sessions print.

    `is_compiled`: programs are compared with those that `baselines` has of the good release.
    `launches` counts those of all sessions, of both sides.
    """

    framework: str
    options: Sequence[str]
    baselines: Path
    is_compiled: bool
    log: Callable[[str], None] = lambda text: None
    launches: int = 0

    def alone(self, *stack: str) -> Answer:
        """A release by itself; of what is compiled it becomes what the others are compared with."""
        return self._run(*stack, *(("--update-baselines",) if self.is_compiled else ()))

    def beside(self, against: str, *stack: str) -> Answer:
        """Beside a known one: in turn with its interpreter `against`, or with what is stored."""
        if self.is_compiled:
            return self._run(*stack)
        return self._run(*stack, f"--against={self.framework}={against}")

    def with_environment(self, variables: Mapping[str, str]) -> Answer:
        """With variables beside without them: in turn, or compiled beside what is stored."""
        if self.is_compiled:
            return self._run(environment={**os.environ, **variables})
        return self._run(*(f"--try-env={name}={text}" for name, text in variables.items()))

    def decided(self, criterion: Criterion, against: str, *stack: str) -> tuple[Shown, str]:
        """What it shows, and why nothing can be said if so. NOISY is asked again."""
        try:
            if criterion.is_failure and not self.is_compiled:
                return self._looked_for(criterion, *stack)
            if criterion.outcome is Outcome.REGRESSED:
                return self._timed(criterion, against, *stack)
            answer = self.beside(against, *stack)
            return criterion.shown(answer) or Shown.UNTESTABLE, _why(criterion, answer)
        except StepError as error:
            return Shown.UNTESTABLE, str(error)

    def _timed(self, criterion: Criterion, against: str, *stack: str) -> tuple[Shown, str]:
        """By the launches of as many sessions as that takes, up to _MOST_AGAIN."""
        shifts: list[float] = []
        for _ in range(_MOST_AGAIN):
            answer = self.beside(against, *stack)
            if criterion.shown(answer) is Shown.UNTESTABLE:
                return Shown.UNTESTABLE, _why(criterion, answer)
            shifts += answer.shifts.get(criterion.cases[0], ())
            shown = criterion.shown_by(shifts)
            if shown is not None:
                ratio = math.exp(statistics.fmean(shifts))
                return shown, f"{ratio:.3f} x in {plural(len(shifts), 'pair')} of launches"
        return Shown.UNTESTABLE, f"undecided by {plural(len(shifts), 'pair')} of launches"

    def rate(self, criterion: Criterion, *stack: str) -> Criterion:
        """With how often the bad release shows it, of as many launches as that takes to know."""
        failed = launches = 0
        while failed < _KNOWN and launches < _MOST_LAUNCHES:
            answer = self.alone(*stack)
            failed, launches = failed + answer.failed, launches + max(1, answer.launches)
        return replace(criterion, rate=failed / launches)

    def ratio(self, criterion: Criterion, against: str, *stack: str) -> Criterion:
        """With the bad one's ratio, of as many launches as that takes to know."""
        shifts: list[float] = []
        for _ in range(_MOST_AGAIN):
            shifts += self.beside(against, *stack).shifts.get(criterion.cases[0], ())
            if len(shifts) > 1:
                found = of_launches(shifts)
                criterion = replace(criterion, ratio=math.exp(found.mean))
                if found.error < _EXACT * found.mean:
                    break
        return criterion

    def _looked_for(self, criterion: Criterion, *stack: str) -> tuple[Shown, str]:
        """Until it shows, or its absence is sure."""
        launches, wanted = 0, criterion.launches
        while True:
            shown = criterion.shown(answer := self.alone(*stack))
            launches += max(1, answer.launches)
            if shown is not Shown.GOOD or launches >= wanted:
                return shown or Shown.UNTESTABLE, f"{_why(criterion, answer)}; {launches} launches"

    def _run(self, *words: str, environment: Mapping[str, str] | None = None) -> Answer:
        with tempfile.TemporaryDirectory(prefix="busbw-bisect.") as folder:
            results = Path(folder, "results.json")
            command = [sys.executable, "-m", "busbw", "run", f"--frameworks={self.framework}"]
            command += [f"--results={results}", f"--baselines={self.baselines}"]
            command += ["-p", "no:cacheprovider", *words, *self.options]
            code, said = _ran(command, environment or os.environ)
            self.log(f"$ {' '.join(command)}\n{said}")
            if code not in _JUDGED or not results.exists():
                raise StepError(_last_words(said))
            try:
                found = read_results(storage.read(results), str(results))
            except (DocumentError, storage.InputError) as error:
                raise StepError(str(error)) from error
        taken = list(found.measurements.values()) if isinstance(found, Session) else []
        others = found.references.values() if isinstance(found, Session) else ()
        # A launch takes all cases.
        launches = max((one.launches for one in taken), default=0)
        self.launches += launches + max((one.launches for one in others), default=0)
        return Answer(
            verdicts={one.spec.id: one for one in found.verdicts},
            shifts=_shifts(found) if isinstance(found, Session) else {},
            launches=launches,
            failed=max((len(one.failures) for one in taken), default=0),
        )


def _ran(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit code and the output of a session, which ends with this process.

    Interrupted, it is given time to remove its files.
    """
    streams = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    process = child(command, streams, environment)
    try:
        said, _ = process.communicate()
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        process.kill()
        process.wait()
    return process.returncode, said.decode(errors="replace")


def _shifts(found: Session) -> dict[str, list[float]]:
    return {
        spec.id: [
            shift_of_samples(before.samples_s, now.samples_s)
            for before, now in pairs_of(found.references[spec].runs, one.runs)
        ]
        for spec, one in found.measurements.items()
        if spec in found.references
    }


def _why(criterion: Criterion, answer: Answer) -> str:
    found = [answer.verdicts[case] for case in criterion.cases if case in answer.verdicts]
    return found[0].headline() if found else "the session has no such case"


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it said nothing"])[-1]
