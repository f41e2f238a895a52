"""Findings of extensions about cases, and how they change the verdicts of these cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.model.verdict import Verdict
from busbw.model.words import Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A finding of an extension about one case.

    Attributes:
        notes: Texts that do not change the outcome.
        doubt: Another possible cause of a slower time, which changes REGRESSED to NOISY; empty
            without a doubt.
        failure: The reason why the outcome becomes CHANGED; empty without a failure.
        extra: Maps names to values, which tables can show.

    """

    notes: tuple[str, ...] = ()
    doubt: str = ""
    failure: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


def merge_findings(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict on a case, changed by the findings about the case.

    A failure overrides a doubt, and a doubt overrides the verdict of the rule. A failure becomes a
    note if the case already fails. The order of the findings changes only the order of texts.
    """
    doubts = [finding.doubt for finding in findings if finding.doubt]
    failures = [finding.failure for finding in findings if finding.failure]
    notes = [*verdict.notes, *(note for finding in findings for note in finding.notes)]
    if doubts and verdict.outcome is Outcome.REGRESSED:
        text = "; ".join((verdict.text, *doubts))
        verdict = replace(verdict, outcome=Outcome.NOISY, failed=False, text=text)
    if failures and verdict.failed:
        notes += failures
    elif failures:
        verdict = replace(verdict, outcome=Outcome.CHANGED, failed=True, text="; ".join(failures))
        notes = [note for note in notes if note not in failures]
    extra = {name: value for finding in findings for name, value in finding.extra.items()}
    return replace(verdict, notes=tuple(dict.fromkeys(notes)), extra={**verdict.extra, **extra})
