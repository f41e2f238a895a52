"""The whole session: whether what was asked for was measured, so that verdicts mean something.

Says nothing of single cases; they have said it themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model import Measurement, SessionOutcome, SessionVerdict, Verdict


def judge_session(
    verdicts: Sequence[Verdict],
    measurements: Sequence[Measurement],
    *,
    launches: int,
    asked_to_skip: str = "",
) -> SessionVerdict:
    """NO_VERDICT when nothing was measured, a launch is missing, or a run was asked to skip.

    `asked_to_skip` names an option by which the user asked that benchmarks should not run; the
    cases are measured and judged all the same, but such a session is not green.
    """
    reasons = []
    if not any(m.runs or m.failures for m in measurements):
        skipped = sorted({v.text for v in verdicts})
        reasons.append("nothing was measured" + (f": {'; '.join(skipped)}" if skipped else ""))
    short = [m.case.name for m in measurements if 0 < len(m.runs) + len(m.failures) < launches]
    if short:
        reasons.append(f"{len(short)} cases have fewer than {launches} launches, first {short[0]}")
    if asked_to_skip:
        reasons.append(
            f"{asked_to_skip} asks that benchmarks be skipped; a skipped session is not green"
        )
    if reasons:
        return SessionVerdict(outcome=SessionOutcome.NO_VERDICT, text="; ".join(reasons))
    text = f"{len(measurements)} cases measured in {launches} launches each"
    return SessionVerdict(outcome=SessionOutcome.FINE, text=text)
