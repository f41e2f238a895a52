"""The whole session: whether what was asked for was measured, so that verdicts mean something.

Says nothing of single cases; they have said it themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Measurement, Outcome, SessionOutcome, SessionVerdict, Verdict, plural

from .policy import MOST_NOISY


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What is known of a session beside its cases.

    `asked_to_skip` names an option by which the user asked that benchmarks should not run.
    `missing` are baselines of selected cases that could not be measured, `fallen_back` clocks and
    algorithms that are not those of the baseline; `suspected` are cases that look slower and could
    not be seen again; `shifted` says how the machine's speed changed,
    `curve` what moved without any single size showing it.
    """

    launches: int
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

    There is no verdict when nothing was measured, a launch or a baseline's case is missing, a
    clock or an algorithm fell back, more than a tenth of the cases are noisy, or a run was asked
    to skip: such a session is not green, whatever its cases say.
    """
    reasons = tuple(_reasons(verdicts, measurements, about))
    if reasons:
        return SessionVerdict(outcome=SessionOutcome.NO_VERDICT, text="; ".join(reasons))
    if about.shifted:
        return SessionVerdict(outcome=SessionOutcome.ENV_SHIFT, text=about.shifted)
    if about.curve:
        return SessionVerdict(outcome=SessionOutcome.CURVE_SHIFT, text="; ".join(about.curve))
    text = f"{plural(len(measurements), 'case')} measured in {_launches(measurements)} each"
    return SessionVerdict(outcome=SessionOutcome.FINE, text=text)


def _launches(measurements: Sequence[Measurement]) -> str:
    counts = {len(m.runs) + len(m.failures) for m in measurements}
    if len(counts) == 1:
        return plural(min(counts), "launch")
    return f"{min(counts)} to {max(counts)} launches"


def _reasons(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], about: Circumstances
) -> Iterator[str]:
    if not any(m.runs or m.failures for m in measurements):
        skipped = sorted({v.text for v in verdicts})
        yield "nothing was measured" + (f": {'; '.join(skipped)}" if skipped else "")
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
