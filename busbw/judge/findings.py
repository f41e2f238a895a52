"""Findings of extensions about cases, and how they change the verdicts of these cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.model.verdict import Verdict
from busbw.model.words import Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A finding of an extension about one case: notes and values, a doubt, or a failure.

    `notes` and `extra` do not change the outcome. `extra` has values by name, which tables can
    show. A `doubt` names another possible cause of the slower time: REGRESSED becomes NOISY. A
    `failure` is the reason why the case becomes CHANGED. Both texts are empty if they do not apply.
    """

    notes: tuple[str, ...] = ()
    doubt: str = ""
    failure: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


def merge_findings(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict on a case, changed by all findings about the case.

    A failure overrides a doubt, and a doubt overrides the verdict of the rule. If the case fails
    anyway, the failure becomes a note. The order of the findings changes only the order of texts.
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
