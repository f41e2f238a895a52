"""The whole session: whether what was asked for was measured, so that verdicts mean something.

Says nothing of single cases; they have said it themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import (
    CompiledVerdict,
    Measurement,
    Outcome,
    SessionOutcome,
    SessionVerdict,
    Verdict,
    plural,
)

from .policy import MOST_NOISY


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What is known of a session beside its cases.

    `asked_to_skip` names an option by which the user asked that benchmarks should not run.
    `missing` are baselines of selected cases that could not be measured, `fallen_back` clocks and
    algorithms that are not those of the baseline; `suspected` are cases that look slower and could
    not be seen again; `shifted` says how the machine's speed changed,
    `curve` what moved without any single size showing it. `expecting` says that baselines are what
    cases are held against, `accepting` that what is measured becomes one where there is none.
    """

    launches: int
    expecting: bool = True
    accepting: bool = False
    asked_to_skip: str = ""
    missing: tuple[str, ...] = ()
    fallen_back: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    shifted: str = ""
    curve: tuple[str, ...] = ()


def judge_session(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> SessionVerdict:
    """FINE, or the first of: NO_VERDICT, ENV_SHIFT, CURVE_SHIFT, with every reason for it.

    There is no verdict when no case gave a time, a launch or a baseline's case is missing, a
    clock or an algorithm fell back, more than a tenth of the cases are noisy, or a run was asked
    to skip: such a session is not green, whatever its cases say. Without any time a session is
    FINE only if every case ran out of memory as its baseline expects.
    """
    failed = failed_text(verdicts)
    reasons = tuple(_reasons(verdicts, measurements, about))
    if reasons:
        outcome, text = SessionOutcome.NO_VERDICT, "; ".join(reasons)
    elif about.shifted:
        outcome, text = SessionOutcome.ENV_SHIFT, about.shifted
    elif about.curve:
        outcome, text = SessionOutcome.CURVE_SHIFT, "; ".join(about.curve)
    else:
        outcome, text = SessionOutcome.FINE, _measured(verdicts, measurements)
    parts = (failed, text) if outcome is SessionOutcome.FINE else (text, failed)
    return SessionVerdict(
        outcome=outcome,
        text="; ".join(part for part in parts if part),
        failed_cases=sum(verdict.failed for verdict in verdicts),
    )


def failed_text(verdicts: Sequence[Verdict] | Sequence[CompiledVerdict]) -> str:
    """How many cases failed, by outcome; empty where none did."""
    failed = Counter(verdict.outcome.value for verdict in verdicts if verdict.failed)
    if not failed:
        return ""
    each = ", ".join(f"{count} {name}" for name, count in failed.items())
    return f"{failed.total()} of {plural(len(verdicts), 'case')} failed: {each}"


def _measured(verdicts: Sequence[Verdict], measurements: Sequence[Measurement]) -> str:
    """How many cases gave times, in how many launches, and how many gave none."""
    timed = [measurement for measurement in measurements if measurement.runs]
    if not timed:
        return f"{plural(len(verdicts), 'case')} out of memory, as expected"
    without = len(measurements) - len(timed)
    more = f", {without} without a time" if without else ""
    return f"{plural(len(timed), 'case')} measured in {_launches(timed)} each{more}"


def _launches(measurements: Sequence[Measurement]) -> str:
    counts = {len(m.runs) + len(m.failures) for m in measurements}
    if len(counts) == 1:
        return plural(min(counts), "launch")
    return f"{min(counts)} to {max(counts)} launches"


def _without_times(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> Iterator[str]:
    """Why a session in which no launch gave a time means nothing.

    One in which everything ran out of memory does mean something where the baselines expect that,
    or are asked to from now on.
    """
    if any(measurement.runs for measurement in measurements):
        return
    if not any(measurement.failures for measurement in measurements):
        skipped = sorted({v.text for v in verdicts})
        yield "nothing was measured" + (f": {'; '.join(skipped)}" if skipped else "")
        return
    expected = (about.accepting or (v.expected and about.expecting) for v in verdicts)
    if not all(expected) or any(v.outcome is not Outcome.OUT_OF_MEMORY for v in verdicts):
        each = Counter(v.outcome.value for v in verdicts)
        counted = ", ".join(f"{count} {name}" for name, count in each.items())
        yield f"no case gave a time: {counted}"


def _reasons(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> Iterator[str]:
    yield from _without_times(verdicts, measurements, about)
    short = [
        m.case.name for m in measurements if 0 < len(m.runs) + len(m.failures) < about.launches
    ]
    if short:
        count = plural(len(short), "case")
        yield f"{count} with fewer than {about.launches} launches, first {short[0]}"
    if about.missing:
        yield f"there are baselines that were not measured: {'; '.join(about.missing)}"
    yield from about.fallen_back
    if about.suspected:
        yield f"suspected and not seen again in the time: {', '.join(about.suspected)}"
    noisy = [v for v in verdicts if v.outcome is Outcome.NOISY]
    if len(noisy) > MOST_NOISY * len(verdicts):
        first = noisy[0].case.name if noisy[0].case else noisy[0].spec.id
        yield f"{len(noisy)} of {plural(len(verdicts), 'case')} too noisy to judge, first {first}"
    if about.asked_to_skip:
        option = about.asked_to_skip
        yield f"{option} asks that benchmarks be skipped; a skipped session is not green"
